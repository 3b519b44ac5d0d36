"""Project: Δ(π X) = π ΔX, the weight passed along."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN


def _delta(node: p.Project, derive: Derive) -> p.Plan | None:
    change = derive.delta(node.child)
    if change is None:
        return None
    return p.Project((*node.columns, COLUMN), change, (*node.items, p.Item(p.WEIGHT)))


PROJECT = Rule("project", p.Project, _delta, Linearity.LINEAR, "Δ(π X) = π ΔX")
