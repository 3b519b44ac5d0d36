"""One refresh is one commit to the log: the data files are written first and become visible with the certificate."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.errors import CommitConflict, InvariantViolated, LeaseLost, StorageCorrupt
from freshlake.storage.base import driver_writable
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.layout import VERSION, to_stored
from freshlake.storage.log import Log
from freshlake.storage.netting import totals
from freshlake.storage.relation import WEIGHT, Relation, exactly, weighted

# A log file is small; more writers than this only make more files to open.
_MIN_WRITERS = 8
_PARQUET = {"compression": "snappy", "write_statistics": [WEIGHT], "use_dictionary": True}
# Plain Parquet writers split variants into columns, and what is put together again has other bytes.
_WHOLE_VARIANTS = "spark.sql.variant.writeShredding.enabled"


@dataclass(frozen=True)
class Staged:
    """Data files that are written but not committed, and how many rows they add and remove."""

    actions: tuple[AddAction, ...]
    inserted: int
    deleted: int


def append(spark: SparkSession, path: str, stored: StructType, delta: Relation, ours: Certificate) -> Certificate:
    """Commit a consolidated batch as version `ours.version`; repeating the same refresh changes nothing."""
    log = Log(path)
    if (done := already_committed(log, ours)) is not None:
        return done
    staged = stage(spark, log, stored, delta, ours.version)
    try:
        return _commit(log, staged, ours)
    except CommitConflict:
        # A clean-up came in between, or another refresh: only the latter is a conflict, and is found now.
        log = Log(path)
        return already_committed(log, ours) or _commit(log, staged, ours)


def _commit(log: Log, staged: Staged, ours: Certificate) -> Certificate:
    count = _row_count(ours, log, staged)
    if count is not None and count < 0:
        raise InvariantViolated(
            f"refresh {ours.refresh_id} would delete rows that are not there",
            detail=f"{log.path} has {count - staged.inserted + staged.deleted} rows, "
            f"{staged.deleted} would be deleted and {staged.inserted} inserted",
        )
    final = replace(ours, rows_inserted=staged.inserted, rows_deleted=staged.deleted, row_count=count)
    log.commit(staged.actions, Note(NoteKind.REFRESH, final), ours.epoch, head=ours.version)
    return confirm(log, final)


def already_committed(log: Log, ours: Certificate) -> Certificate | None:
    """The committed certificate if this very refresh is in the log already; raises if another one took its place."""
    log.check(ours.epoch)
    last = log.last_certificate()
    if ours.version <= log.head:
        # nobody made it where a refresh left an internal node as it is
        made = log.known_certificate(ours.version) or last
        if made is None:
            raise CommitConflict(f"version {ours.version} is already taken", detail=f"{log.path} is at {log.head}")
        return _settle(made, ours)
    if last is not None and last.epoch > ours.epoch:
        raise _conflict(last, ours)
    return None


def confirm(log: Log, ours: Certificate) -> Certificate:
    """Read the certificate back: what counts is what the log says, not that the writer reported success."""
    return _settle(log.certificate(ours.version), ours)


def stage(spark: SparkSession, log: Log, stored: StructType, delta: Relation, version: int) -> Staged:
    """Write the rows as files of one version, by the driver when it holds them and can write their types."""
    if delta.arrow is not None and driver_writable(stored):
        return _stage_arrow(log, stored, delta.arrow, version)
    return _stage_frame(log, stored, delta.dataframe(spark), version)


def _settle(found: Certificate, ours: Certificate) -> Certificate:
    if found.is_same_refresh(ours):
        return found
    raise _conflict(found, ours)


def _conflict(found: Certificate, ours: Certificate) -> CommitConflict | LeaseLost:
    detail = f"version {found.version} was made by refresh {found.refresh_id} (lease {found.epoch})"
    if found.epoch > ours.epoch:
        return LeaseLost(f"refresh {ours.refresh_id} (lease {ours.epoch}) came too late", detail=detail)
    return CommitConflict(f"version {ours.version} is already taken", detail=detail)


def _row_count(ours: Certificate, log: Log, staged: Staged) -> int | None:
    if ours.row_count is not None:
        return ours.row_count
    last = log.last_certificate()
    before = last.row_count if last is not None else None if log.head else 0
    return None if before is None else before + staged.inserted - staged.deleted


def _stage_arrow(log: Log, stored: StructType, rows: pa.Table, version: int) -> Staged:
    if not rows.num_rows:
        return Staged((), 0, 0)
    rows = exactly(rows, weighted(stored))
    relative = f"{VERSION}={version}/{uuid.uuid4()}.parquet"
    files = _files_of(log.table)
    pq.write_table(rows, relative, filesystem=files, **_PARQUET)
    action, _ = _add_action(files, relative, version)
    return Staged((action,), *totals(rows))


def _stage_frame(log: Log, stored: StructType, frame: DataFrame, version: int) -> Staged:
    relative = f"{VERSION}={version}/{uuid.uuid4()}"
    seen = Observation()
    counted = to_stored(frame, stored).observe(
        seen,
        F.coalesce(F.sum(F.greatest(F.col(WEIGHT), F.lit(0))), F.lit(0)).alias("inserted"),
        F.coalesce(F.sum(F.greatest(-F.col(WEIGHT), F.lit(0))), F.lit(0)).alias("deleted"),
        F.count("*").alias("rows"),
    )
    spark = frame.sparkSession
    writers = max(_MIN_WRITERS, spark.sparkContext.defaultParallelism)
    with _setting(spark, _WHOLE_VARIANTS, "false"):
        counted.coalesce(writers).write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(
            f"{log.path}/{relative}"
        )
    files = _files_of(log.table)
    written = [info.path for info in files.get_file_info(pafs.FileSelector(relative)) if info.path.endswith(".parquet")]
    staged = [_add_action(files, name, version) for name in sorted(written)]
    if sum(rows for _, rows in staged) != seen.get["rows"]:
        found = f"{sum(rows for _, rows in staged)} rows in {len(written)} files of {relative}"
        raise StorageCorrupt(f"rows of {log.path} went elsewhere", detail=f"{found}, {seen.get['rows']} were written")
    return Staged(tuple(action for action, rows in staged if rows), seen.get["inserted"], seen.get["deleted"])


def _files_of(table: DeltaTable) -> pafs.FileSystem:
    return pafs.PyFileSystem(DeltaStorageHandler.from_table(table._table))


def _add_action(files: pafs.FileSystem, relative: str, version: int) -> tuple[AddAction, int]:
    """A written file as part of a commit, and how many rows it has."""
    with pq.ParquetFile(relative, filesystem=files) as parquet:
        rows, statistics = parquet.metadata.num_rows, _statistics(parquet.metadata)
    size = files.get_file_info(relative).size
    # Statistics of the weight tell which versions only insert, without reading them.
    modified = int(time.time() * 1000)
    return AddAction(relative, size, {VERSION: str(version)}, modified, True, json.dumps(statistics)), rows


def _statistics(footer: pq.FileMetaData) -> dict[str, object]:
    position = footer.schema.names.index(WEIGHT)
    columns = [footer.row_group(i).column(position).statistics for i in range(footer.num_row_groups)]
    known = [column for column in columns if column is not None and column.has_min_max]
    statistics: dict[str, object] = {"numRecords": footer.num_rows}
    if known and len(known) == len(columns):
        statistics["minValues"] = {WEIGHT: min(column.min for column in known)}
        statistics["maxValues"] = {WEIGHT: max(column.max for column in known)}
    return statistics


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, "true") or "true"
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)
