"""Read one Catalyst aggregate call: its parts, and Spark's own final step over Freshlake's state columns."""

from __future__ import annotations

from typing import Any

from freshlake.compiler.aggregates import decimal_of
from freshlake.compiler.bind_expression import ExpressionBinder, json_type
from freshlake.compiler.plan import Call, Expr, text

ORDER_SENSITIVE = frozenset(
    [
        "First",
        "Last",
        "CollectList",
        "CollectSet",
        "ListAgg",
        "MaxBy",
        "MinBy",
        "Mode",
        "HistogramNumeric",
        "ApproximatePercentile",
        "ApproxTopK",
        "AnyValue",
    ]
)


def bind_call(aggregate: Any, index: int, name: str, binder: ExpressionBinder) -> Call:
    function = aggregate.aggregateFunction()
    kind = function.getClass().getSimpleName()
    children = binder.b.items(function.children())
    whole = binder.expr(aggregate)
    types = tuple(json_type(c.dataType()) for c in children)
    condition = aggregate.filter().get() if aggregate.filter().isDefined() else None
    distinct = aggregate.isDistinct() and kind not in ("Min", "Max")
    return Call(
        name=name,
        function=kind,
        text=whole.text,
        type=json_type(function.dataType()),
        slot=index,
        args=tuple(binder.expr(_guarded(c, condition, binder)) for c in children),
        arg_types=types,
        condition=None if condition is None else binder.expr(condition),
        distinct=distinct,
        columns=whole.columns,
        facts=frozenset({"order-sensitive"} if kind in ORDER_SENSITIVE else ()),
        handle=whole.handle,
        finish=None if distinct else _finish(function, kind, types, index, whole.text, binder),
    )


def _guarded(argument: Any, condition: Any, binder: ExpressionBinder) -> Any:
    """Spark evaluates an argument only where the FILTER holds; elsewhere it may even fail."""
    if condition is None:
        return argument
    expressions = binder.b.jvm.org.apache.spark.sql.catalyst.expressions
    return expressions.If(condition, argument, expressions.Literal(None, argument.dataType()))


def _finish(
    function: Any, kind: str, types: tuple[str, ...], i: int, shown: str, binder: ExpressionBinder
) -> Expr | None:
    if kind == "Count":
        return text(f"__fl_n{i}", f"__fl_n{i}")
    if kind in ("Min", "Max"):
        return text(f"__fl_m{i}", f"__fl_m{i}")
    if kind not in ("Sum", "Average") or decimal_of(types[0]) is None or shown.startswith("try_"):
        return None
    empty = {"Sum": "null", "Average": "0"}[kind]
    pairs = []
    for buffer in binder.b.items(function.aggBufferAttributes()):
        meaning = {
            "sum": f"cast(if(__fl_n{i} = 0, {empty}, __fl_s{i}) as {buffer.dataType().sql()})",
            "count": f"__fl_n{i}",
            "isEmpty": f"__fl_n{i} = 0",
        }[buffer.name()]
        pairs.append(binder.b.pair(buffer, binder.b.stable_alias(binder.b.parse(meaning), buffer.name())))
    handle = binder.b.substitute(function.evaluateExpression(), pairs)
    return Expr(f"{kind.lower()} of __fl_s{i}, __fl_n{i}", (f"__fl_s{i}", f"__fl_n{i}"), handle)
