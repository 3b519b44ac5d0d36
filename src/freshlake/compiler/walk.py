"""Small walks over plans: transform bottom-up, find leaves, follow a column to where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from freshlake.compiler import plan as p


def transform(plan: p.Plan, change: Callable[[p.Plan], p.Plan]) -> p.Plan:
    """Rebuild bottom-up; unchanged parts keep their identity, and a part that is read twice stays one part."""
    done: dict[int, p.Plan] = {}

    def rebuilt(part: p.Plan) -> p.Plan:
        if id(part) not in done:
            children = tuple(rebuilt(c) for c in part.children)
            same = all(new is old for new, old in zip(children, part.children, strict=True))
            done[id(part)] = change(part if same else part.with_children(children))
        return done[id(part)]

    return rebuilt(plan)


def read_twice(plan: p.Plan) -> frozenset[int]:
    """The identities of parts that a plan holds in several places, as those of a common table expression."""
    seen: set[int] = set()
    twice: set[int] = set()
    waiting = [plan]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            twice.add(id(part))
            continue
        seen.add(id(part))
        waiting += part.children
    return frozenset(twice)


def nodes(plan: p.Plan) -> Iterator[p.Plan]:
    yield plan
    for child in plan.children:
        yield from nodes(child)


def sources(plan: p.Plan) -> frozenset[str]:
    """Keys of the sources and internal nodes a plan reads."""
    found = set()
    for node in nodes(plan):
        if isinstance(node, p.Scan):
            found.add(node.source)
        elif isinstance(node, p.NodeRef):
            found.add(node.node)
    return frozenset(found)


def origin(plan: p.Plan, name: str) -> tuple[p.Plan, str] | None:
    """The leaf and its column that `name` copies unchanged, or None when it is computed."""
    match plan:
        case p.Project():
            item = next((i for i in plan.items if i.name == name), None)
            source = item.source if item else None
            return origin(plan.child, source) if source else None
        case p.Filter() | p.SemiJoin():
            return origin(plan.children[0], name)
        case p.Generate() if name not in plan.new:
            return origin(plan.child, name)
        case p.InnerJoin():
            owner = next((c for c in plan.inputs if name in c.names), None)
            return origin(owner, name) if owner else None
        case p.Join() if plan.kind != "FullOuter":
            return origin(plan.inputs[0], name) if name in plan.inputs[0].names else None
        case p.State() | p.Delta() | p.Ref() | p.Scan() | p.NodeRef():
            return plan, name
    return None


def is_at_hand(plan: p.Plan) -> bool:
    """A cheap view of one change or of one step's result: reading it twice costs less than materialising it."""
    match plan:
        case p.Delta() | p.Ref():
            return True
        case p.Project() | p.Filter():
            return is_at_hand(plan.child)
    return False
