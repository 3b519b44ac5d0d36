"""Aggregates and window functions whose translation is proven, with FILTER, WITHIN GROUP and OVER."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.calling import Call
from freshlake.dialect.tree import binary, call, case, cast, column, exp, function, is_not_null, is_null, number, string
from freshlake.dialect.typed import AFTER, CAST, Typed, is_literal, whole
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.expressions import Expressions

Wrap = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Aggregation:
    """A call, its arguments translated, and what stands around it: every Spark call in its translation gets it too."""

    call: Call
    args: tuple[Typed, ...]
    order: tuple[exp.Expr, ...] = ()
    within: tuple[tuple[exp.Expr, Type], ...] = ()
    over: bool = False
    wrap: Wrap = field(default=lambda e: e)

    def made(self, spark: str, *args: exp.Expr) -> exp.Expr:
        """A Spark aggregate over these arguments, with DISTINCT and the clauses around it."""
        given = [exp.Distinct(expressions=[a.copy() for a in args])] if self.call.distinct else list(args)
        return self.wrap(call(spark, *given))


Handler = Callable[["Expressions", Aggregation], Typed]


def _argument(x: Expressions, a: Aggregation, *families: str) -> list[Typed]:
    if len(a.args) != len(families) or a.within:
        raise x.refuse(f"{a.call.word} of this form", "this form of the call has no translation", AFTER, a.call.node)
    for value, family in zip(a.args, families, strict=True):
        kind = value.type
        if kind != t.NULL and family != "any" and kind.family not in family.split():
            raise x.refuse(f"{a.call.word} of {kind}", "it has no translation for this type", CAST, a.call.node)
    return list(a.args)


def _count(x: Expressions, a: Aggregation) -> Typed:
    if len(a.call.args) == 1 and isinstance(a.call.args[0], exp.Star):
        return Typed(a.made("count", exp.Star()), t.INT8)
    if any(isinstance(e, exp.Tuple) for e in a.call.args):
        reason = "Spark leaves out rows in which one of the columns is NULL"
        raise x.refuse("count of rows (a, b)", reason, "count over SELECT DISTINCT a, b in a subquery", a.call.node)
    (value,) = _argument(x, a, "any")
    return Typed(a.made("count", value.node), t.INT8)


def _sum(x: Expressions, a: Aggregation) -> Typed:
    (value,) = _argument(x, a, "number")
    if value.type.name == "float4":
        reason = "PostgreSQL adds real in single precision"
        raise x.refuse("sum of real", reason, "cast to double precision", a.call.node)
    return Typed(a.made("sum", value.node), _summed(value.type))


def _summed(kind: Type) -> Type:
    if kind.name == "numeric" and kind.precision is not None:
        return t.numeric(min(kind.precision + 10, 38), kind.scale)
    return {"int2": t.INT8, "int4": t.INT8, "int8": t.numeric(20, 0)}.get(kind.name, kind)


def _avg(x: Expressions, a: Aggregation) -> Typed:
    """Exact sum by count, divided as doubles: Spark's average of decimals keeps four more digits only."""
    (value,) = _argument(x, a, "number")
    if value.type.is_float or not value.type.is_exact:
        return Typed(a.made("avg", value.node), t.QUOTIENT if value.type.name == "numeric" else t.FLOAT8)
    total, count = cast(a.made("sum", value.node), "DOUBLE"), call("nullif", a.made("count", value.node), number(0))
    return Typed(exp.Div(this=total, expression=count, typed=False, safe=False), t.QUOTIENT)


def _same(spark: str, *families: str, result: Type | None = None) -> Handler:
    def handler(x: Expressions, a: Aggregation) -> Typed:
        found = _argument(x, a, *families)
        return Typed(a.made(spark, *(f.node for f in found)), result or found[0].type)

    return handler


def _moments(spark: str, arguments: int = 1) -> Handler:
    """Variance, correlation, regression: double, or numeric that Spark computes as a double."""

    def handler(x: Expressions, a: Aggregation) -> Typed:
        found = _argument(x, a, *["number"] * arguments)
        kind = t.QUOTIENT if arguments == 1 and not found[0].type.is_float else t.FLOAT8
        return Typed(a.made(spark, *(cast(f.node, "DOUBLE") for f in found)), kind)

    return handler


def _corr(x: Expressions, a: Aggregation) -> Typed:
    """NULL where a side does not vary; Spark's own divides by zero there."""
    left, right = (cast(f.node, "DOUBLE") for f in _argument(x, a, "number", "number"))
    spreads = [a.made("stddev_pop", case((is_not_null(other), one))) for one, other in ((left, right), (right, left))]
    together = call("nullif", binary(exp.Mul, *spreads), number(0))
    divided = exp.Div(this=a.made("covar_pop", left, right), expression=together, typed=False, safe=False)
    return Typed(divided, t.FLOAT8)


