"""The functions of PostgreSQL whose translation is proven; a name that is not here is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.dialect import numbers, texts
from freshlake.dialect import types as t
from freshlake.dialect.calling import Call, Handler, arguments, same
from freshlake.dialect.temporal import date_part, date_trunc
from freshlake.dialect.tree import call, cast, exp, number
from freshlake.dialect.typed import Typed, whole
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions


def _choice(spark: str) -> Handler:
    """coalesce, greatest, least: all arguments have one type; NULLs are passed over."""

    def handler(x: Expressions, c: Call) -> Typed:
        items, kind = x.alike(list(c.args), c.word)
        if len(items) == 1 and spark != "coalesce":
            return Typed(items[0], kind)
        return Typed(call(spark, *items), kind)

    return handler


def _nullif(x: Expressions, c: Call) -> Typed:
    if len(c.args) != 2:
        raise x.refuse("nullif of this form", "it takes two arguments", "nullif(a, b)", c.node)
    items, kind = x.alike(list(c.args), "nullif")
    first = x.expr(c.args[0]).type
    return Typed(call("nullif", *items), kind if first.is_open else first)


def _array_length(x: Expressions, c: Call) -> Typed:
    """NULL for an empty array."""
    value, _ = arguments(x, c, "array", "int")
    if whole(c.args[1]) != 1:
        raise x.refuse("array_length of this form", "Spark's arrays have one dimension", "use dimension 1", c.node)
    return Typed(call("nullif", call("cardinality", value.node), number(0)), t.INT4)


def _array_operator(x: Expressions, c: Call) -> Typed:
    """array_append, array_prepend and array_cat are ||."""
    if len(c.args) != 2:
        raise x.refuse(f"{c.word} of this form", "it takes two arguments", "use ||", c.node)
    return x.expr(exp.DPipe(this=c.args[0], expression=c.args[1]))


def _array_to_string(x: Expressions, c: Call) -> Typed:
    found = arguments(x, c, "array", "text", "text", optional=1)
    if found[0].type.of != t.TEXT:
        raise x.refuse(
            "array_to_string", "only arrays of text have a proven translation", "use an array of text", c.node
        )
    return Typed(call("array_join", *(f.node for f in found)), t.TEXT)


def _now(spark: str, kind: Type) -> Handler:
    return lambda x, c: Typed(call(spark), kind)


def _make_date(x: Expressions, c: Call) -> Typed:
    found = arguments(x, c, "int", "int", "int")
    return Typed(call("make_date", *(f.node for f in found)), t.DATE)


def _grouping(x: Expressions, c: Call) -> Typed:
    """One bit per column, the last one lowest."""
    total: exp.Expr | None = None
    for i, argument in enumerate(reversed(c.args)):
        bit = call("grouping", x.expr(argument).node)
        bit = cast(bit, "INT") if i == 0 else exp.Mul(this=cast(bit, "INT"), expression=number(2**i))
        total = bit if total is None else exp.Add(this=bit, expression=total)
    if total is None:
        raise x.refuse("grouping()", "it needs columns", "grouping(a, b)", c.node)
    return Typed(exp.Paren(this=total) if len(c.args) > 1 else total, t.INT4)


def _only_in_from(x: Expressions, c: Call) -> Typed:
    reason = "Spark has no function that returns several rows in this place"
    raise x.refuse(f"{c.word} in a SELECT list", reason, f"write FROM t, LATERAL {c.word}(…) AS s(x)", c.node)


FUNCTIONS: dict[str, Handler] = {
    "abs": same("abs", None, "number"),
    "array_append": _array_operator,
    "array_cat": _array_operator,
    "array_length": _array_length,
    "array_prepend": _array_operator,
    "array_to_string": _array_to_string,
    "btrim": texts.trim,
    "cardinality": same("cardinality", t.INT4, "array"),
    "cbrt": numbers.real("cbrt"),
    "ceil": numbers.whole_number("ceil"),
    "ceiling": numbers.whole_number("ceil"),
    "char_length": same("char_length", t.INT4, "text"),
    "character_length": same("char_length", t.INT4, "text"),
    "coalesce": _choice("coalesce"),
    "concat": texts.concat,
    "concat_ws": texts.concat_ws,
    "current_date": _now("current_date", t.DATE),
    "current_timestamp": _now("current_timestamp", t.TIMESTAMPTZ),
    "date_part": date_part,
    "date_trunc": date_trunc,
    "degrees": numbers.real("degrees"),
    "exp": numbers.real("exp"),
    "floor": numbers.whole_number("floor"),
    "generate_series": _only_in_from,
    "greatest": _choice("greatest"),
    "grouping": _grouping,
    "least": _choice("least"),
    "left": texts.end("left"),
    "length": same("length", t.INT4, "text"),
    "ln": numbers.real("ln", exp.LTE),
    "localtimestamp": _now("localtimestamp", t.TIMESTAMP),
    "log": numbers.real("log10", exp.LTE),
    "log10": numbers.real("log10", exp.LTE),
    "lower": same("lower", t.TEXT, "text"),
    "lpad": texts.pad("lpad"),
    "ltrim": texts.trim,
    "make_date": _make_date,
    "md5": same("md5", t.TEXT, "text"),
    "mod": lambda x, c: x.expr(exp.Mod(this=c.args[0], expression=c.args[1])),
    "now": _now("current_timestamp", t.TIMESTAMPTZ),
    "nullif": _nullif,
    "pi": _now("pi", t.FLOAT8),
    "pow": numbers.power_of,
    "power": numbers.power_of,
    "radians": numbers.real("radians"),
    "repeat": same("repeat", t.TEXT, "text", "int"),
    "replace": same("replace", t.TEXT, "text", "text", "text"),
    "reverse": same("reverse", t.TEXT, "text"),
    "right": texts.end("right"),
    "round": numbers.rounded,
    "rpad": texts.pad("rpad"),
    "rtrim": texts.trim,
    "sign": numbers.real("sign"),
    "split_part": same("split_part", t.TEXT, "text", "text", "int"),
    "sqrt": numbers.real("sqrt", exp.LT),
    "starts_with": same("startswith", t.BOOL, "text", "text"),
    "strpos": texts.position,
    "strposition": texts.position,
    "substr": texts.substring,
    "substring": texts.substring,
    "translate": same("translate", t.TEXT, "text", "text", "text"),
    "trim": texts.trim,
    "unnest": _only_in_from,
    "upper": same("upper", t.TEXT, "text"),
}
