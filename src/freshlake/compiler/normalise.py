"""Catalyst's own rules bring an analysed plan to the operators that bind knows: subqueries become joins.

As in Spark's optimizer, what a subquery refers to outside is pulled up first, then its own plan is brought to normal
form, innermost first, and only then it becomes a join: a rule that makes joins looks into the plan it has just joined,
and would take over references there that were not pulled up yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from freshlake.compiler.bridge import CATALYST, Bridge

_OPT, _ANA = CATALYST + "optimizer.", CATALYST + "analysis."
_ONCE = [_ANA + n for n in ("EliminateSubqueryAliases", "EliminateView")] + [
    _OPT + n
    for n in [
        "EliminateResolvedHint",
        "EliminateSQLFunctionNode",
        "ReplaceExpressions",
        "RewriteWithExpression",
        "RewriteAsOfJoin",
        "PullOutNestedDataOuterRefExpressions",
        "PullupCorrelatedPredicates",
    ]
]
_FIXPOINT = [
    _OPT + n
    for n in [
        "ReplaceExpressions",
        "RewriteWithExpression",
        "RewriteCorrelatedScalarSubquery",
        "RewriteLateralSubquery",
        "RewritePredicateSubquery",
        "OptimizeOneRowRelationSubquery",
        "PullupCorrelatedPredicates",
        "ReplaceIntersectWithSemiJoin",
        "ReplaceExceptWithAntiJoin",
        "ReplaceDistinctWithAggregate",
        "ReplaceDeduplicateWithAggregate",
        "ReplaceUpdateFieldsExpression",
    ]
]
_MAX_ROUNDS = 20


_CUTS = frozenset(["GlobalLimit", "LocalLimit", "Offset"])


def normalise(plan: Any, bridge: Bridge) -> Any:
    plan = _Subqueries(bridge, _cut_at_order).changed(plan)
    for rule in _ONCE:
        plan = bridge.module(rule).apply(plan)
    plan = _Subqueries(bridge, normalise).changed(plan)
    for _ in range(_MAX_ROUNDS):
        before = plan
        for rule in _FIXPOINT:
            plan = bridge.module(rule).apply(plan)
        if plan.fastEquals(before):
            break
    return plan


def _cut_at_order(plan: Any, bridge: Bridge) -> Any:
    """Move LIMIT and OFFSET of a subquery below the SELECT list: Spark takes the order of the rows of one outer row
    from a sort right below, and would number them in no order where the query sorts by columns it does not return."""
    kind = plan.nodeName()
    if kind not in _CUTS and kind != "SubqueryAlias":
        return plan
    child = _cut_at_order(plan.children().head(), bridge)
    if kind in _CUTS and child.nodeName() == "Project":
        below = child.children().head()
        if below.nodeName() == "Sort" or below.nodeName() in _CUTS:
            return child.withNewChildren(bridge.seq([plan.withNewChildren(bridge.seq([below]))]))
    return plan.withNewChildren(bridge.seq([child]))


class _Subqueries:
    """Change the plans of subqueries. Catalyst's transformations take Scala functions; here the paths that lead to a
    subquery are rebuilt."""

    def __init__(self, bridge: Bridge, change: Callable[[Any, Bridge], Any]) -> None:
        self.b, self.change = bridge, change

    def changed(self, plan: Any) -> Any:
        if not plan.containsPattern(self.b.plan_expression):
            return plan
        return plan.makeCopy(self.b.array([self.part(plan.productElement(i)) for i in range(plan.productArity())]))

    def part(self, value: Any) -> Any:
        if self.b.is_a(value, CATALYST + "plans.logical.LogicalPlan"):
            return self.changed(value)
        if self.b.is_a(value, CATALYST + "expressions.Expression"):
            return self.expression(value)
        if self.b.is_a(value, "scala.Some"):
            return self.b.some(self.part(value.get()))
        if self.b.is_a(value, "scala.collection.immutable.Seq"):
            return self.b.seq(map(self.part, self.b.items(value)))
        return value

    def expression(self, e: Any) -> Any:
        if not e.containsPattern(self.b.plan_expression):
            return e
        if self.b.is_a(e, CATALYST + "expressions.SubqueryExpression"):
            e = e.withNewPlan(self.change(e.plan(), self.b))
        children = self.b.items(e.children())
        return e.withNewChildren(self.b.seq(map(self.expression, children))) if children else e
