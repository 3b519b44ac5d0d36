"""Expand: Δ(ε X) = ε ΔX.

Every row becomes one row per grouping set, each with the weight of the row it comes from.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN


def _delta(node: p.Expand, derive: Derive) -> p.Plan | None:
    change = derive.delta(node.child)
    if change is None:
        return None
    weight = p.column_expr(p.WEIGHT)
    return p.Expand((*node.columns, COLUMN), change, tuple((*row, weight) for row in node.rows))


EXPAND = Rule("expand", p.Expand, _delta, Linearity.LINEAR, "Δ(ε X) = ε ΔX")
