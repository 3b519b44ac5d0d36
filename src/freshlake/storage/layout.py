"""Where a change-logged table keeps its parts, and the names and types its columns have there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    AnsiIntervalType,
    ArrayType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    GeographyType,
    GeometryType,
    LongType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    UserDefinedType,
    VarcharType,
)

from freshlake.errors import InvalidName, Unsupported
from freshlake.storage.relation import WEIGHT
from freshlake.storage.scan.columns import quoted
from freshlake.storage.scan.prune import is_wide
from freshlake.storage.scan.search import SEARCHED_ROWS


@dataclass(frozen=True)
class FoldPoint:
    """Version `base_version` of the base holds exactly the log versions up to `folded_version`."""

    base_version: int
    folded_version: int


@dataclass(frozen=True)
class Pending:
    """What a fold would bring into the base."""

    versions: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Limits:
    """The most that may be held on the driver; more is read and written by Spark.

    `bytes` and `rows` bound changes; the part of a base that a read needs is small within `small_bytes` and
    `small_rows`, and then read whole by the driver, which is faster than any Spark job. Of a larger one the driver
    reads the key columns of up to `searched_rows` rows, and then the rows that have the keys, if those are small.
    """

    bytes: int = 64 * 1024 * 1024
    rows: int = 1_000_000
    small_bytes: int = 2 * 1024 * 1024
    small_rows: int = 100_000
    searched_rows: int = SEARCHED_ROWS


DEFAULT_LIMITS = Limits()

BASE = "base"
LOG = "log"
VERSION = "__fl_version"

# Spark's Delta writer refuses these in column names; a query without aliases makes such names: `count(1)`.
_REFUSED = frozenset(" ,;{}()\n\t=")
_NAME = "freshlake.name"
_COMMENT = "comment"

# A base is read by any engine and by file list, so nothing may make the files differ from the rows.
BASE_PROPERTIES = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "none"}
_MEASURED = NumericType | StringType | DateType | TimestampType | TimestampNTZType
_MOST_MEASURED = 32  # as many as Delta itself measures
# The log is read by version, never by key. Its own history is short: the catalog keeps that of the refreshes.
LOG_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.dataSkippingStatsColumns": WEIGHT,
    "delta.logRetentionDuration": "interval 1 days",
}


def statistics_properties(stored: StructType) -> dict[str, str]:
    """Leaves wide decimals out of a base's statistics, which delta-rs would write so that other engines skip rows."""
    if not _has_wide(stored):
        return {}
    measured = [f"`{f.name}`" for f in stored if isinstance(f.dataType, _MEASURED) and not _has_wide(f.dataType)]
    # a name cannot be escaped there
    names = [name for name in measured if name.count("`") == 2][:_MOST_MEASURED]
    if not names:
        return {"delta.dataSkippingNumIndexedCols": "0"}
    return {"delta.dataSkippingStatsColumns": ",".join(names)}


def _has_wide(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_wide(field.dataType) for field in kind)
    return is_wide(kind)


def stored_schema(schema: StructType) -> StructType:
    """The columns as both tables hold them: nullable, without foreign metadata, under names that Delta takes."""
    _check(schema)
    return _renamed(schema)


def log_schema(stored: StructType) -> StructType:
    """The columns of the log; `__fl_version` partitions it, so no file spans versions."""
    return StructType([*stored.fields, StructField(WEIGHT, LongType()), StructField(VERSION, LongType())])


def logical_schema(stored: StructType) -> StructType:
    """The columns as the query named them."""
    return StructType([_logical_field(field) for field in stored])


def names_differ(stored: StructType) -> bool:
    """Whether some column, or a field inside one, is stored under another name."""
    return stored.simpleString() != logical_schema(stored).simpleString()


def nested_names_differ(stored: StructType) -> bool:
    """Whether that is so for a field inside a column."""
    return any(field.dataType != _logical_type(field.dataType) for field in stored)


def to_stored(frame: DataFrame, stored: StructType) -> DataFrame:
    """Rows under their stored names; columns beyond `stored` (the weight) stay."""
    return _convert(frame, logical_schema(stored), stored)


def to_logical(frame: DataFrame, stored: StructType) -> DataFrame:
    """Rows under the names of the query."""
    return _convert(frame, stored, logical_schema(stored))


def _convert(frame: DataFrame, source: StructType, target: StructType) -> DataFrame:
    if source.simpleString() == target.simpleString():
        return frame
    pairs = {old.name: new for old, new in zip(source, target, strict=True)}
    columns = []
    for name in frame.columns:
        column, new = F.col(quoted(name)), pairs.get(name)
        # A cast of structs goes by position, so it renames the fields inside.
        columns.append(column if new is None else column.cast(new.dataType).alias(new.name))
    return frame.select(*columns)


def _check(schema: StructType) -> None:
    if not schema.fields:
        raise Unsupported("a table without columns cannot be stored", hint="select at least one column")
    _check_names(schema.names)
    for field in schema:
        _check_type(field.name, field.dataType)


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise InvalidName(
                f"the columns {seen[name.lower()]} and {name} have the same name",
                detail="Delta tables do not tell names apart by case",
                hint="give one of them an alias",
            )
        if name.lower() in (WEIGHT, VERSION):
            raise InvalidName(f"the column name {name} is reserved", hint="give the column another alias")
        seen[name.lower()] = name


def _check_type(name: str, kind: DataType) -> None:
    if isinstance(kind, StructType):
        _check_names(kind.names)
        for field in kind:
            _check_type(f"{name}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        _check_type(name, kind.elementType)
    elif isinstance(kind, MapType):
        _check_type(name, kind.keyType)
        _check_type(name, kind.valueType)
    elif (hint := _refusal(kind)) is not None:
        raise Unsupported(f"column {name} has the type {kind.simpleString()}, which Delta cannot store", hint=hint)


def _refusal(kind: DataType) -> str | None:
    """Why Delta does not store a type, as advice; None if it does."""
    if isinstance(kind, NullType):
        return "give the NULL a type: CAST(NULL AS STRING)"
    if isinstance(kind, StringType) and kind != StringType():
        return "remove the collation in the result: collate(column, 'UTF8_BINARY')"
    if isinstance(kind, AnsiIntervalType | CalendarIntervalType):
        return "store the interval as a number of seconds or months, or as text"
    if isinstance(kind, TimeType | GeometryType | GeographyType | UserDefinedType):
        return "cast the column to text or binary"
    return None


def _renamed(schema: StructType) -> StructType:
    taken = {field.name.lower() for field in schema}
    fields = []
    for field in schema:
        metadata = {_COMMENT: field.metadata[_COMMENT]} if _COMMENT in field.metadata else {}
        name = field.name
        if _REFUSED.intersection(name):
            name = _free_name(name, taken)
            metadata[_NAME] = field.name
        fields.append(StructField(name, _stored_type(field.dataType), True, metadata))
    return StructType(fields)


def _free_name(name: str, taken: set[str]) -> str:
    name = "".join(f"%{ord(char):02X}" if char in _REFUSED else char for char in name)
    while name.lower() in taken:
        name += "_"
    taken.add(name.lower())
    return name


def _stored_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return _renamed(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_stored_type(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_stored_type(kind.keyType), _stored_type(kind.valueType), True)
    return StringType() if isinstance(kind, CharType | VarcharType) else kind


def _logical_field(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key != _NAME}
    return StructField(field.metadata.get(_NAME, field.name), _logical_type(field.dataType), True, metadata)


def _logical_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return logical_schema(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_logical_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_logical_type(kind.keyType), _logical_type(kind.valueType), kind.valueContainsNull)
    return kind
