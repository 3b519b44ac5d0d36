"""Cut a plan into stored nodes: non-linear operators below the root keep their own state, so it is never recomputed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile

from freshlake.compiler import plan as p
from freshlake.compiler.aggregates import ROWS, Tier, state_columns, tier_of
from freshlake.compiler.recursion import LEVEL, with_levels

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
    """A stored relation. `operator` is set where it is non-linear; it is stored under the projections and filters
    `above` it, outermost first."""

    id: str
    plan: p.Plan
    columns: tuple[StoredColumn, ...]
    operator: p.Plan | None = None
    above: tuple[p.Project | p.Filter, ...] = ()
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
        """Replace non-linear operators by references to stored nodes; a plan object used twice is stored once."""
        if id(plan) not in self.cut_plans:
            self.kept.append(plan)
            self.cut_plans[id(plan)] = self._cut(plan)
        return self.cut_plans[id(plan)]

    def _cut(self, plan: p.Plan) -> p.Plan:
        above, below = _peel(plan)
        if not plan.columns or not any(isinstance(a, p.Filter) for a in above):
            above, below = (), plan
        if not isinstance(below, p.NONLINEAR):
            return plan.with_children(tuple(self.cut(c) for c in plan.children)) if plan.children else plan
        operator = self.below(below)
        self.nodes.append(_stored_node(f"n{len(self.nodes) + 1}", operator, above, plan.columns, plan))
        return _reference(self.nodes[-1], plan)

    def below(self, operator: p.Plan) -> p.Plan:
        """A non-linear operator over what is cut out of its inputs."""
        if isinstance(operator, p.TopK) and operator.start and operator.end is not None:
            first = replace(operator, start=0)
            return operator.with_children((self.cut(first),))
        return operator.with_children(tuple(self.cut(c) for c in operator.children))


def _reference(node: Node, plan: p.Plan) -> p.Plan:
    """What is stored in the place of `plan`. If nothing is read of it, its rows still count, and rows that are read
    without any column cannot be counted: then one is read and dropped."""
    if plan.columns:
        return p.NodeRef(plan.columns, node.id)
    return p.project(p.NodeRef(node.output[:1], node.id), ())


def split(plan: p.Plan, output: tuple[p.Column, ...], differential: bool) -> tuple[Node, ...]:
    """Nodes in dependency order, the root (the stream table itself) last."""
    if not differential:
        return (_linear_root(plan, output),)
    cutter = _Cutter()
    above, below = _peel(plan)
    if isinstance(below, p.NONLINEAR):
        operator = cutter.below(below)
        return (*cutter.nodes, _stored_node(ROOT, operator, above, output, plan))
    root = cutter.cut(plan)
    return (*cutter.nodes, _linear_root(root, output))


def _peel(plan: p.Plan) -> tuple[tuple[p.Project | p.Filter, ...], p.Plan]:
    """Projections on top, outermost first, and what is below them.

    With filters where the operator's rows are computed again for the touched keys: there, what a filter leaves out need
    not be stored.
    """
    above: list[p.Project | p.Filter] = []
    below = plan
    while isinstance(below, p.Project | p.Filter):
        above.append(below)
        below = below.child
    if _is_recomputed(below) or all(isinstance(a, p.Project) for a in above):
        return tuple(above), below
    projections = list(takewhile(lambda a: isinstance(a, p.Project), above))
    return tuple(projections), above[len(projections)]


def _is_recomputed(operator: p.Plan) -> bool:
    if isinstance(operator, p.Aggregate):
        return tier_of(operator) is Tier.RECOMPUTE
    return isinstance(operator, p.Window | p.SetOp)


def _linear_root(plan: p.Plan, output: tuple[p.Column, ...]) -> Node:
    columns = tuple(StoredColumn(c.name, c.label, c.type, True, False, _kept_metadata(c)) for c in output)
    return Node(ROOT, plan, columns)


def _kept_metadata(column: p.Column) -> str:
    """Only what belongs to the type survives into storage (char/varchar length); session marks do not."""
    kept = {k: v for k, v in json.loads(column.metadata).items() if k == "__CHAR_VARCHAR_TYPE_STRING"}
    return json.dumps(kept)


def _stored_node(
    node_id: str,
    operator: p.Plan,
    above: tuple[p.Project | p.Filter, ...],
    output: tuple[p.Column, ...],
    plan: p.Plan,
) -> Node:
    labelled = node_id == ROOT
    shown = tuple(
        StoredColumn(
            c.name, c.label if labelled else f"c{i}", c.type, True, False, _kept_metadata(c) if labelled else "{}"
        )
        for i, c in enumerate(output)
    )
    hidden = [*_hidden(operator, above, {c.name for c in shown})]
    if isinstance(operator, p.Loop):
        operator = with_levels(operator)
        hidden = [*_not_copied(operator, above, tuple(c.name for c in shown))]
    tier = tier_of(operator) if isinstance(operator, p.Aggregate) else None
    if isinstance(operator, p.Aggregate) and tier is not Tier.RECOMPUTE:
        hidden += [StoredColumn(n, n, t, True, True) for n, t in state_columns(operator.calls)]
    return Node(node_id, plan, (*shown, *hidden), operator, above, tier)


def _hidden(operator: p.Plan, above: tuple[p.Project | p.Filter, ...], shown: set[str]) -> Iterator[StoredColumn]:
    """Columns by which stored rows are found that the output does not pass through unchanged under their own name."""
    types = {c.name: c for c in operator.columns}
    projections = [a for a in above if isinstance(a, p.Project)]
    for i, name in enumerate(_found_by(operator)):
        passed = all(any(item.name == item.source == name for item in a.items) for a in projections)
        if not (passed and name in shown):
            yield StoredColumn(name, f"__fl_k{i}", types[name].type, True, True)


def _found_by(operator: p.Plan) -> tuple[str, ...]:
    """Group keys, partition keys; the whole row where rows are compared with each other."""
    match operator:
        case p.Aggregate():
            return tuple(k.name for k in operator.keys)
        case p.Window():
            return operator.partition
        case p.Loop():
            return ()
    return operator.names


def _not_copied(
    loop: p.Loop, above: tuple[p.Project | p.Filter, ...], shown: tuple[str, ...]
) -> Iterator[StoredColumn]:
    """Columns of a recursion that the output does not show under any name: its step reads all of them."""
    copied = _copied(above, shown)
    for i, c in enumerate(loop.columns):
        if c.name not in copied:
            yield StoredColumn(c.name, LEVEL if c.name == LEVEL else f"__fl_c{i}", c.type, True, True)


def _copied(above: tuple[p.Project | p.Filter, ...], shown: tuple[str, ...]) -> dict[str, str]:
    """Columns below the projections that a shown column copies, with the name of that one."""
    found: dict[str, str] = {}
    projections = [a for a in above if isinstance(a, p.Project)]
    for name in shown:
        source: str | None = name
        for projection in projections:
            source = next((i.source for i in projection.items if i.name == source), None)
        if source is not None:
            found.setdefault(source, name)
    return found


def stored_names(node: Node) -> dict[str, str]:
    """Columns of the node's operator, each with the name of the stored column that holds it."""
    assert node.operator is not None
    copied = _copied(node.above, tuple(c.name for c in node.visible))
    return {name: copied.get(name, name) for name in node.operator.names}


__all__ = ["ROOT", "ROWS", "Node", "StoredColumn", "split", "stored_names"]
