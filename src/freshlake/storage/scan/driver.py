"""The driver reader: small files read by pyarrow, only for types proven equal to Spark's readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshlake.storage.relation import arrow_schema
from freshlake.storage.scan.columns import chosen, is_char, physical_name
from freshlake.storage.scan.files import DataFile
from freshlake.storage.scan.kept import KEPT, Stamp, stamp_of
from freshlake.storage.scan.paths import is_local
from freshlake.storage.scan.views import without_views

_ATOMIC = (
    BooleanType
    | (ByteType | ShortType | IntegerType | LongType)
    | (FloatType | DoubleType | DecimalType)
    | (BinaryType | DateType | TimestampType | TimestampNTZType)
)
# Files with these marks, or by an old Spark, hold dates of the old hybrid calendar, which only Spark converts.
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_OLD_WRITERS = (b"1.", b"2.", b"3.0")

_BATCH_ROWS = 65_536


class NotDriverReadable(Exception):
    """A file turned out to need Spark's reader; the caller reads it there instead."""


def driver_readable(schema: StructType, columns: Sequence[str] | None = None) -> bool:
    """Whether the driver reader gives the same values as Spark for these columns."""
    return all(_readable_field(field) for field in chosen(schema, columns))


def read_arrow(
    files: Sequence[DataFile],
    schema: StructType,
    columns: Sequence[str] | None = None,
    partition_columns: Sequence[str] = (),
) -> pa.Table:
    """The rows of local files as Arrow, in the exact Arrow types of the schema."""
    wanted = chosen(schema, columns)
    tables = [_read_file(file, wanted, partition_columns, _live(file)) for file in files]
    return pa.concat_tables(tables) if tables else arrow_schema(wanted).empty_table()


def find_places(
    file: DataFile, tested: StructType, partition_columns: Sequence[str], test: Callable[[pa.Table], pa.Array]
) -> tuple[pa.Array, pa.Table]:
    """The rows that pass a test of some columns: their ascending positions and those columns.

    What is tested stays in memory for the next search, or else few rows of the file are there at a time.
    """
    places, rows, first = [pa.array([], pa.int64())], [arrow_schema(tested).empty_table()], 0
    stamp = _stamp(file)
    with _opened(file) as parquet:
        present = _present(parquet, file, tested, partition_columns)
        for batch in _kept(parquet, file, stamp, present) or parquet.iter_batches(_BATCH_ROWS, columns=present):
            values = _as_wanted(file, tested, partition_columns, batch, batch.num_rows)
            passed = pc.indices_nonzero(test(values)).cast(pa.int64())
            if len(passed):
                places.append(pc.add(passed, first))
                rows.append(values.take(passed))
            first += batch.num_rows
    found, having = pa.concat_arrays(places), pa.concat_tables(rows)
    if file.deleted is None:
        return found, having
    there = pc.invert(pc.is_in(found, value_set=file.deleted))
    return found.filter(there), having.filter(there)


def _stamp(file: DataFile) -> Stamp:
    return stamp_of(file.path) if is_local(file.path) else ()


def _kept(parquet: pq.ParquetFile, file: DataFile, stamp: Stamp, columns: list[str]) -> list[pa.Table]:
    """The columns as one table that stays in memory; none where they are too large for that."""
    if not KEPT.fits(parquet.metadata.num_rows, len(columns)):
        return []
    return [KEPT.read(file.path, stamp, columns, lambda missing: without_views(parquet.read(columns=missing)))]


def read_places(
    file: DataFile, places: pa.Array, wanted: StructType, partition_columns: Sequence[str] = ()
) -> pa.Table:
    """The rows at the given positions of a file, which are ascending; other row groups are not read."""
    return _read_file(file, wanted, partition_columns, places)


def complete_places(
    file: DataFile, places: pa.Array, wanted: StructType, partition_columns: Sequence[str] = ()
) -> pa.Table:
    """As `read_places`, for rows that a search found: their columns stay in memory as well, if they can."""
    stamp = _stamp(file)
    with _opened(file) as parquet:
        present = _present(parquet, file, wanted, partition_columns)
        kept = _kept(parquet, file, stamp, present) if _touches_most(parquet, places) else []
        rows = kept[0].take(places) if kept else _at(parquet, present, places)
        return _as_wanted(file, wanted, partition_columns, rows, len(places))


def _touches_most(parquet: pq.ParquetFile, places: pa.Array) -> bool:
    """Whether reading the rows one by one would read most of the file's row groups anyway."""
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
    ends = list(accumulate(sizes))
    touched = sum(bool(len(_between(places, end - rows, end))) for rows, end in zip(sizes, ends, strict=True))
    return 2 * touched > len(sizes)


