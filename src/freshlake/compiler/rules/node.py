"""Stored node: Δ is what this refresh writes to the node's log."""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN


def _delta(ref: p.NodeRef, derive: Derive) -> p.Plan:
    return p.Delta((*ref.columns, COLUMN), ref.node, ref.names)


NODE = Rule("stored_node", p.NodeRef, _delta, Linearity.LINEAR, "Δ is the node's own log entry")
