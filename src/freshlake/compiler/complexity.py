"""Complexity: which of five classes a query belongs to, for a first guess at what its refreshes cost."""

from __future__ import annotations

from enum import StrEnum

from freshlake.compiler import plan as p
from freshlake.compiler.walk import nodes


class Complexity(StrEnum):
    """Each class does more work per row than the one before it."""

    SCAN = "scan"
    FILTER = "filter"
    AGGREGATE = "aggregate"
    JOIN = "join"
    JOIN_AGG = "join_agg"


def complexity(plan: p.Plan) -> Complexity:
    """Every operator that keeps a state counts as an aggregate; a recursion does both at every level."""
    found = list(nodes(plan))
    joins = any(isinstance(n, p.InnerJoin | p.Join | p.SemiJoin | p.Loop) for n in found)
    groups = any(isinstance(n, p.NONLINEAR) for n in found)
    if joins:
        return Complexity.JOIN_AGG if groups else Complexity.JOIN
    if groups:
        return Complexity.AGGREGATE
    return Complexity.FILTER if any(isinstance(n, p.Filter) for n in found) else Complexity.SCAN
