"""Cut a plan into stored nodes: non-linear operators below the root keep their own state, so it is never recomputed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from freshlake.compiler import plan as p
from freshlake.compiler.aggregates import ROWS, Tier, state_columns, tier_of

ROOT = ""


@dataclass(frozen=True)
class StoredColumn:
    """A column of a stored table: `name` in the plan, `field` in storage."""

    name: str
    field: str
    type: str
    nullable: bool = True
    hidden: bool = False
    metadata: str = "{}"


@dataclass(frozen=True)
class Node:
    """A stored relation. `operator` is set where it is non-linear; it is stored under the projections `above` it."""

    id: str
    plan: p.Plan
    columns: tuple[StoredColumn, ...]
    operator: p.Plan | None = None
    above: tuple[p.Project, ...] = ()
    tier: Tier | None = None

    @property
    def visible(self) -> tuple[StoredColumn, ...]:
        return tuple(c for c in self.columns if not c.hidden)

    @property
    def output(self) -> tuple[p.Column, ...]:
        """All stored columns as plan columns."""
        return tuple(p.Column(c.name, c.type, c.nullable, c.field, c.metadata) for c in self.columns)

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns if c.hidden)


@dataclass
class _Cutter:
    nodes: list[Node] = field(default_factory=list)
    cut_plans: dict[int, p.Plan] = field(default_factory=dict)
    kept: list[p.Plan] = field(default_factory=list)

    def cut(self, plan: p.Plan) -> p.Plan:
        """Replace aggregates by references to stored nodes; a plan object used twice is stored once."""
        if id(plan) not in self.cut_plans:
            self.kept.append(plan)
            self.cut_plans[id(plan)] = self._cut(plan)
        return self.cut_plans[id(plan)]

    def _cut(self, plan: p.Plan) -> p.Plan:
        below = plan.with_children(tuple(self.cut(c) for c in plan.children)) if plan.children else plan
        if not isinstance(below, p.Aggregate):
            return below
        node = _aggregate_node(f"n{len(self.nodes) + 1}", below, (), below.columns, plan)
        self.nodes.append(node)
        return p.NodeRef(below.columns, node.id)


def split(plan: p.Plan, output: tuple[p.Column, ...], differential: bool) -> tuple[Node, ...]:
    """Nodes in dependency order, the root (the stream table itself) last."""
    if not differential:
        return (_linear_root(plan, output),)
    cutter = _Cutter()
    above, below = _peel(plan)
    if isinstance(below, p.Aggregate):
        aggregate = below.with_children((cutter.cut(below.child),))
        assert isinstance(aggregate, p.Aggregate)
        return (*cutter.nodes, _aggregate_node(ROOT, aggregate, above, output, plan))
    root = cutter.cut(plan)
    return (*cutter.nodes, _linear_root(root, output))


def _peel(plan: p.Plan) -> tuple[tuple[p.Project, ...], p.Plan]:
    """Projections on top, outermost first, and what is below them."""
    above = []
    while isinstance(plan, p.Project):
        above.append(plan)
        plan = plan.child
    return tuple(above), plan


def _linear_root(plan: p.Plan, output: tuple[p.Column, ...]) -> Node:
    columns = tuple(StoredColumn(c.name, c.label, c.type, True, False, _kept_metadata(c)) for c in output)
    return Node(ROOT, plan, columns)


def _kept_metadata(column: p.Column) -> str:
    """Only what belongs to the type survives into storage (char/varchar length); session marks do not."""
    kept = {k: v for k, v in json.loads(column.metadata).items() if k == "__CHAR_VARCHAR_TYPE_STRING"}
    return json.dumps(kept)


def _aggregate_node(
    node_id: str, aggregate: p.Aggregate, above: tuple[p.Project, ...], output: tuple[p.Column, ...], plan: p.Plan
) -> Node:
    tier = tier_of(aggregate)
    labelled = node_id == ROOT
    shown = tuple(
        StoredColumn(
            c.name, c.label if labelled else f"c{i}", c.type, True, False, _kept_metadata(c) if labelled else "{}"
        )
        for i, c in enumerate(output)
    )
    hidden = [*_hidden_keys(aggregate, above, {c.name for c in shown})]
    if tier is not Tier.RECOMPUTE:
        hidden += [StoredColumn(n, n, t, True, True) for n, t in state_columns(aggregate.calls)]
    return Node(node_id, plan, (*shown, *hidden), aggregate, above, tier)


def _hidden_keys(aggregate: p.Aggregate, above: tuple[p.Project, ...], shown: set[str]) -> Iterator[StoredColumn]:
    """Group keys that the output does not pass through unchanged under their own name."""
    types = {c.name: c for c in aggregate.columns}
    for i, key in enumerate(aggregate.keys):
        passed = all(any(item.name == key.name and item.expr is None for item in a.items) for a in above)
        if not (passed and key.name in shown):
            yield StoredColumn(key.name, f"__fl_k{i}", types[key.name].type, True, True)


__all__ = ["ROOT", "ROWS", "Node", "StoredColumn", "split"]
