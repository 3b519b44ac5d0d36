"""A right join is a left join with its inputs exchanged; a projection puts the columns back in order."""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.walk import transform


def swap_right_joins(plan: p.Plan) -> p.Plan:
    return transform(plan, _swap)


def _swap(plan: p.Plan) -> p.Plan:
    if not (isinstance(plan, p.Join) and plan.kind == "RightOuter"):
        return plan
    left, right = plan.inputs
    known = {c.name: c for c in plan.columns}
    columns = tuple(known[n] for n in (*right.names, *left.names) if n in known)
    swapped = replace(plan, kind="LeftOuter", inputs=(right, left), columns=columns)
    return p.Project(plan.columns, swapped, p.passing(plan))