def _live(file: DataFile) -> pa.Array | None:
    """The positions of the rows that are not deleted; None for all."""
    if file.deleted is None:
        return None
    every = pa.arange(0, pq.read_metadata(file.path).num_rows)
    return every.filter(pc.invert(pc.is_in(every, value_set=file.deleted)))


def _readable_field(field: StructField) -> bool:
    return not is_char(field) and _readable(field.dataType)


def _readable(kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return kind == StringType()
    if isinstance(kind, ArrayType):
        return _readable(kind.elementType)
    if isinstance(kind, MapType):
        return _readable(kind.keyType) and _readable(kind.valueType)
    if isinstance(kind, StructType):
        return all(_readable_field(field) and physical_name(field) == field.name for field in kind)
    return isinstance(kind, _ATOMIC)


def _read_file(
    file: DataFile, wanted: StructType, partition_columns: Sequence[str], places: pa.Array | None
) -> pa.Table:
    with _opened(file) as parquet:
        present = _present(parquet, file, wanted, partition_columns)
        if places is None:
            return _as_wanted(file, wanted, partition_columns, parquet.read(columns=present), parquet.metadata.num_rows)
        return _as_wanted(file, wanted, partition_columns, _at(parquet, present, places), len(places))


@contextmanager
def _opened(file: DataFile) -> Iterator[pq.ParquetFile]:
    if not is_local(file.path):
        raise NotDriverReadable(f"{file.path} is not a local file")
    with pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as parquet:
        notes = parquet.metadata.metadata or {}
        if any(mark in notes for mark in _LEGACY) or notes.get(_WRITER, b"").startswith(_OLD_WRITERS):
            raise NotDriverReadable(f"{file.path} was written with the legacy calendar")
        yield parquet


def _partition(file: DataFile, partition_columns: Sequence[str]) -> dict[str, str | None]:
    """The values that are kept in the log and not in the file, by lower-case name."""
    values = {**dict.fromkeys(partition_columns), **file.partition}
    return {name.lower(): value for name, value in values.items()}


def _present(
    parquet: pq.ParquetFile, file: DataFile, wanted: StructType, partition_columns: Sequence[str]
) -> list[str]:
    """Those of the wanted columns that the file has, under its names."""
    known = _partition(file, partition_columns)
    stored = {name.lower(): name for name in parquet.schema_arrow.names}
    names = [physical_name(field).lower() for field in wanted if field.name.lower() not in known]
    return [stored[name] for name in names if name in stored]


def _as_wanted(
    file: DataFile, wanted: StructType, partition_columns: Sequence[str], read: pa.Table | pa.RecordBatch, rows: int
) -> pa.Table:
    """What was read of a file, as the table's schema wants it; a column that the file lacks is NULL."""
    known, target = _partition(file, partition_columns), arrow_schema(wanted)
    columns = {name.lower(): read.column(name) for name in read.schema.names}
    arrays = []
    for field, column in zip(wanted, target, strict=True):
        if field.name.lower() in known:
            arrays.append(_partition_column(known[field.name.lower()], column.type, rows))
        elif physical_name(field).lower() in columns:
            arrays.append(_converted(file, field, columns[physical_name(field).lower()], column.type))
        elif "EXISTS_DEFAULT" in field.metadata:
            raise NotDriverReadable(f"{file.path} lacks column {field.name}, which has a default")
        else:
            arrays.append(pa.nulls(rows, column.type))
    return pa.Table.from_arrays(arrays, schema=target)


def _at(parquet: pq.ParquetFile, columns: list[str], places: pa.Array) -> pa.Table:
    if not columns:
        return pa.table({})
    taken, first = [without_views(parquet.schema_arrow.empty_table().select(columns))], 0
    for group in range(parquet.num_row_groups):
        end = first + parquet.metadata.row_group(group).num_rows
        if len(_between(places, first, end)):
            for batch in parquet.iter_batches(_BATCH_ROWS, [group], columns):
                here = pc.subtract(_between(places, first, first + batch.num_rows), first)
                rows = without_views(pa.Table.from_batches([batch]).select(columns))
                taken.append(rows.take(here))
                first += batch.num_rows
        first = end
    return pa.concat_tables(taken)


def _between(places: pa.Array, first: int, end: int) -> pa.Array:
    return places.filter(pc.and_(pc.greater_equal(places, first), pc.less(places, end)))


def _converted(file: DataFile, field: StructField, data: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return data.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise NotDriverReadable(f"{file.path}: column {field.name}: {error}") from error


def _partition_column(text: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    if text is None:
        return pa.nulls(rows, kind)
    try:
        return pa.repeat(pa.scalar(text, pa.string()).cast(kind), rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotDriverReadable(f"partition value {text!r} as {kind}: {error}") from error
