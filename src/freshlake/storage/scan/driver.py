"""The driver reader: small files read by pyarrow, only for types proven equal to Spark's readers."""

from __future__ import annotations

from collections.abc import Sequence

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
from freshlake.storage.scan.paths import is_local

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


def read_places(file: DataFile, schema: StructType, places: pa.Array) -> pa.Table:
    """The rows at the given positions of a file, which are ascending; other row groups are not read."""
    return _read_file(file, schema, (), places)


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
    partition = {**dict.fromkeys(partition_columns), **file.partition}
    known = {name.lower(): value for name, value in partition.items()}
    names = [physical_name(field) for field in wanted if field.name.lower() not in known]
    data, rows = _stored(file, names, places)
    target = arrow_schema(wanted)
    arrays = []
    for field, column in zip(wanted, target, strict=True):
        if field.name.lower() in known:
            arrays.append(_partition_column(known[field.name.lower()], column.type, rows))
        elif physical_name(field).lower() in data:
            arrays.append(_converted(file, field, data[physical_name(field).lower()], column.type))
        elif "EXISTS_DEFAULT" in field.metadata:
            raise NotDriverReadable(f"{file.path} lacks column {field.name}, which has a default")
        else:
            arrays.append(pa.nulls(rows, column.type))
    return pa.Table.from_arrays(arrays, schema=target)


def _stored(file: DataFile, names: Sequence[str], places: pa.Array | None) -> tuple[dict[str, pa.ChunkedArray], int]:
    """Those of the named columns that the file has, by lower-case name, and the number of rows read."""
    if not is_local(file.path):
        raise NotDriverReadable(f"{file.path} is not a local file")
    with pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us") as parquet:
        notes = parquet.metadata.metadata or {}
        if any(mark in notes for mark in _LEGACY) or notes.get(_WRITER, b"").startswith(_OLD_WRITERS):
            raise NotDriverReadable(f"{file.path} was written with the legacy calendar")
        stored = {name.lower(): name for name in parquet.schema_arrow.names}
        present = [stored[name.lower()] for name in names if name.lower() in stored]
        rows = parquet.metadata.num_rows if places is None else len(places)
        if not present:
            return {}, rows
        table = parquet.read(columns=present) if places is None else _at(parquet, present, places)
        return {name.lower(): table.column(name) for name in present}, rows


def _at(parquet: pq.ParquetFile, columns: Sequence[str], places: pa.Array) -> pa.Table:
    tables, first = [], 0
    for group in range(parquet.num_row_groups):
        end = first + parquet.metadata.row_group(group).num_rows
        here = places.filter(pc.and_(pc.greater_equal(places, first), pc.less(places, end)))
        if len(here) or group == 0:  # the first one also tells the types when nothing is wanted
            tables.append(parquet.read_row_group(group, columns=columns).take(pc.subtract(here, first)))
        first = end
    return pa.concat_tables(tables)


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
