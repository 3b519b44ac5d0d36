"""Gather nested inner joins and the filters above them into one n-way join.

Sound because an inner join keeps exactly the product rows on which every conjunct is true, in whatever order they are
tested. A conjunct that reads one input alone moves onto that input, so its delta is filtered before it is joined.
"""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.walk import transform


def flatten_joins(plan: p.Plan) -> p.Plan:
    return transform(plan, _flatten)


def _flatten(plan: p.Plan) -> p.Plan:
    match plan:
        case p.Filter(child=p.Filter() as below):
            return _flatten(replace(below, on=below.on + plan.on))
        case p.Filter(child=p.InnerJoin() as below):
            return _place(below.inputs, below.on + plan.on, below.columns)
        case p.Filter(child=p.Project() as below) if _movable(plan, below):
            pushed = _flatten(p.Filter(below.child.columns, below.child, plan.on))
            return replace(below, child=pushed)
        case p.InnerJoin():
            return _gather(plan)
    return plan


def _movable(above: p.Filter, below: p.Project) -> bool:
    """The filter reads only columns that the projection passes through under the same name."""
    passed = {i.name for i in below.items if i.expr is None}
    return all(set(e.columns) <= passed for e in above.on)


def _gather(join: p.InnerJoin) -> p.Plan:
    inputs: list[p.Plan] = []
    conjuncts: list[p.Expr] = []
    for child in join.inputs:
        inner = _joined(child)
        taken = {n for c in (*inputs, *(x for x in join.inputs if x is not child)) for n in c.names}
        if inner is not None and not taken & {n for c in inner.inputs for n in c.names}:
            inputs.extend(inner.inputs)
            conjuncts.extend(inner.on)
        else:
            inputs.append(child)
    return _place(tuple(inputs), (*conjuncts, *join.on), join.columns)


def _joined(plan: p.Plan) -> p.InnerJoin | None:
    """An inner join, seen through projections that only drop columns."""
    if isinstance(plan, p.InnerJoin):
        return plan
    if isinstance(plan, p.Project) and all(i.expr is None for i in plan.items):
        return _joined(plan.child)
    return None


def _place(inputs: tuple[p.Plan, ...], on: tuple[p.Expr, ...], columns: tuple[p.Column, ...]) -> p.Plan:
    """One join over `inputs`, conjuncts of a single input pushed onto it; the output shows `columns`."""
    placed, rest = list(inputs), []
    for e in on:
        home = next((i for i, c in enumerate(placed) if e.columns and set(e.columns) <= set(c.names)), None)
        if home is None:
            rest.append(e)
        else:
            placed[home] = _flatten(p.Filter(placed[home].columns, placed[home], (e,)))
    wide = tuple(c for child in placed for c in child.columns)
    joined = p.InnerJoin(wide, tuple(placed), tuple(rest))
    if [c.name for c in wide] == [c.name for c in columns]:
        return joined
    return p.Project(columns, joined, tuple(p.Item(c.name) for c in columns))
