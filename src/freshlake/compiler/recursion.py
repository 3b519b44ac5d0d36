"""Recursive queries: whether a step is linear in its reference, and the level of every row as a column of its own."""

from __future__ import annotations

from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.walk import nodes

LEVEL = "__fl_level"
_COLUMN = p.Column(LEVEL, "integer", False, LEVEL)
_PRESERVED = {"LeftOuter": 0, "LeftSemi": 0, "LeftAnti": 0, "Existence": 0, "LeftSingle": 0, "RightOuter": 1}
"""Kinds of join that are linear in one of their inputs: which one it is."""


def refers(plan: p.Plan, loop: int) -> bool:
    return any(isinstance(n, p.LoopRef) and n.id == loop for n in nodes(plan))


def why_not_linear(loop: p.Loop) -> str | None:
    """What in the step does more than leading from every row of the reference to rows of its own; None when nothing."""
    anchor, step = loop.inputs
    if refers(anchor, loop.id):
        return "its first part refers to itself"
    if not refers(step, loop.id):
        return "its step does not refer to it"
    return _why(step, loop.id)


def _why(plan: p.Plan, loop: int) -> str | None:
    inside = [refers(c, loop) for c in plan.children]
    match plan:
        case p.LoopRef():
            return None
        case p.Project() | p.Filter() | p.Generate():
            pass
        case p.Union() if not all(inside):
            return "a branch of its UNION ALL does not refer to it, so it never ends"
        case p.Union():
            pass
        case p.InnerJoin() if sum(inside) > 1:
            return "its step joins the reference with itself"
        case p.InnerJoin():
            pass
        case p.Join() if inside.count(True) == 1 and _PRESERVED.get(plan.kind) == inside.index(True):
            pass
        case _:
            return f"its step uses the reference inside {type(plan).__name__.lower()}"
    return next((why for c, there in zip(plan.children, inside, strict=True) if there and (why := _why(c, loop))), None)


def with_levels(loop: p.Loop) -> p.Loop:
    """The same recursion with the level at which each row was found: 1 for the first part, then one more per step."""
    anchor, step = loop.inputs
    first = p.project(anchor, p.passing(anchor, p.Item(LEVEL, p.text("1"))), [_COLUMN])
    carried = _carrying(step, loop.id)
    more = p.Item(LEVEL, p.text(f"{LEVEL} + 1", LEVEL))
    further = p.project(carried, (*p.passing(carried, only=step.names), more), [_COLUMN])
    return replace(loop, columns=(*loop.columns, _COLUMN), inputs=(first, further))


def _carrying(plan: p.Plan, loop: int) -> p.Plan:
    """A linear step that passes the level of the reference through."""
    if not refers(plan, loop):
        return plan
    columns = (*plan.columns, _COLUMN)
    if isinstance(plan, p.LoopRef):
        return replace(plan, columns=columns)
    below = tuple(_carrying(c, loop) for c in plan.children)
    match plan:
        case p.Project():
            return p.Project(columns, below[0], (*plan.items, p.Item(LEVEL)))
        case p.Union():
            # by position: the level comes last in every branch
            pairs = zip(below, plan.inputs, strict=True)
            return replace(
                plan,
                columns=columns,
                inputs=tuple(p.project(b, p.passing(b, only=(*c.names, LEVEL))) for b, c in pairs),
            )
        case p.InnerJoin():
            return replace(plan, columns=tuple(c for b in below for c in b.columns), inputs=below)
    return replace(plan.with_children(below), columns=columns)
