"""PIVOT in terms of plain aggregates: Spark's PivotFirst picks, per pivot value, the one row of a group that has it."""

from __future__ import annotations

from typing import Any

from freshlake.compiler.bridge import CATALYST, Bridge


def without_pivot(aggregate: Any, b: Bridge) -> Any:
    """PivotFirst(p, v, values) → array(max(v) FILTER (WHERE p <=> value), …): of one row, the maximum is its value."""
    expressions = aggregate.aggregateExpressions()
    if "pivotfirst(" not in expressions.toString():  # the text of the operator itself ends after 25 of them
        return aggregate
    named = [_rewritten(e, b) for e in b.items(expressions)]
    return b.node["Aggregate"](aggregate.groupingExpressions(), b.seq(named), aggregate.child(), b.none)


def _rewritten(named: Any, b: Bridge) -> Any:
    inner = named.child() if named.getClass().getSimpleName() == "Alias" else None
    if inner is None or inner.getClass().getSimpleName() != "AggregateExpression":
        return named
    function = inner.aggregateFunction()
    if function.getClass().getSimpleName() != "PivotFirst":
        return named
    values = [_picked(function, i, b) for i in range(function.pivotColumnValues().size())]
    return named.withNewChildren(b.seq([b.expressions.CreateArray(b.seq(values), False)]))


def _picked(pivot: Any, place: int, b: Bridge) -> Any:
    types, column = b.jvm.org.apache.spark.sql.types, pivot.pivotColumn()
    # values are in Spark's internal form, which only a literal of an array of them can carry over
    array = b.jvm.org.apache.spark.sql.catalyst.util.GenericArrayData(pivot.pivotColumnValues())
    literals = b.expressions.Literal(array, types.ArrayType(column.dataType(), True))
    at = b.module(CATALYST + "expressions.Literal").apply(place)
    same = b.expressions.EqualNullSafe(column, b.expressions.GetArrayItem(literals, at, False))
    return b.expressions.aggregate.Max(pivot.valueColumn()).toAggregateExpression(False, b.some(same))
