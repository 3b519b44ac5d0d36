"""Files that may hold rows with given keys: a file is left out only when its statistics prove it holds none."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from freshlake.storage.scan.columns import is_char
from freshlake.storage.scan.files import DataFile, KeyFilter, Snapshot

_INTEGERS = ByteType | ShortType | IntegerType | LongType
_CUT = timedelta(milliseconds=1)  # writers cut timestamps to milliseconds, so the true maximum may be later

EXACT_DIGITS = 15
"""delta-rs writes the least and the largest decimal as a double, or as a BIGINT, whatever they were: more digits than a
double holds are wrong there, and it does not say who wrote a file."""

Accepts = Callable[[Any], bool]


def prune(snapshot: Snapshot, keys: Sequence[KeyFilter]) -> tuple[DataFile, ...]:
    """The files of a snapshot in which a row with such keys may be."""
    return prune_files(snapshot.files, snapshot.schema, keys)


def prune_files(files: Sequence[DataFile], schema: StructType, keys: Sequence[KeyFilter]) -> tuple[DataFile, ...]:
    """As `prune`, over any list of files."""
    tests = [test for key in keys if (test := _test(schema, key)) is not None]
    return tuple(file for file in files if all(test(file) for test in tests))


def prunable(field: StructField, values: Sequence[Any]) -> bool:
    """Whether the column's order is the one statistics are made in, and the values can be compared with them."""
    if is_char(field):  # padded on read, not in the statistics
        return False
    return all(_comparable(field.dataType, value) for value in values) and _ordered(field.dataType)


def is_wide(kind: DataType) -> bool:
    """Whether statistics of a type may be wrong because it is a decimal of many digits."""
    return isinstance(kind, DecimalType) and kind.precision > EXACT_DIGITS


def _ordered(kind: DataType) -> bool:
    if isinstance(kind, StringType):
        return kind == StringType()  # a collation orders and equates differently
    return isinstance(kind, _INTEGERS | DecimalType | DateType | TimestampType | TimestampNTZType)


def _comparable(kind: DataType, value: Any) -> bool:
    if isinstance(kind, _INTEGERS):
        return type(value) is int
    if isinstance(kind, DecimalType):
        return isinstance(value, Decimal) and value.is_finite()
    if isinstance(kind, StringType):
        return isinstance(value, str)
    if isinstance(kind, DateType):
        return type(value) is date
    zoned = isinstance(kind, TimestampType)  # without a zone the instant is not known here
    return isinstance(value, datetime) and (value.tzinfo is not None) == zoned


def _test(schema: StructType, key: KeyFilter) -> Callable[[DataFile], bool] | None:
    field = next((f for f in schema if f.name.lower() == key.column.lower()), None)
    values = [value for value in key.values if value is not None]
    if field is None or is_wide(field.dataType) or not prunable(field, values):
        return None
    name, has_null = field.name, key.has_null or len(values) < len(key.values)
    ordered = sorted(values)
    texts = {str(value) for value in values}

    def keeps(file: DataFile) -> bool:
        if name in file.partition:
            return _keeps_partition(field.dataType, file.partition[name], texts, has_null)
        return (has_null and file.nulls.get(name) != 0) or _keeps_range(file, name, ordered)

    return keeps


def _keeps_partition(kind: DataType, text: str | None, texts: set[str], has_null: bool) -> bool:
    if text is None:
        return has_null
    # The text of other types is not canonical across writers (leading zeros, fractions).
    return not isinstance(kind, StringType | _INTEGERS) or text in texts


def _keeps_range(file: DataFile, name: str, ordered: Sequence[Any]) -> bool:
    only_nulls = file.deleted is None and file.rows is not None and file.nulls.get(name) == file.rows
    if not ordered or only_nulls:
        return False
    low, high = file.minimum.get(name), file.maximum.get(name)
    if low is None or high is None:
        return True
    first = bisect_left(ordered, low)  # if this one is above the file, so are all after it
    return first < len(ordered) and _not_above(ordered[first], high)


def _not_above(value: Any, high: Any) -> bool:
    if isinstance(value, str):
        return bool(value[: len(high)] <= high)  # a long maximum is cut, so only its prefix counts
    if isinstance(value, datetime):
        return bool(value <= high or value - high <= _CUT)  # not high + _CUT: there is nothing after the year 9999
    return bool(value <= high)
