"""Filter: Δ(σ X) = σ ΔX.

Old rows are tested with their old values and new rows with their new ones, so a row that leaves the predicate keeps its
deletion and one that enters keeps its insertion.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule


def _delta(node: p.Filter, derive: Derive) -> p.Plan | None:
    change = derive.delta(node.child)
    return None if change is None else p.Filter(change.columns, change, node.on)


FILTER = Rule("filter", p.Filter, _delta, Linearity.LINEAR, "Δ(σ X) = σ ΔX")
