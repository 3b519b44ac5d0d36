"""Functions over numbers: rounding as in PostgreSQL, and failing where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.calling import Call, Handler, arguments
from freshlake.dialect.tree import binary, call, case, cast, exp, number, string
from freshlake.dialect.typed import Typed, whole

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions


def real(spark: str, outside: type[exp.Expr] | None = None) -> Handler:
    """Functions over real numbers: double, or numeric that Spark computes as a double.

    Where the argument is `outside` 0 PostgreSQL fails, and Spark gives NULL or NaN.
    """

    def handler(x: Expressions, c: Call) -> Typed:
        (value,) = arguments(x, c, "number")
        real = cast(value.node, "DOUBLE")
        node = call(spark, real)
        if outside is not None:
            node = case((binary(outside, real, number(0)), _failure(f"{c.word} of such a number")), default=node)
        return Typed(node, t.QUOTIENT if value.type.name == "numeric" else t.FLOAT8)

    return handler


def _failure(what: str) -> exp.Expr:
    return call("raise_error", string(f"{what} is undefined"))


def power_of(x: Expressions, c: Call) -> Typed:
    base, exponent = arguments(x, c, "number", "number")
    return power(base, exponent)


def power(base: Typed, exponent: Typed) -> Typed:
    """Undefined powers fail, where Spark gives infinity or NaN."""
    floats = all(v.type.is_float or v.type.is_int for v in (base, exponent))
    low, high = base.node, exponent.node
    to_zero = exp.And(this=binary(exp.EQ, low, number(0)), expression=binary(exp.LT, high, number(0)))
    root = exp.And(this=binary(exp.LT, low, number(0)), expression=binary(exp.NEQ, high, call("rint", high)))
    plain = call("power", low, high)
    whole_exponent, whole_base = whole(high), whole(low)
    if (whole_exponent is not None and whole_exponent >= 0) or (whole_base is not None and whole_base > 0):
        node = plain
    else:
        node = case((to_zero, _failure("a power of zero")), (root, _failure("a root")), default=plain)
    return Typed(node, t.FLOAT8 if floats else t.QUOTIENT)


def rounded(x: Expressions, c: Call) -> Typed:
    """Numeric rounds half away from zero, double half to even."""
    value, *digits = arguments(x, c, "number", "int", optional=1)
    places = whole(c.args[1]) if digits else 0
    if value.type.is_float:
        if digits:
            raise x.refuse(
                "round(double, digits)", "PostgreSQL has it for numeric only", "cast to numeric(p, s)", c.node
            )
        return Typed(call("rint", value.node), value.type)
    if places is None or places < 0:
        raise x.refuse("round to computed digits", "the result's type must be known", "use a constant", c.node)
    node = call("round", value.node, number(places)) if digits else call("round", value.node)
    if not value.type.is_exact:
        return Typed(node, t.QUOTIENT)
    precision, scale = value.type.digits
    kept = min(scale, places)
    return Typed(node, t.numeric(min(precision - scale + 1 + kept, 38), kept))


def whole_number(spark: str) -> Handler:
    """ceil and floor; Spark turns a double into a BIGINT, which does not hold all of them."""

    def handler(x: Expressions, c: Call) -> Typed:
        (value,) = arguments(x, c, "number")
        if value.type.is_exact and value.type.name == "numeric":
            precision, scale = value.type.digits
            return Typed(call(spark, value.node), t.numeric(min(precision - scale + 1, 38), 0))
        real = cast(value.node, "DOUBLE")
        small = binary(exp.LT, call("abs", real), exp.Literal.number("9.0E15D"))
        node = case((small, cast(call(spark, real), "DOUBLE")), default=real)
        return Typed(node, t.QUOTIENT if value.type.name == "numeric" else t.FLOAT8)

    return handler
