"""Drop ORDER BY that no LIMIT reads: a stored bag has no order, readers order themselves."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.walk import transform


def drop_sorts(plan: p.Plan) -> p.Plan:
    if any(isinstance(n, p.Limit) for n in _all(plan)):
        return plan
    return transform(plan, lambda n: n.child if isinstance(n, p.Sort) else n)


def _all(plan: p.Plan) -> list[p.Plan]:
    return [plan, *(n for c in plan.children for n in _all(c))]
