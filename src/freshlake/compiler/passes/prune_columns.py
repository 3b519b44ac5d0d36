"""Keep only columns that something above reads, so that an UPDATE of unused columns consolidates to nothing.

Sound for projections, filters, joins, unions, aggregates, generators, grouping sets, windows and top-k, whose other
columns do not depend on the dropped one; where they do, in ties, the query leaves the choice open. Every other operator
keeps all columns of its input.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from freshlake.compiler import plan as p
from freshlake.compiler.walk import read_twice


def prune_columns(plan: p.Plan) -> p.Plan:
    """A part that is read twice keeps what either reader needs and stays one part: it is stored once, and both readers
    see the same rows where a query leaves a choice."""
    parts = _Parts(read_twice(plan))
    token = _PARTS.set(parts)
    try:
        while True:
            parts.begin()
            pruned = _prune(plan, set(plan.names))
            if not parts.grew:
                return pruned
    finally:
        _PARTS.reset(token)


@dataclass
class _Parts:
    """Parts that are read twice, by identity: the columns needed of them, and what they became."""

    shared: frozenset[int]
    needed: dict[int, set[str]] = field(default_factory=dict)
    pruned: dict[int, p.Plan] = field(default_factory=dict)
    grew: bool = False

    def begin(self) -> None:
        self.pruned.clear()
        self.grew = False

    def prune(self, plan: p.Plan, needed: set[str]) -> p.Plan:
        known = self.needed.setdefault(id(plan), set())
        self.grew |= not needed <= known
        known |= needed
        if id(plan) not in self.pruned:
            self.pruned[id(plan)] = _pruned(plan, set(known))
        return self.pruned[id(plan)]


_PARTS: ContextVar[_Parts] = ContextVar("parts")


def _prune(plan: p.Plan, needed: set[str]) -> p.Plan:
    parts = _PARTS.get()
    return parts.prune(plan, needed) if id(plan) in parts.shared else _pruned(plan, needed)


def _pruned(plan: p.Plan, needed: set[str]) -> p.Plan:
    match plan:
        case p.Scan():
            return _scan(plan, needed)
        case p.Project():
            items = tuple(i for i in plan.items if i.name in needed)
            child = _prune(plan.child, {r for i in items for r in i.reads})
            return replace(plan, items=items, child=child, columns=_kept(plan, needed))
        case p.Filter():
            child = _prune(plan.child, needed | {c for e in plan.on for c in e.columns})
            return replace(plan, child=child, columns=child.columns)
        case p.InnerJoin():
            wanted = needed | {c for e in plan.on for c in e.columns}
            inputs = tuple(_prune(c, wanted & set(c.names)) for c in plan.inputs)
            columns = tuple(c for i in inputs for c in i.columns)
            unread = frozenset(c.name for c in columns) - needed
            return replace(plan, inputs=inputs, columns=columns, unread=unread)
        case p.Join():
            return _join(plan, needed | {c for e in plan.on for c in e.columns})
        case p.Aggregate():
            return _aggregate(plan, needed)
        case p.Union():
            return _union(plan, needed)
    return _prune_rest(plan, needed)


def _prune_rest(plan: p.Plan, needed: set[str]) -> p.Plan:
    match plan:
        case p.Generate():
            child = _prune(plan.child, (needed - set(plan.new)) | set(plan.generator.columns))
            made = tuple(c for c in plan.columns if c.name in plan.new)
            return replace(plan, child=child, columns=(*child.columns, *made))
        case p.Expand():
            return _expand(plan, needed)
        case p.Window():
            return _window(plan, needed)
        case p.TopK():
            child = _prune(plan.child, needed | _ordered(plan.order))
            return replace(plan, child=child, columns=child.columns)
    return plan.with_children(tuple(_prune(c, set(c.names)) for c in plan.children)) if plan.children else plan


def _kept(plan: p.Plan, needed: set[str]) -> tuple[p.Column, ...]:
    return tuple(c for c in plan.columns if c.name in needed)


def _scan(scan: p.Scan, needed: set[str]) -> p.Plan:
    pairs = [(c, f) for c, f in zip(scan.columns, scan.fields, strict=True) if c.name in needed]
    pairs = pairs or [(scan.columns[0], scan.fields[0])]  # a relation without columns cannot be read
    return replace(scan, columns=tuple(c for c, _ in pairs), fields=tuple(f for _, f in pairs))


def _join(plan: p.Join, wanted: set[str]) -> p.Plan:
    """Outer joins show both inputs, the others the left one and perhaps whether there is a match."""
    inputs = tuple(_prune(c, wanted & set(c.names)) for c in plan.inputs)
    known = {c.name: c for c in plan.columns}
    both = plan.kind in ("LeftOuter", "FullOuter", "LeftSingle")
    below = (c for i in (inputs if both else inputs[:1]) for c in i.columns)
    exists = (known[plan.exists],) if plan.exists else ()
    return replace(plan, inputs=inputs, columns=(*(known[c.name] for c in below), *exists))


def _aggregate(plan: p.Aggregate, needed: set[str]) -> p.Plan:
    """Keys are never dropped: they decide the groups. Without keys one call stays, so that the row has a column."""
    calls = tuple(c for c in plan.calls if c.name in needed)
    calls = calls if calls or plan.keys else plan.calls[:1]
    kept = {c.name for c in calls}
    reads = {r for k in plan.keys for r in k.reads} | {c for call in calls for c in call.columns}
    columns = plan.columns[: len(plan.keys)] + tuple(c for c in plan.columns[len(plan.keys) :] if c.name in kept)
    return replace(plan, calls=calls, columns=columns, child=_prune(plan.child, reads))


def _union(plan: p.Union, needed: set[str]) -> p.Plan:
    keep = [i for i, c in enumerate(plan.columns) if c.name in needed]
    inputs = []
    for child in plan.inputs:
        names = {child.names[i] for i in keep}
        pruned = _prune(child, names)
        wanted = tuple(child.names[i] for i in keep)
        inputs.append(pruned if pruned.names == wanted else p.project(pruned, tuple(p.Item(n) for n in wanted)))
    return replace(plan, columns=_kept(plan, needed), inputs=tuple(inputs))


def _expand(plan: p.Expand, needed: set[str]) -> p.Plan:
    keep = [i for i, c in enumerate(plan.columns) if c.name in needed] or [0]
    rows = tuple(tuple(row[i] for i in keep) for row in plan.rows)
    child = _prune(plan.child, {c for row in rows for e in row for c in e.columns})
    return replace(plan, columns=tuple(plan.columns[i] for i in keep), rows=rows, child=child)


def _window(plan: p.Window, needed: set[str]) -> p.Plan:
    items = tuple(i for i in plan.items if i.name in needed)
    if not items:
        return _prune(plan.child, needed)
    reads = {r for i in items for r in i.reads} | set(plan.partition) | _ordered(plan.order)
    child = _prune(plan.child, (needed - {i.name for i in items}) | reads)
    made = tuple(c for c in plan.columns if c.name in needed and c.name not in child.names)
    return replace(plan, items=items, child=child, columns=(*child.columns, *made))


def _ordered(order: tuple[p.Order, ...]) -> set[str]:
    return {c for o in order for c in o.expr.columns}
