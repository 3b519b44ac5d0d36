"""Exact comparison of two DataFrames as bags: duplicates and NULLs count, order does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row

_RELATIVE = 1e-9
_SHOWN = 10


def assert_same_bag(left: DataFrame, right: DataFrame) -> None:
    """Fail, showing rows of either side, unless both hold the same rows the same number of times.

    Columns must agree in name, type and order. Everything is compared exactly except floating numbers, which may
    differ by a relative 1e-9: sums of them depend on the order of addition.
    """
    assert _shape(left) == _shape(right), f"columns differ:\n  left  {_shape(left)}\n  right {_shape(right)}"
    assert_same_rows(left.collect(), right.collect())


def assert_same_rows(left: Iterable[Row], right: Iterable[Row]) -> None:
    """The same for rows that were collected already."""
    ours, theirs = Counter(map(canonical, left)), Counter(map(canonical, right))
    only_left, only_right = _pair_off(list((ours - theirs).elements()), list((theirs - ours).elements()))
    if only_left or only_right:
        raise AssertionError(_difference(only_left, only_right, sum(ours.values()), sum(theirs.values())))


def canonical(value: Any) -> Any:
    """A hashable value that is equal for equal data only: 1, 1.0, True and '1' stay apart, NaN equals NaN."""
    if value is None:
        return ("null",)
    if isinstance(value, Row | tuple):
        return ("row", *map(canonical, value))
    if isinstance(value, list):
        return ("list", *map(canonical, value))
    if isinstance(value, Mapping):
        return ("map", frozenset((canonical(key), canonical(item)) for key, item in value.items()))
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    if isinstance(value, bytes | bytearray):
        return ("bytes", bytes(value))
    return (type(value).__name__, value if value.__hash__ else repr(value))


def _shape(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _pair_off(left: list[Any], right: list[Any]) -> tuple[list[Any], list[Any]]:
    """Remove pairs that differ only in the last digits of floating numbers."""
    buckets: dict[Any, list[Any]] = {}
    for row in right:
        buckets.setdefault(_without_floats(row), []).append(row)
    unmatched = []
    for row in left:
        bucket = buckets.get(_without_floats(row), [])
        partner = next((other for other in bucket if _close(row, other)), None)
        if partner is None:
            unmatched.append(row)
        else:
            bucket.remove(partner)
    return unmatched, [row for bucket in buckets.values() for row in bucket]


def _without_floats(value: Any) -> Any:
    if _is_float(value):
        return "float"
    if isinstance(value, tuple):
        return tuple(map(_without_floats, value))
    # Entries of a map have no order to pair them by: maps with floating values are compared exactly.
    return value


def _close(left: Any, right: Any) -> bool:
    if _is_float(left) and _is_float(right):
        if "nan" in (left[1], right[1]):
            return bool(left[1] == right[1])
        return math.isclose(float.fromhex(left[1]), float.fromhex(right[1]), rel_tol=_RELATIVE)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_close, left, right))
    return bool(left == right)


def _is_float(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and value[0] == "float"


def _difference(only_left: list[Any], only_right: list[Any], left_rows: int, right_rows: int) -> str:
    lines = [f"bags differ: {left_rows} rows on the left, {right_rows} on the right"]
    for side, rows in (("left", only_left), ("right", only_right)):
        lines.append(f"  only on the {side}: {len(rows)}")
        lines += [f"    {_readable(row)}" for row in rows[:_SHOWN]]
    return "\n".join(lines)


def _readable(row: tuple[Any, ...]) -> str:
    return "(" + ", ".join(_text(value) for value in row[1:]) + ")"


def _text(value: Any) -> str:
    if value == ("null",):
        return "NULL"
    if _is_float(value):
        return value[1] if value[1] == "nan" else repr(float.fromhex(value[1]))
    return str(value[1]) if isinstance(value, tuple) and len(value) == 2 else str(value)
