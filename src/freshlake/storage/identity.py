"""Two rows are the same row iff their identities are equal under GROUP BY and `<=>`: bit for bit, NULL equal to NULL.

Engine equality merges −0.0 with 0.0 and strings that a collation equates, and cannot group maps and variants, so those
types are encoded. Everything else is its own identity. NaNs are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

from freshlake.errors import InvariantViolated, Unsupported
from freshlake.storage.relation import WEIGHT
from freshlake.storage.scan.columns import quoted
from freshlake.storage.variant import METADATA, VALUE, register

_COPY = "__fl_copy"
_NEGATIVE = "freshlake: a row has a negative number of copies"


def identity(schema: StructType) -> tuple[str, ...]:
    """SQL expressions over the columns whose tuple identifies a row; see `prepare` for schemas with variants."""
    return tuple(part for field in schema for part in _parts(quoted(field.name), field.dataType))


def prepare(spark: SparkSession, schema: StructType) -> None:
    """Make the functions that identities of this schema call known to the session."""
    if contains(schema, VariantType):
        register(spark)


def is_simple(kind: DataType) -> bool:
    """Whether engine equality of a type is already equality of its bits."""
    if isinstance(kind, StructType):
        return all(is_simple(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return is_simple(kind.elementType)
    if isinstance(kind, StringType):
        return kind == StringType()
    if isinstance(kind, UserDefinedType):
        raise Unsupported(
            f"a column of the user-defined type {kind.simpleString()} cannot be stored",
            hint="select the fields inside it instead",
        )
    encoded = MapType | FloatType | DoubleType | VariantType | CalendarIntervalType | GeometryType | GeographyType
    return not isinstance(kind, encoded)


def consolidate(frame: DataFrame, weight: str = WEIGHT) -> DataFrame:
    """One entry per distinct row with the sum of its weights; rows that sum to zero are gone."""
    schema = frame.schema
    prepare(frame.sparkSession, schema)
    if schema.names[-1] == weight and _names_are_clear(schema) and is_simple(schema):
        grouped = frame.groupBy(*map(quoted, schema.names[:-1])).agg(F.sum(weight).alias(weight))
        return grouped.filter(f"{quoted(weight)} != 0")
    return _consolidate_encoded(frame, weight)


def expand(frame: DataFrame, weight: str = WEIGHT) -> DataFrame:
    """Plain rows: weight n becomes n copies. A negative weight fails the query that reads it; see `violation`."""
    number = quoted(weight)
    copies = f"explode(array_repeat(0, if({number} < 0, raise_error('{_NEGATIVE}'), int({number}))))"
    return frame.withColumn(_COPY, F.expr(copies)).drop(_COPY, weight)


def violation(error: BaseException) -> InvariantViolated | None:
    """The typed error if a query failed because some row had a negative number of copies."""
    if _NEGATIVE not in str(error):
        return None
    return InvariantViolated("rows were deleted that were not there", detail=_NEGATIVE.partition(": ")[2])


def same(left: str, right: str, schema: StructType) -> Column:
    """The join condition: a row under alias `left` and a row under alias `right` are the same row."""
    condition = F.lit(True)
    for field in schema:
        sides = (_parts(f"{alias}.{quoted(field.name)}", field.dataType) for alias in (left, right))
        for one, other in zip(*sides, strict=True):
            condition = condition & F.expr(one).eqNullSafe(F.expr(other))
    return condition


def _names_are_clear(schema: StructType) -> bool:
    return len({name.lower() for name in schema.names}) == len(schema)


def _consolidate_encoded(frame: DataFrame, weight: str) -> DataFrame:
    schema = frame.schema
    total = f"c{schema.names.index(weight)}"
    keys: list[Column] = []
    sums: list[Column] = [F.sum(total).alias(total)]
    for position, field in enumerate(schema):
        name = f"c{position}"
        if name == total:
            continue
        if is_simple(field.dataType):
            keys.append(F.col(name))
            continue
        parts = _parts(name, field.dataType)
        keys.extend(F.expr(part).alias(f"k{position}_{i}") for i, part in enumerate(parts))
        # The grouping key has lost the original bits (−0.0, map order), so the row is taken from one of its members.
        sums.append(F.first(name).alias(name, metadata=field.metadata))
    grouped = _positional(frame).groupBy(*keys).agg(*sums).filter(f"{total} != 0")
    return grouped.select(*(f"c{position}" for position in range(len(schema)))).toDF(*schema.names)


def _positional(frame: DataFrame) -> DataFrame:
    """Columns named by position: names that differ only in case, or repeat, cannot be told apart otherwise."""
    return frame.toDF(*(f"c{position}" for position in range(len(frame.columns))))


def _parts(value: str, kind: DataType) -> tuple[str, ...]:
    """A value as grouping expressions, without a struct around them where that can be avoided."""
    if isinstance(kind, NullType):
        return ()
    if isinstance(kind, FloatType | DoubleType):
        return (value, _is_negative_zero(value))
    if isinstance(kind, VariantType):
        return (f"{VALUE}({value})", f"{METADATA}({value})")
    return (_encoded(value, kind, 0),)


def _encoded(value: str, kind: DataType, depth: int) -> str:
    """A value as one orderable expression; `depth` keeps the names of nested lambda variables apart."""
    if is_simple(kind):
        return value
    if isinstance(kind, StringType):
        return f"CAST({value} AS BINARY)"
    if isinstance(kind, CalendarIntervalType):
        return f"CAST({value} AS STRING)"
    if isinstance(kind, GeometryType | GeographyType):
        return f"struct(st_asbinary({value}), st_srid({value}))"
    if isinstance(kind, ArrayType):
        return _transformed(value, depth, lambda item: _encoded(item, kind.elementType, depth + 1))
    if isinstance(kind, MapType):
        entries = _transformed(f"map_entries({value})", depth, lambda item: _entry(item, kind, depth + 1))
        return f"array_sort({entries})"
    if isinstance(kind, StructType):
        fields = ", ".join(_fields(value, kind.fields, depth))
        return f"if({value} IS NULL, NULL, struct({fields}))"
    return f"struct({', '.join(_parts(value, kind))})"


def _transformed(array: str, depth: int, encode: Callable[[str], str]) -> str:
    item = f"__fl_item{depth}"
    return f"transform({array}, {item} -> {encode(item)})"


def _entry(entry: str, kind: MapType, depth: int) -> str:
    key = _encoded(f"{entry}.key", kind.keyType, depth)
    return f"struct({key}, {_encoded(f'{entry}.value', kind.valueType, depth)})"


def _fields(value: str, fields: Sequence[StructField], depth: int) -> Iterator[str]:
    return (_encoded(f"{value}.{quoted(field.name)}", field.dataType, depth) for field in fields)


def _is_negative_zero(value: str) -> str:
    # Not `value = 0`: the optimizer would replace the value by the literal in the rest of a filter.
    return f"(abs({value}) <= 0 AND power({value}, -1) < 0)"


def contains(kind: DataType, wanted: type[DataType]) -> bool:
    """Whether a type is the wanted one or has it inside."""
    if isinstance(kind, StructType):
        return any(contains(field.dataType, wanted) for field in kind)
    if isinstance(kind, ArrayType):
        return contains(kind.elementType, wanted)
    if isinstance(kind, MapType):
        return contains(kind.keyType, wanted) or contains(kind.valueType, wanted)
    return isinstance(kind, wanted)
