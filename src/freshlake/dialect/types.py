"""PostgreSQL's types, as far as a translation depends on them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SPARK = {
    "byte": "int2",
    "short": "int2",
    "integer": "int4",
    "long": "int8",
    "float": "float4",
    "double": "float8",
    "string": "text",
    "boolean": "bool",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
_MOMENTS = ("date", "timestamp", "timestamptz")
_DIGITS = {"int2": 5, "int4": 10, "int8": 20}
_IN_SPARK = {
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "STRING",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
}


@dataclass(frozen=True)
class Type:
    """`unknown` is a string literal before its use gives it a type; `other` has no counterpart in PostgreSQL.

    A numeric without digits is one that Spark computes as a double: a quotient or an average.
    """

    name: str
    precision: int | None = None
    scale: int = 0
    of: Type | None = None

    @property
    def is_int(self) -> bool:
        return self.name in _DIGITS

    @property
    def is_number(self) -> bool:
        return self.name in _NUMBERS

    @property
    def is_float(self) -> bool:
        return self.name in ("float4", "float8")

    @property
    def is_exact(self) -> bool:
        return self.is_int or (self.name == "numeric" and self.precision is not None)

    @property
    def is_moment(self) -> bool:
        return self.name in _MOMENTS

    @property
    def is_text(self) -> bool:
        return self.name in ("text", "unknown")

    @property
    def is_open(self) -> bool:
        """Takes its type from what it meets."""
        return self.name in ("unknown", "null")

    @property
    def family(self) -> str:
        """Types of one family can be compared."""
        return "number" if self.is_number else "moment" if self.is_moment else self.name

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale as a Spark decimal."""
        return (_DIGITS[self.name], 0) if self.is_int else (self.precision or 38, self.scale)

    @property
    def in_spark(self) -> str | None:
        if self.name == "numeric":
            return "DOUBLE" if self.precision is None else f"DECIMAL({self.precision}, {self.scale})"
        if self.name == "array" and self.of is not None and self.of.in_spark:
            return f"ARRAY<{self.of.in_spark}>"
        return _IN_SPARK.get(self.name)

    def __str__(self) -> str:
        return f"{self.of}[]" if self.name == "array" else "string" if self.name == "unknown" else self.name


def numeric(precision: int, scale: int) -> Type:
    return Type("numeric", precision, scale)


def array(of: Type) -> Type:
    return Type("array", of=of)


BOOL, INT4, INT8, FLOAT8, TEXT = Type("bool"), Type("int4"), Type("int8"), Type("float8"), Type("text")
DATE, TIMESTAMP, TIMESTAMPTZ, INTERVAL = Type("date"), Type("timestamp"), Type("timestamptz"), Type("interval")
NULL, UNKNOWN, OTHER, QUOTIENT = Type("null"), Type("unknown"), Type("other"), Type("numeric")


def of_spark(kind: str) -> Type:
    """From a Spark type as JSON, simple names without quotes."""
    if kind.startswith(("{", '"')):
        return _of_json(json.loads(kind))
    return _of_json(kind)


def _of_json(kind: Any) -> Type:
    if isinstance(kind, dict):
        return array(_of_json(kind["elementType"])) if kind.get("type") == "array" else OTHER
    if match := re.fullmatch(r"decimal\((\d+),\s*(-?\d+)\)", kind):
        return numeric(int(match[1]), int(match[2]))
    return Type(_SPARK[kind]) if kind in _SPARK else OTHER


def common(types: list[Type]) -> Type | None:
    """The type that values of these types have together; None when they do not fit."""
    known = [t for t in types if not t.is_open]
    if not known:
        return UNKNOWN if any(t.name == "unknown" for t in types) else NULL
    result = known[0]
    for other in known[1:]:
        joined = _join(result, other)
        if joined is None:
            return None
        result = joined
    return result


def _join(a: Type, b: Type) -> Type | None:
    if a == b:
        return a
    if a.is_number and b.is_number:
        return _join_numbers(a, b)
    if a.is_moment and b.is_moment:
        return max(a, b, key=lambda t: _MOMENTS.index(t.name))
    if a.name == b.name == "array" and a.of and b.of and (element := common([a.of, b.of])):
        return array(element)
    return None


def _join_numbers(a: Type, b: Type) -> Type:
    higher = max(a, b, key=lambda t: _NUMBERS.index(t.name))
    if higher.name != "numeric" or not (a.is_exact and b.is_exact):
        return QUOTIENT if higher.name == "numeric" else higher
    (p1, s1), (p2, s2) = a.digits, b.digits
    scale = max(s1, s2)
    return numeric(min(max(p1 - s1, p2 - s2) + scale, 38), scale)
