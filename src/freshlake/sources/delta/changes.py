"""Reading a net change: small ones on the driver as Arrow, others by Spark over lists of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from freshlake.sources.delta.difference import ADDED, CHANGE_TYPE, change_weight
from freshlake.sources.delta.net import FileChange, NetChange
from freshlake.storage.netting import net as netted
from freshlake.storage.netting import nettable
from freshlake.storage.relation import WEIGHT, Relation, local_frame, weighted
from freshlake.storage.scan import DataFile, NotDriverReadable, driver_readable, read_arrow, read_files, read_places
from freshlake.storage.scan.columns import chosen, quoted, visible
from freshlake.storage.scan.file_list import ROW_INDEX, nameable, place, placed, read_stored

# What the driver reads itself, in compressed bytes, and how many rows it keeps: beyond this Spark's fixed cost is the
# smaller part, and rows handed to Spark one by one the larger.
DRIVER_BYTES = 48 * 1024 * 1024
DRIVER_ROWS = 100_000
# Repeated and narrow values take a hundred times less room in a file than in memory.
READ_ROWS = 4_000_000


@dataclass(frozen=True)
class Limits:
    """How much of a change may come to the driver."""

    bytes: int = DRIVER_BYTES
    rows: int = DRIVER_ROWS
    read_rows: int = READ_ROWS

    def allow(self, net: NetChange, expected_rows: int | None) -> bool:
        """`expected_rows` is what the log says was changed; untouched rows of rewritten files cancel."""
        if net.bytes > self.bytes or net.rows > self.read_rows:
            return False
        return expected_rows is not None and expected_rows <= self.rows


def read_changes(
    spark: SparkSession, net: NetChange, schema: StructType, columns: Sequence[str] | None, on_driver: bool
) -> Relation:
    """The weighted rows of a net change in the given columns."""
    wanted = chosen(schema, columns)
    target = weighted(visible(wanted))
    if not net:
        return Relation.empty(target)
    stored = wanted if wanted.fields else StructType(schema.fields[:1])  # rows without columns cannot be counted
    if on_driver and driver_readable(stored):
        try:
            rows = _on_driver(net, stored).select(target.names)
            return Relation.of_arrow(rows, target, insert_only=net.insert_only)
        except NotDriverReadable:
            pass  # Spark reads what the driver cannot
    frame = _by_spark(spark, net, stored).select(*(F.col(quoted(name)) for name in target.names))
    return Relation.of_frame(frame, target, insert_only=net.insert_only)


def _on_driver(net: NetChange, wanted: StructType) -> pa.Table:
    tables = [_file_rows(net, change, wanted) for change in net.files]
    tables += [_change_file_rows(file, wanted) for file in net.change_files]
    rows = pa.concat_tables(tables)
    if not net.rewrites:
        return rows
    if nettable(rows):
        return netted(rows)  # most rows of a rewritten file are in the old one too
    if rows.num_rows > DRIVER_ROWS:
        raise NotDriverReadable("nested values of many rows are compared by Spark")
    return rows


def _file_rows(net: NetChange, change: FileChange, wanted: StructType) -> pa.Table:
    if not change.vectors:
        return _weighted(read_arrow([change.file], wanted), change.weight)
    places = change.corrections(net.table).sort_by("at").combine_chunks()
    at, weights = places["at"].combine_chunks(), pc.add(places["weight"], change.weight)
    corrected = read_places(change.file, at, wanted).append_column(pa.field(WEIGHT, pa.int64()), weights)
    corrected = corrected.filter(pc.field(WEIGHT) != 0)
    if not change.weight:
        return corrected
    rows = read_arrow([change.file], wanted)
    others = rows.filter(pc.invert(pc.is_in(pa.arange(0, rows.num_rows), value_set=at)))
    return pa.concat_tables([_weighted(others, change.weight), corrected])


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    weights = pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)
    return rows.append_column(pa.field(WEIGHT, pa.int64()), weights)


def _change_file_rows(file: DataFile, wanted: StructType) -> pa.Table:
    rows = read_arrow([file], _with_change_type(wanted))
    added = pc.is_in(rows.column(CHANGE_TYPE), value_set=pa.array(ADDED))
    weights = pc.if_else(added, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    return rows.drop_columns([CHANGE_TYPE]).append_column(pa.field(WEIGHT, pa.int64()), weights)


def _by_spark(spark: SparkSession, net: NetChange, wanted: StructType) -> DataFrame:
    whole: dict[int, list[DataFile]] = {}
    for change in net.files:
        if not change.vectors:
            whole.setdefault(change.weight, []).append(change.file)
    frames = [read_files(spark, files, wanted).select("*", _weight(F.lit(weight))) for weight, files in whole.items()]
    frames += _corrected(spark, net, wanted)
    if net.change_files:
        frames.append(_change_rows(spark, net.change_files, wanted))
    return reduce(DataFrame.unionAll, frames)


def _weight(value: Column) -> Column:
    return value.cast(LongType()).alias(WEIGHT)


def _change_rows(spark: SparkSession, files: Sequence[DataFile], wanted: StructType) -> DataFrame:
    frame = read_files(spark, files, _with_change_type(wanted))
    return frame.select(*(F.col(quoted(field.name)) for field in wanted), change_weight())


def _corrected(spark: SparkSession, net: NetChange, wanted: StructType) -> Iterable[DataFrame]:
    """Files with deletion vectors, those of one weight in one scan where file names tell the rows apart."""
    changes = {change.file.path: change for change in net.files if change.vectors}
    for weight in sorted({change.weight for change in changes.values()}):
        for files in nameable([change.file for change in changes.values() if change.weight == weight]):
            fixes = [changes[file.path].corrections(net.table).rename_columns([ROW_INDEX, WEIGHT]) for file in files]
            rows = read_stored(spark, files, wanted, places=True)
            named = F.broadcast(local_frame(spark, placed(files, fixes)))
            joined = rows.join(named, place(files), "left" if weight else "inner")
            total = F.coalesce(F.col(WEIGHT), F.lit(0)) + F.lit(weight)
            frame = joined.select(*(F.col(quoted(field.name)) for field in wanted), _weight(total))
            yield frame.filter(F.col(WEIGHT) != 0)


def _with_change_type(wanted: StructType) -> StructType:
    return StructType([*wanted.fields, StructField(CHANGE_TYPE, StringType())])
