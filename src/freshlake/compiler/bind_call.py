"""Read one Catalyst aggregate call: its parts, and Spark's own final step over Freshlake's state columns."""

from __future__ import annotations

from typing import Any

from freshlake.compiler.aggregate_functions import Open, function_of
from freshlake.compiler.aggregates import SAFE, decimal_of
from freshlake.compiler.bind_expression import ExpressionBinder, json_type
from freshlake.compiler.plan import OPEN, Call, Expr, text


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
        facts=frozenset({OPEN} if is_open(function) else ()),
        handle=whole.handle,
        finish=None if distinct else _finish(function, kind, types, index, binder),
        digest=whole.digest,
    )


def is_open(function: Any) -> bool:
    """Whether two right evaluations over the same rows may differ."""
    kind = function.getClass().getSimpleName()
    if kind == "Mode" and function.reverseOpt().isDefined():
        return False
    if kind == "ListAgg" and _is_ordered_by_itself(function):
        return False
    return function_of(kind).open is not Open.NOTHING


def _is_ordered_by_itself(function: Any) -> bool:
    """Texts that such an order ties are the same text; a collation also ties different ones."""
    order = function.orderExpressions()
    plain = json_type(function.child().dataType()) in ("string", "binary")
    return bool(order.size()) and plain and bool(order.apply(0).child().semanticEquals(function.child()))


def _guarded(argument: Any, condition: Any, binder: ExpressionBinder) -> Any:
    """Spark evaluates an argument only where the FILTER holds; elsewhere it may even fail."""
    if condition is None:
        return argument
    expressions = binder.b.jvm.org.apache.spark.sql.catalyst.expressions
    return expressions.If(condition, argument, expressions.Literal(None, argument.dataType()))


def _finish(function: Any, kind: str, types: tuple[str, ...], i: int, binder: ExpressionBinder) -> Expr | None:
    if kind == "Count":
        return text(f"__fl_n{i}", f"__fl_n{i}")
    if kind in ("Min", "Max"):
        return text(f"__fl_m{i}", f"__fl_m{i}")
    if kind not in ("Sum", "Average") or not _has_exact_state(function, kind, types[0]):
        return None
    precision = decimal_of(types[0])
    assert precision is not None
    empty = {"Sum": "null", "Average": f"cast(0 as decimal(38,{precision[1]}))"}[kind]
    pairs = []
    for buffer in binder.b.items(function.aggBufferAttributes()):
        meaning = {
            "sum": f"cast(if(__fl_n{i} = 0, {empty}, __fl_s{i}) as {buffer.dataType().sql()})",
            "count": f"__fl_n{i}",
            "isEmpty": f"__fl_n{i} = 0",
        }[buffer.name()]
        # how a cast fails is a setting of the table that is bound
        formula = binder.b.parser.parseExpression(meaning)
        pairs.append(binder.b.pair(buffer, binder.b.stable_alias(formula, buffer.name())))
    handle = binder.b.substitute(function.evaluateExpression(), pairs)
    return Expr(f"{kind.lower()} of __fl_s{i}, __fl_n{i}", (f"__fl_s{i}", f"__fl_n{i}"), handle)


def _has_exact_state(function: Any, kind: str, of: str) -> bool:
    """Whether a sum kept as decimal(38, s) ends as Spark's does, also beyond the largest value.

    A sum that overflows is an error in ANSI mode, of the state as of the result. Otherwise it wraps around, or is NULL,
    which the state cannot tell.
    """
    decimal = decimal_of(of)
    if decimal is None:
        return False
    mode = (function.evalContext() if kind == "Sum" else function).evalMode().toString()
    return mode == "ANSI" or (mode == "LEGACY" and of != "long" and decimal[0] <= SAFE)
