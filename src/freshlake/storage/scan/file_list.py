"""Spark's Parquet reader over an explicit list of files: exactly these rows, whatever the session says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from freshlake.storage.relation import arrow_schema, local_frame
from freshlake.storage.scan.columns import chosen, physical, quoted, visible
from freshlake.storage.scan.files import DataFile

# Each group of partition values is one branch of a union; past this one scan joined with the values is cheaper to plan.
MAX_PARTITION_GROUPS = 32

# A missing or broken file must fail, whatever the session says: otherwise rows would be lost silently.
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}

# Where a row stands, when asked for. Only plain file names are the same in Spark's metadata and in the log.
FILE_NAME, ROW_INDEX = "__fl_file_name", "__fl_row_index"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._=-]+")

Partition: TypeAlias = tuple[tuple[str, str | None], ...]


def read_files(
    spark: SparkSession,
    files: Sequence[DataFile],
    schema: StructType,
    columns: Sequence[str] | None = None,
    partition_columns: Sequence[str] = (),
) -> DataFrame:
    """The rows of exactly these files; columns that an older file lacks are NULL."""
    wanted = chosen(schema, columns)
    whole = [file for file in files if file.deleted is None]
    frames = [read_stored(spark, whole, wanted, partition_columns)] if whole else []
    for group in nameable([file for file in files if file.deleted is not None]):
        frames.append(_read_live(spark, group, wanted, partition_columns))
    return reduce(DataFrame.unionAll, frames) if frames else _no_rows(spark, wanted)


def read_stored(
    spark: SparkSession,
    files: Sequence[DataFile],
    wanted: StructType,
    partition_columns: Sequence[str] = (),
    *,
    places: bool = False,
) -> DataFrame:
    """All rows that are in the files, deleted ones too; `places` adds where each stands."""
    groups: dict[Partition, list[DataFile]] = {}
    for file in files:
        partition = {**dict.fromkeys(partition_columns), **file.partition}
        groups.setdefault(tuple(sorted(partition.items())), []).append(file)
    if len(groups) > MAX_PARTITION_GROUPS and plain_names(files):
        return _read_joined(spark, groups, wanted, places)
    frames = [_read_group(spark, group, wanted, dict(partition), places) for partition, group in groups.items()]
    return reduce(DataFrame.unionAll, frames)


def nameable(files: Sequence[DataFile]) -> Iterable[list[DataFile]]:
    """The files in groups within which a row is known by file name and position: all in one, if the names allow."""
    if plain_names(files):
        return [list(files)] if files else []
    return [[file] for file in files]


def placed(files: Sequence[DataFile], columns: Sequence[pa.Table]) -> pa.Table:
    """For each file a table whose first column is a position, all together, with the file's name."""
    named = [
        table.append_column(FILE_NAME, pa.repeat(_name(file), table.num_rows))
        for file, table in zip(files, columns, strict=True)
    ]
    return pa.concat_tables(named)


def place(files: Sequence[DataFile]) -> list[str]:
    """The columns that tell where a row of these files stands."""
    return [FILE_NAME, ROW_INDEX] if plain_names(files) else [ROW_INDEX]


def _read_live(
    spark: SparkSession, files: Sequence[DataFile], wanted: StructType, partition_columns: Sequence[str]
) -> DataFrame:
    rows = read_stored(spark, files, wanted, partition_columns, places=True)
    deleted = placed(files, [pa.table({ROW_INDEX: file.deleted}) for file in files])
    live = rows.join(F.broadcast(local_frame(spark, deleted)), place(files), "left_anti")
    return live.select(*(F.col(quoted(field.name)) for field in wanted))


def plain_names(files: Sequence[DataFile]) -> bool:
    """Whether file names tell these files apart also in Spark's metadata column."""
    names = {_name(file) for file in files}
    return len(names) == len(files) and all(_PLAIN_NAME.fullmatch(name) for name in names)


def _read_group(
    spark: SparkSession, files: Sequence[DataFile], wanted: StructType, partition: dict[str, str | None], places: bool
) -> DataFrame:
    known = {name.lower(): value for name, value in partition.items()}
    frame = _scan(spark, files, StructType([f for f in wanted if f.name.lower() not in known]), places)
    if not known:
        return frame
    columns = [
        _partition_value(F.lit(known[f.name.lower()]), f) if f.name.lower() in known else F.col(quoted(f.name))
        for f in wanted
    ]
    return frame.select(*columns, *((FILE_NAME, ROW_INDEX) if places else ()))


def _read_joined(
    spark: SparkSession, groups: dict[Partition, list[DataFile]], wanted: StructType, places: bool
) -> DataFrame:
    """One scan of all files, joined by file name with their partition values."""
    names = {name.lower() for partition in groups for name, _ in partition}
    fields = {field.name: f"__fl_partition_{i}" for i, field in enumerate(wanted) if field.name.lower() in names}
    stored = StructType([field for field in wanted if field.name not in fields])
    frame = _scan(spark, [file for group in groups.values() for file in group], stored, places=True)
    joined = frame.join(F.broadcast(local_frame(spark, _partition_values(groups, fields))), FILE_NAME)
    columns = [
        _partition_value(F.col(fields[f.name]), f) if f.name in fields else F.col(quoted(f.name)) for f in wanted
    ]
    return joined.select(*columns, *((FILE_NAME, ROW_INDEX) if places else ()))


def _partition_values(groups: dict[Partition, list[DataFile]], fields: dict[str, str]) -> pa.Table:
    """Partition values by file name, as text, under the given column names."""
    texts: dict[str, list[str | None]] = {FILE_NAME: [], **{column: [] for column in fields.values()}}
    for partition, group in groups.items():
        known = {name.lower(): value for name, value in partition}
        for file in group:
            texts[FILE_NAME].append(_name(file))
            for name, column in fields.items():
                texts[column].append(known.get(name.lower()))
    return pa.table(texts, schema=pa.schema([pa.field(column, pa.string()) for column in texts]))


def _scan(spark: SparkSession, files: Sequence[DataFile], stored: StructType, places: bool) -> DataFrame:
    in_files = physical(stored)
    # Names in the paths that look like partitions or patterns are just names.
    reader = spark.read.schema(in_files).options(**_STRICT, recursiveFileLookup="true", __globPaths__="false")
    frame = reader.parquet(*(file.path for file in files))
    if in_files == visible(stored) and not places:
        return frame
    columns = [_renamed(old, new) for old, new in zip(in_files, visible(stored), strict=True)]
    return frame.select(*columns, *(_places() if places else ()))


def _renamed(old: StructField, new: StructField) -> Column:
    column = F.col(quoted(old.name))
    if old == new:
        return column
    return column.cast(new.dataType).alias(new.name, metadata=new.metadata)


def _places() -> tuple[Column, Column]:
    return F.col("_metadata.file_name").alias(FILE_NAME), F.col("_metadata.row_index").alias(ROW_INDEX)


def _partition_value(text: Column, field: StructField) -> Column:
    return text.try_cast(field.dataType).alias(field.name, metadata=visible(StructType([field]))[0].metadata)


def _no_rows(spark: SparkSession, wanted: StructType) -> DataFrame:
    try:
        return local_frame(spark, arrow_schema(wanted).empty_table(), wanted)
    except (TypeError, ValueError, NotImplementedError):
        return spark.createDataFrame([], wanted)


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]
