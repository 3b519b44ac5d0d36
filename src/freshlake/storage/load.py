"""The first load: the base is written first, and counts only once the log's certificate names its version."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.errors import CommitConflict
from freshlake.storage.append import already_committed, confirm
from freshlake.storage.base import Turn, driver_writable, newest_note, write_base, write_rows
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.layout import FoldPoint, logical_schema, to_stored
from freshlake.storage.log import Log
from freshlake.storage.read import open_base
from freshlake.storage.relation import local_frame


def load(
    spark: SparkSession, path: str, stored: StructType, rows: DataFrame | pa.Table, ours: Certificate
) -> FoldPoint:
    """Make `rows` the content of an empty table; after a crash before the log's commit it is still empty."""
    log = Log(path)
    done = already_committed(log, ours)
    if done is None:
        if log.head != 0:
            raise CommitConflict(f"{path} is loaded already", detail=f"it is at version {log.head}")
        done = _load(spark, path, log, stored, rows, ours)
    if done.base_version is None:
        raise CommitConflict(f"version {ours.version} of {path} was not a load")
    return FoldPoint(done.base_version, ours.version)


def _load(
    spark: SparkSession, path: str, log: Log, stored: StructType, rows: DataFrame | pa.Table, ours: Certificate
) -> Certificate:
    note = Note(NoteKind.LOAD, ours, folded_version=ours.version)
    turn = Turn.take(path, ours.epoch)
    if isinstance(rows, pa.Table) and driver_writable(stored, open_base(path).partition_columns):
        write_rows(turn, stored, rows, note, "overwrite")
    else:
        frame = local_frame(spark, rows, logical_schema(stored)) if isinstance(rows, pa.Table) else rows
        write_base(turn, to_stored(frame, stored), note, "overwrite")
    base = open_base(path)
    if base.version or base.rows:  # no rows at all may make no commit
        newest_note(turn, note)
    count = base.rows
    final = replace(ours, base_version=base.version, row_count=count, rows_inserted=count or 0)
    # Nothing of this version is in the log, so the log begins after it.
    log.commit((), Note(NoteKind.LOAD, final), ours.epoch, head=ours.version, floor=ours.version)
    return confirm(log, final)
