"""Generate: Δ(ε X) = ε ΔX.

Every row brings its own rows along, so a generated row has the weight of the row it comes from.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule


def _delta(node: p.Generate, derive: Derive) -> p.Plan | None:
    change = derive.delta(node.child)
    if change is None:
        return None
    made = tuple(c for c in node.columns if c.name in node.new)
    return p.Generate((*change.columns, *made), change, node.generator, node.outer, node.new)


GENERATE = Rule("generate", p.Generate, _delta, Linearity.LINEAR, "Δ(ε X) = ε ΔX")
