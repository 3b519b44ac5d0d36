"""Leave out what an empty change cannot contribute to, before Spark sees the plan.

Sound because every operator here maps an empty input to an empty output; a union only loses its empty branches, and an
aggregation without keys is kept, since it yields a row even over nothing. An outer, anti or existence join keeps its
left rows when there is nothing on its right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from freshlake.compiler import plan as p


def drop_empty(plan: p.Plan, is_empty: Callable[[p.Plan], bool]) -> p.Plan | None:
    """The plan without empty parts; None when the whole is empty."""
    match plan:
        case p.Delta() | p.Ref():
            return None if is_empty(plan) else plan
        case p.Union():
            inputs = [c for c in (drop_empty(c, is_empty) for c in plan.inputs) if c is not None]
            return replace(plan, inputs=tuple(inputs)) if inputs else None
        case p.Join():
            return _join(plan, is_empty)
        case p.Given():
            rows, by = plan.inputs
            return None if drop_empty(by, is_empty) is None else drop_empty(rows, is_empty)
        case p.Group() | p.Aggregate() if not plan.keys:
            return plan
        case p.Generate() | p.Expand() | p.Window() | p.TopK():
            child = drop_empty(plan.child, is_empty)
            return None if child is None else replace(plan, child=child)
        case p.Project() | p.Filter() | p.Group() | p.Aggregate() | p.InnerJoin() | p.SemiJoin():
            children = [drop_empty(c, is_empty) for c in plan.children]
            return None if any(c is None for c in children) else plan.with_children(tuple(c for c in children if c))
    return plan


def _join(join: p.Join, is_empty: Callable[[p.Plan], bool]) -> p.Plan | None:
    left, right = (drop_empty(c, is_empty) for c in join.inputs)
    if join.kind == "FullOuter":
        return None if left is None and right is None else join
    if left is None or (right is None and join.kind == "LeftSemi"):
        return None
    if right is None and join.kind == "LeftAnti":
        return left
    return replace(join, inputs=(left, right or join.inputs[1]))
