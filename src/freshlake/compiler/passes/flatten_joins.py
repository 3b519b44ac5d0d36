"""Gather nested inner joins and the filters above them into one n-way join; move conditions onto the inputs they read.

Sound because an inner join keeps exactly the product rows on which every conjunct is true, in whatever order they are
tested. A conjunct that reads one input alone moves onto that input, so its delta is filtered before it is joined.

In other joins, except a full one, a row of the result belongs to one row of the left input; so a filter that reads
the left input alone moves onto it. One that reads the right side of a left join stays, since it sees the padding. A
conjunct of the condition that reads the right input alone decides which of its rows can match, so it moves there.
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
        case p.Filter(child=p.Join() as below) if below.kind != "FullOuter":
            return _above(plan, below)
        case p.Filter(child=p.Project() as below) if _movable(plan, below):
            pushed = _flatten(p.Filter(below.child.columns, below.child, plan.on))
            return replace(below, child=pushed)
        case p.InnerJoin():
            return _gather(plan)
        case p.Join() if plan.kind != "FullOuter":
            return _within(plan)
    return plan


def _movable(above: p.Filter, below: p.Project) -> bool:
    """The filter reads only columns that the projection passes through under the same name."""
    passed = {i.name for i in below.items if i.expr is None}
    return all(set(e.columns) <= passed for e in above.on)


def _above(above: p.Filter, join: p.Join) -> p.Plan:
    left, right = join.inputs
    mine, rest = _reading(above.on, left)
    if not mine:
        return above
    moved = replace(join, inputs=(_flatten(p.Filter(left.columns, left, mine)), right))
    return p.Filter(above.columns, moved, rest) if rest else moved


def _within(join: p.Join) -> p.Plan:
    left, right = join.inputs
    theirs, rest = _reading(join.on, right)
    if theirs:
        right = _flatten(p.Filter(right.columns, right, theirs))
    mine, others = _reading(rest, left) if join.kind == "LeftSemi" else ((), rest)
    if mine:
        left = _flatten(p.Filter(left.columns, left, mine))
    return replace(join, inputs=(left, right), on=others) if theirs or mine else join


def _reading(on: tuple[p.Expr, ...], child: p.Plan) -> tuple[tuple[p.Expr, ...], tuple[p.Expr, ...]]:
    """Conjuncts that read columns of `child` alone, and the others."""
    mine = tuple(e for e in on if e.columns and set(e.columns) <= set(child.names))
    return mine, tuple(e for e in on if e not in mine)


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
