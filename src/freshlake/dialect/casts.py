"""Casts: allowed where both sides give the same value, with PostgreSQL's rounding and truncation."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.tree import call, cast, exp, number, string
from freshlake.dialect.typed import Typed
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions

_NAMES = {
    "SMALLINT": "int2",
    "INT": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "TEXT": "text",
    "VARCHAR": "text",
    "BOOLEAN": "bool",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
    "INTERVAL": "interval",
}
_TO_TEXT = ("text", "unknown", "int2", "int4", "int8", "bool", "date", "timestamp", "null")
_FROM = {
    "bool": ("text", "unknown", "bool", "int4", "null"),
    "date": ("text", "unknown", "date", "timestamp", "timestamptz", "null"),
    "timestamp": ("text", "unknown", "date", "timestamp", "timestamptz", "null"),
    "timestamptz": ("text", "unknown", "date", "timestamp", "timestamptz", "null"),
}
_NUMBER_SOURCES = ("text", "unknown", "null", "int2", "int4", "int8", "numeric", "float4", "float8")


def type_named(x: Expressions, to: exp.Expr, node: exp.Expr) -> Type:
    """The type that a cast names."""
    word = to.this.value if hasattr(to.this, "value") else str(to.this)
    parameters = [int(p.this.this) for p in to.expressions if isinstance(p, exp.DataTypeParam)]
    if word == "ARRAY" and len(to.expressions) == 1:
        return t.array(type_named(x, to.expressions[0], node))
    if word in ("DECIMAL", "NUMERIC"):
        return t.numeric(parameters[0], parameters[1] if len(parameters) > 1 else 0) if parameters else t.QUOTIENT
    if word not in _NAMES or (parameters and word != "VARCHAR"):
        shown = to.sql("postgres").lower()
        reason = "Spark has no type with the same values"
        raise x.refuse(f"the type {shown}", reason, "use text, a number, a date or a timestamp instead", node)
    return Type(_NAMES[word])


def convert(x: Expressions, value: Typed, to: exp.Expr | Type, node: exp.Expr) -> Typed:
    """A value as another type."""
    wanted = to if isinstance(to, Type) else type_named(x, to, node)
    length = _length(to) if isinstance(to, exp.Expr) else None
    if value.type == wanted and length is None:
        return value
    done = _convert(x, value, wanted, node)
    if done is None:
        reason = f"{value.type} as {wanted} is written or rounded differently, or is not possible in PostgreSQL"
        raise x.refuse(f"a cast from {value.type} to {wanted}", reason, _REWRITES.get(wanted.name, _OTHER), node)
    # Spark does not shorten a text that is cast to VARCHAR(n)
    return Typed(call("substring", done.node, number(1), number(length)), t.TEXT) if length is not None else done


def as_text(x: Expressions, value: Typed, node: exp.Expr) -> exp.Expr:
    """A value as PostgreSQL writes it."""
    return convert(x, value, t.TEXT, node).node


def _convert(x: Expressions, value: Typed, wanted: Type, node: exp.Expr) -> Typed | None:
    have = value.type
    if wanted.name == "text":
        possible = have.name in _TO_TEXT or (have.name == "numeric" and have.is_exact)
        return Typed(value.node if have.is_text else cast(value.node, "STRING"), t.TEXT) if possible else None
    if wanted.is_number:
        return _to_number(x, value, wanted, node)
    if wanted.name == "interval" and have.name == "unknown":
        return x.interval(str(value.node.this), node)
    if wanted.name == "array":
        return _to_array(value, wanted)
    if have.name in _FROM.get(wanted.name, ()):
        source = _with_seconds(value.node) if have.name == "unknown" else value.node
        return Typed(cast(source, str(wanted.in_spark)), wanted)
    return None


def _with_seconds(literal: exp.Expr) -> exp.Expr:
    """Spark reads a zone only after seconds."""
    return string(re.sub(r"^(\s*\d+-\d+-\d+[ T]\d+:\d+)(?=\s*[-+Z])", r"\1:00", str(literal.this)))


def _to_number(x: Expressions, value: Typed, wanted: Type, node: exp.Expr) -> Typed | None:
    have = value.type
    if have.name not in _NUMBER_SOURCES:
        return Typed(cast(value.node, "INT"), t.INT4) if (have, wanted) == (t.BOOL, t.INT4) else None
    if wanted == t.QUOTIENT:
        return _to_plain_numeric(value)
    source = value.node
    if wanted.is_int and have.name == "numeric":
        source = call("round", source)
    elif wanted.is_int and have.is_float:
        source = call("rint", source)
    return Typed(cast(source, str(wanted.in_spark)), wanted)


def _to_plain_numeric(value: Typed) -> Typed | None:
    """A numeric without digits keeps every digit: possible where their number is known."""
    have = value.type
    if have.name == "numeric":
        return value
    if have.is_int:
        return Typed(cast(value.node, f"DECIMAL({have.digits[0]}, 0)"), t.numeric(*have.digits))
    if have.name == "unknown":
        try:
            exact = Decimal(str(value.node.this).strip())
        except InvalidOperation:
            return None
        scale = max(-int(exact.as_tuple().exponent), 0) if exact.is_finite() else 39
        digits = max(len(exact.as_tuple().digits), scale) if exact.is_finite() else 39
        return (
            Typed(cast(value.node, f"DECIMAL({digits}, {scale})"), t.numeric(digits, scale)) if digits <= 38 else None
        )
    return None


def _to_array(value: Typed, wanted: Type) -> Typed | None:
    have = value.type
    if have.name == "null":
        return Typed(cast(value.node, str(wanted.in_spark)), wanted)
    if have.name != "array" or have.of is None or wanted.of is None or wanted.in_spark is None:
        return None
    widening = t.common([have.of, wanted.of]) == wanted.of
    return Typed(cast(value.node, wanted.in_spark), wanted) if widening else None


def _length(to: exp.Expr) -> int | None:
    parameters = [int(p.this.this) for p in to.expressions if isinstance(p, exp.DataTypeParam)]
    word = to.this.value if hasattr(to.this, "value") else str(to.this)
    return parameters[0] if word == "VARCHAR" and parameters else None


_OTHER = "cast the source column to the wanted type where it is written"
_REWRITES = {
    "text": "cast to numeric(p, s), an integer or a timestamp first, or format the value when reading",
    "numeric": "name the digits: numeric(p, s)",
}
