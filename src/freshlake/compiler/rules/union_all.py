"""Union all: Δ(X ⊎ Y) = ΔX ⊎ ΔY."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN


def _delta(node: p.Union, derive: Derive) -> p.Plan | None:
    changes = [derive.delta(c) for c in node.inputs]
    ordered = tuple(_in_order(d, c.names) for d, c in zip(changes, node.inputs, strict=True) if d is not None)
    return p.Union((*node.columns, COLUMN), ordered) if ordered else None


def _in_order(change: p.Plan, names: tuple[str, ...]) -> p.Plan:
    """Unions match by position: the weight comes last, the rest as in the input."""
    wanted = (*names, p.WEIGHT)
    return change if change.names == wanted else p.project(change, tuple(p.Item(n) for n in wanted))


UNION_ALL = Rule("union_all", p.Union, _delta, Linearity.LINEAR, "Δ(X ⊎ Y) = ΔX ⊎ ΔY")