# Ordered -------------------------------------------------------------------------------------------------------------


def _string_agg(x: Expressions, a: Aggregation) -> Typed:
    if len(a.args) != 2 or not is_literal(a.call.args[1], text=True) or not a.args[0].type.is_text or a.over:
        reason = "Spark takes text and a constant separator, and no window"
        raise x.refuse("string_agg of this form", reason, "string_agg(text, ',' ORDER BY …)", a.call.node)
    given = [f.node for f in a.args]
    plain = call("listagg", *([exp.Distinct(expressions=given)] if a.call.distinct else given))
    if a.order:
        plain = exp.WithinGroup(this=plain, expression=exp.Order(expressions=[o.copy() for o in a.order]))
    return Typed(a.wrap(plain), t.TEXT)


def _array_agg(x: Expressions, a: Aggregation) -> Typed:
    """NULLs are kept and no rows give NULL, where Spark leaves NULLs out and gives an empty array."""
    (value,) = _argument(x, a, "any")
    if a.over:
        reason = "the order inside a window frame has no proven translation"
        raise x.refuse("array_agg over a window", reason, "aggregate with GROUP BY", a.call.node)
    keys = [(o.this, bool(o.args.get("desc")), bool(o.args.get("nulls_first"))) for o in a.order]
    if a.call.distinct and any(key != value.node for key, _, _ in keys):
        reason = "PostgreSQL orders a DISTINCT aggregate by its argument only"
        raise x.refuse("array_agg(DISTINCT) in another order", reason, "ORDER BY the argument", a.call.node)
    fields = [] if a.call.distinct else [(f"k{i}", key) for i, (key, _, _) in enumerate(keys)]
    parts = [part for label, node in [*fields, ("v", value.node)] for part in (string(label), node)]
    rows = a.made("array_agg", call("named_struct", *parts))
    if keys:
        labels = ["v"] * len(keys) if a.call.distinct else [label for label, _ in fields]
        flags = [(d, n) for _, d, n in keys]
        rows = call("array_sort", rows, function("l, r", _comparator(labels, flags)))
    values = call("transform", rows, function("s", column("v", "s")))
    filled = binary(exp.GT, a.wrap(call("count", exp.Star())), number(0))
    return Typed(case((filled, values)), t.array(t.TEXT if value.type == t.UNKNOWN else value.type))


def _comparator(labels: Sequence[str], flags: Sequence[tuple[bool, bool]]) -> exp.Expr:
    branches = []
    for label, (descending, nulls_first) in zip(labels, flags, strict=True):
        left, right = column(label, "l"), column(label, "r")
        first, last = number(-1), number(1)
        gone, there = (first, last) if nulls_first else (last, first)
        up, down = (last, first) if descending else (first, last)
        branches += [
            (exp.And(this=is_null(left), expression=is_not_null(right)), gone),
            (exp.And(this=is_not_null(left), expression=is_null(right)), there),
            (exp.LT(this=left, expression=right), up),
            (exp.GT(this=left.copy(), expression=right.copy()), down),
        ]
    return case(*branches, default=number(0))


def _percentile(spark: str) -> Handler:
    def handler(x: Expressions, a: Aggregation) -> Typed:
        fraction = a.call.args[0] if len(a.call.args) == 1 else None
        if len(a.within) != 1 or fraction is None or not is_literal(fraction, text=False) or a.over:
            reason = "Spark takes one constant fraction and one order"
            raise x.refuse(f"{spark} of this form", reason, f"{spark}(0.5) WITHIN GROUP (ORDER BY x)", a.call.node)
        kind = a.within[0][1]
        exact = kind.name in ("int2", "int4", "float4", "float8")
        if not kind.is_number or (spark == "percentile_disc" and not exact):
            reason = "Spark gives a double, which does not hold every value of this type"
            raise x.refuse(f"{spark} of {kind}", reason, "cast the ordered column to double precision", a.call.node)
        ordered = _plain_order(a.within[0][0])
        grouped = exp.WithinGroup(this=call(spark, a.args[0].node), expression=exp.Order(expressions=[ordered]))
        back = kind.is_int and spark == "percentile_disc"
        node = a.wrap(grouped)
        return Typed(cast(node, str(kind.in_spark)), kind) if back else Typed(node, t.FLOAT8)

    return handler


