"""Complete the order of windows and top-k with the rest of the row, where the result depends on it.

Sound because it only decides what the query leaves open: rows that differ in the user's order stay in that order, and
peers of `rank` and of RANGE frames are still those of the user's order.
"""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.order import ties
from freshlake.compiler.walk import transform


def complete_orders(plan: p.Plan) -> p.Plan:
    return transform(plan, _complete)


def _complete(plan: p.Plan) -> p.Plan:
    match plan:
        case p.Window() if any(i.expr is not None and p.TIES in i.expr.facts for i in plan.items):
            return replace(plan, ties=ties(plan.child, (*plan.partition, *_columns(plan.order))))
        case p.TopK():
            return replace(plan, ties=ties(plan.child, _columns(plan.order)))
    return plan


def _columns(order: tuple[p.Order, ...]) -> tuple[str, ...]:
    return tuple(o.expr.columns[0] for o in order if o.expr.is_column)
