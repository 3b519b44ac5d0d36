"""Which rule differentiates an operator that needs no state of its own: by its type, for joins also by their kind."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules import JOINS, RULES
from freshlake.compiler.rules.rule import Rule


def rule_of(plan: p.Plan) -> Rule | None:
    return JOINS.get(plan.kind) if isinstance(plan, p.Join) else RULES.get(type(plan))