def _mode(x: Expressions, a: Aggregation) -> Typed:
    """The most frequent value, of several the first in order."""
    if len(a.within) != 1 or a.args or a.over:
        raise x.refuse("mode of this form", "Spark takes one order", "mode() WITHIN GROUP (ORDER BY x)", a.call.node)
    ordered = _plain_order(a.within[0][0])
    node = exp.WithinGroup(this=call("mode"), expression=exp.Order(expressions=[ordered]))
    return Typed(a.wrap(node), a.within[0][1])


def _plain_order(ordered: exp.Expr) -> exp.Expr:
    """These aggregates leave NULLs out, so their place is not said."""
    descending = bool(ordered.args.get("desc"))
    return exp.Ordered(this=ordered.this.copy(), desc=descending, nulls_first=not descending)


AGGREGATES: dict[str, Handler] = {
    "array_agg": _array_agg,
    "avg": _avg,
    "bit_and": _same("bit_and", "number"),
    "bit_or": _same("bit_or", "number"),
    "bit_xor": _same("bit_xor", "number"),
    "bool_and": _same("bool_and", "bool"),
    "bool_or": _same("bool_or", "bool"),
    "corr": _corr,
    "count": _count,
    "covar_pop": _moments("covar_pop", 2),
    "covar_samp": _moments("covar_samp", 2),
    "every": _same("bool_and", "bool"),
    "max": _same("max", "number text moment"),
    "min": _same("min", "number text moment"),
    "mode": _mode,
    "percentile_cont": _percentile("percentile_cont"),
    "percentile_disc": _percentile("percentile_disc"),
    "regr_avgx": _moments("regr_avgx", 2),
    "regr_avgy": _moments("regr_avgy", 2),
    "regr_count": _same("regr_count", "number", "number", result=t.INT8),
    "regr_intercept": _moments("regr_intercept", 2),
    "regr_r2": _moments("regr_r2", 2),
    "regr_slope": _moments("regr_slope", 2),
    "regr_sxx": _moments("regr_sxx", 2),
    "regr_sxy": _moments("regr_sxy", 2),
    "regr_syy": _moments("regr_syy", 2),
    "stddev": _moments("stddev_samp"),
    "stddev_pop": _moments("stddev_pop"),
    "stddev_samp": _moments("stddev_samp"),
    "string_agg": _string_agg,
    "sum": _sum,
    "var_pop": _moments("var_pop"),
    "var_samp": _moments("var_samp"),
    "variance": _moments("var_samp"),
}


# Window functions ----------------------------------------------------------------------------------------------------


def _rank(spark: str, kind: Type) -> Handler:
    def handler(x: Expressions, a: Aggregation) -> Typed:
        _argument(x, a)
        return Typed(a.wrap(call(spark)), kind)

    return handler


def _ntile(x: Expressions, a: Aggregation) -> Typed:
    if len(a.args) != 1 or whole(a.call.args[0]) is None:
        raise x.refuse("ntile of this form", "Spark takes a constant", "ntile(4)", a.call.node)
    return Typed(a.wrap(call("ntile", a.args[0].node)), t.INT4)


def _offset(spark: str) -> Handler:
    def handler(x: Expressions, a: Aggregation) -> Typed:
        steps = whole(a.call.args[1]) if len(a.args) > 1 else 1
        if not 1 <= len(a.args) <= 3 or steps is None or steps < 0:
            raise x.refuse(f"{spark} of this form", "Spark takes a constant from 0 on", f"{spark}(x, 1)", a.call.node)
        nodes, kind = [f.node for f in a.args], a.args[0].type
        if len(a.args) == 3:
            (nodes[0], nodes[2]), kind = x.alike([a.call.args[0], a.call.args[2]], spark)
        return Typed(a.wrap(call(spark, *nodes)), kind)

    return handler


def _nth_value(x: Expressions, a: Aggregation) -> Typed:
    if len(a.args) != 2 or (whole(a.call.args[1]) or 0) < 1:
        raise x.refuse("nth_value of this form", "Spark takes a constant", "nth_value(x, 2)", a.call.node)
    return Typed(a.wrap(call("nth_value", a.args[0].node, a.args[1].node)), a.args[0].type)


WINDOWS: dict[str, Handler] = {
    "cume_dist": _rank("cume_dist", t.FLOAT8),
    "dense_rank": _rank("dense_rank", t.INT8),
    "first_value": _same("first_value", "any"),
    "lag": _offset("lag"),
    "last_value": _same("last_value", "any"),
    "lead": _offset("lead"),
    "nth_value": _nth_value,
    "ntile": _ntile,
    "percent_rank": _rank("percent_rank", t.FLOAT8),
    "rank": _rank("rank", t.INT8),
    "row_number": _rank("row_number", t.INT8),
}
