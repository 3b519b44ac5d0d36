"""Operators whose meaning depends on types: arithmetic, ||, patterns, and arrays that contain or overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.casts import as_text
from freshlake.dialect.numbers import power
from freshlake.dialect.patterns import UnknownPattern, of_regex, of_similar
from freshlake.dialect.temporal import moment_arithmetic
from freshlake.dialect.tree import atom, binary, call, case, cast, exp, function, is_null, name, string
from freshlake.dialect.typed import AFTER, CAST, ELEMENT, Typed, is_literal
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "pow": "^"}


def arithmetic(x: Expressions, node: exp.Expr) -> Typed:
    sign = _SIGNS[str(node.key)]
    left, right = x.typed(node.this, sign), x.typed(node.expression, sign)
    left, right = _literals(x, left, right, node)
    if any(side.type.is_moment or side.type == t.INTERVAL for side in (left, right)):
        return moment_arithmetic(x, sign, left, right, node)
    kind = t.common([left.type, right.type])
    if kind is None or not (kind.is_number or kind == t.NULL):
        shown = f"{left.type} {sign} {right.type}"
        raise x.refuse(shown, "this operator has no translation for these types", CAST, node)
    if sign == "/":
        return _quotient(left, right, kind)
    if sign == "^":
        return power(left, right)
    if sign == "%" and kind.is_float:
        raise x.refuse("% of floating numbers", "PostgreSQL has no such operator", "cast to numeric(p, s)", node)
    return Typed(binary(type(node), left.node, right.node), _exact(x, sign, left.type, right.type, kind, node))


def _literals(x: Expressions, left: Typed, right: Typed, node: exp.Expr) -> tuple[Typed, Typed]:
    """A string literal beside a number is a number; beside a date PostgreSQL has several choices."""
    if left.type == t.UNKNOWN and right.type.is_number:
        left = Typed(x.as_type(left, right.type, node), right.type)
    elif right.type == t.UNKNOWN and left.type.is_number:
        right = Typed(x.as_type(right, left.type, node), left.type)
    elif t.UNKNOWN in (left.type, right.type):
        raise x.refuse("arithmetic with a string", "its type is not known here", CAST, node)
    return left, right


def _quotient(left: Typed, right: Typed, kind: Type) -> Typed:
    """Integers divide to an integer. Decimals divide as doubles: Spark would keep as few as 6 digits."""
    if kind.is_int:
        divided = call("div", left.node, right.node)
        return Typed(divided if kind == t.INT8 else cast(divided, str(kind.in_spark)), kind)
    parts = [s.node if s.type.in_spark == "DOUBLE" else cast(s.node, "DOUBLE") for s in (left, right)]
    divided = binary(exp.Mul, parts[0], parts[1])
    divided = exp.Div(this=divided.this, expression=divided.expression, typed=False, safe=False)
    return Typed(divided, kind if kind.is_float else t.QUOTIENT)


def _exact(x: Expressions, sign: str, left: Type, right: Type, kind: Type, node: exp.Expr) -> Type:
    """Spark rounds a decimal that needs more than 38 digits, without a word; PostgreSQL keeps all of them."""
    if kind.name != "numeric" or not (left.is_exact and right.is_exact):
        return kind
    (p1, s1), (p2, s2) = left.digits, right.digits
    if sign == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif sign == "%":
        precision, scale = min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    if precision > 38:
        reason = f"the exact result may need {precision} digits, and Spark keeps 38"
        raise x.refuse(f"numeric {sign} numeric", reason, "cast the operands to numeric(p, s) with fewer digits", node)
    return t.numeric(precision, scale)


# ||, @>, <@, && ------------------------------------------------------------------------------------------------------


def concatenation(x: Expressions, node: exp.Expr) -> Typed:
    """Text with NULL is NULL; an array with NULL is the other side."""
    left, right = x.typed(node.this, "||"), x.typed(node.expression, "||")
    if left.type.name == "array" or right.type.name == "array":
        return _array_concatenation(x, left, right, node)
    if not (left.type.is_text or right.type.is_text):
        reason = "PostgreSQL joins texts, or a text with another type"
        raise x.refuse(f"{left.type} || {right.type}", reason, "cast one side to text", node)
    parts = [as_text(x, side, node) for side in (left, right)]
    return Typed(exp.DPipe(this=atom(parts[0]), expression=atom(parts[1]), safe=True), t.TEXT)


def _array_concatenation(x: Expressions, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    both = [s.type.name == "array" for s in (left, right)]
    if all(both) and t.common([left.type, right.type]):
        joined = call("concat", left.node, right.node)
        return Typed(call("coalesce", joined, left.node, right.node), left.type)
    whole, single = (left, right) if both[0] else (right, left)
    element = whole.type.of
    if element is None or single.type.name in ("array", "null", "unknown") or not t.common([element, single.type]):
        reason = "these types have no array concatenation"
        raise x.refuse(f"{left.type} || {right.type}", reason, CAST, node)
    item = call("array", single.node)
    filled = call("coalesce", whole.node, cast(call("array"), str(whole.type.in_spark)))
    return Typed(call("concat", *((filled, item) if both[0] else (item, filled))), whole.type)


def overlap(x: Expressions, node: exp.Expr) -> Typed:
    """NULL elements never match; a NULL array gives NULL."""
    sign = {"arraycontainsall": "@>", "arraycontainedby": "<@", "arrayoverlaps": "&&"}[str(node.key)]
    left, right = x.typed(node.this, sign), x.typed(node.expression, sign)
    if left.type.name != "array" or right.type.name != "array" or not t.common([left.type, right.type]):
        raise x.refuse(f"{left.type} {sign} {right.type}", "only arrays of one type have a translation", CAST, node)
    if sign == "&&":
        found = call("coalesce", call("arrays_overlap", left.node, right.node), exp.false())
    else:
        outer, inner = (left, right) if sign == "@>" else (right, left)
        has = call("coalesce", call("array_contains", outer.node, name(ELEMENT)), exp.false())
        found = call("forall", inner.node, function(ELEMENT, has))
    missing = exp.Or(this=is_null(left.node), expression=is_null(right.node))
    return Typed(case((missing, exp.Null()), default=found), t.BOOL)


# Patterns ------------------------------------------------------------------------------------------------------------


def pattern_match(x: Expressions, node: exp.Expr) -> Typed:
    if isinstance(node, exp.Escape):
        inner = pattern_match(x, node.this)
        sign = node.expression
        if not isinstance(node.this, exp.Like | exp.ILike) or not is_literal(sign, text=True) or len(sign.this) != 1:
            raise x.refuse("ESCAPE of this form", "Spark takes one character", "use ESCAPE '!'", node)
        return Typed(exp.Escape(this=inner.node, expression=sign.copy()), t.BOOL)
    x.only(node, "this", "expression", "negate")
    value = x.typed(node.this, "a pattern match")
    if not (value.type.is_text or value.type == t.NULL):
        raise x.refuse(f"a pattern match of {value.type}", "only text has patterns", "cast it to text", node)
    if isinstance(node, exp.Like | exp.ILike):
        pattern = x.typed(node.expression, "LIKE").node
        matched = type(node)(this=atom(value.node), expression=atom(pattern), negate=node.args.get("negate"))
        return Typed(matched, t.BOOL)
    if isinstance(node, exp.StartsWith):
        return Typed(call("startswith", value.node, x.expr(node.expression).node), t.BOOL)
    return Typed(call("regexp_like", value.node, string(_pattern(x, node))), t.BOOL)


def _pattern(x: Expressions, node: exp.Expr) -> str:
    if not is_literal(node.expression, text=True):
        reason = "a pattern from data cannot be checked for parts that Spark reads differently"
        raise x.refuse("a computed pattern", reason, "write the pattern as a constant, or use LIKE", node)
    text = str(node.expression.this)
    try:
        if isinstance(node, exp.SimilarTo):
            return of_similar(text)
        return of_regex(text, isinstance(node, exp.RegexpILike))
    except UnknownPattern as error:
        raise x.refuse(f"the pattern '{text}'", f"{error} has no proven counterpart", AFTER, node) from None
