"""Derive a refresh program: the rules applied to every stored node, for the sources that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from freshlake.compiler import plan as p
from freshlake.compiler.program import Applied, RefreshProgram, Step, StepKind
from freshlake.compiler.recursion import refers
from freshlake.compiler.rules import STORED
from freshlake.compiler.rules.lookup import rule_of
from freshlake.compiler.rules.weights import COLUMN, negate, weighted
from freshlake.compiler.split import Node
from freshlake.compiler.walk import is_at_hand, sources
from freshlake.compiler.walk import nodes as walk


@dataclass(frozen=True)
class Changed:
    """The sources that changed; `insert_only` ones have no negative weights."""

    sources: frozenset[str]
    insert_only: frozenset[str] = frozenset()


def differential(nodes: tuple[Node, ...], changed: Changed) -> RefreshProgram:
    """Only what changed: every node's delta from its inputs' deltas."""
    builder = _Builder({n.id: n for n in nodes}, set(changed.sources))
    insert_only = set(changed.insert_only)
    for node in nodes:
        change = _delta_of(node, builder)
        if change is not None:
            only_inserts = _only_adds(node, builder.changed, insert_only)
            builder.finish(node, change, consolidated=only_inserts)
            if only_inserts:
                insert_only.add(node.id)
    return builder.program("differential")


def full(nodes: tuple[Node, ...], replaced: bool) -> RefreshProgram:
    """Every node from scratch; `replaced` subtracts what is stored, so that the log gets the difference."""
    builder = _Builder({n.id: n for n in nodes}, set(), recomputing=True)
    for node in nodes:
        rows = _rows_of(node, builder)
        if not replaced:
            builder.finish(node, rows, consolidated=True)
            continue
        names = tuple(p.Item(n) for n in builder.stored(node).names)
        old = negate(p.project(builder.stored(node), names))
        builder.finish(node, p.Union((*node.output, COLUMN), (weighted(rows), old)))
    return builder.program("full")


def recomputed(nodes: tuple[Node, ...], node: Node) -> tuple[p.Plan, p.Plan]:
    """The rows that a node should have, computed from what is stored below it, and the rows that it has."""
    builder = _Builder({n.id: n for n in nodes}, set(), recomputing=True)
    return _rows_of(node, builder), builder.stored(node)


def _only_adds(node: Node, changed: set[str], insert_only: set[str]) -> bool:
    """No entry of the change removes a row; a join of two changed inputs subtracts one to get its before-state."""
    if node.operator is not None or not sources(node.plan) & changed <= insert_only:
        return False
    return all(_join_only_adds(n, changed) for n in walk(node.plan) if isinstance(n, p.InnerJoin | p.Join))


def _join_only_adds(join: p.InnerJoin | p.Join, changed: set[str]) -> bool:
    moved = [bool(sources(c) & changed) for c in join.inputs]
    if isinstance(join, p.InnerJoin):
        return sum(moved) <= 1
    # a first match takes padding and unmatched rows away
    return not any(moved) or (not moved[1] and join.kind != "FullOuter")


def _delta_of(node: Node, builder: _Builder) -> p.Plan | None:
    if node.operator is not None:
        rule = STORED[type(node.operator)]
        change = rule.delta(node, builder)
        if change is not None:
            builder.note(node.operator, f"{rule.name} ({rule.strategy(node)})", f"node {node.id or 'root'}")
        return change
    change = builder.delta(node.plan)
    if change is None:
        return None
    names = (*(c.name for c in node.columns), p.WEIGHT)
    return p.project(change, tuple(p.Item(n) for n in names), (*node.output, COLUMN))


def _rows_of(node: Node, builder: _Builder) -> p.Plan:
    if node.operator is not None:
        return STORED[type(node.operator)].rows(node, builder)
    rows = builder.after(node.plan)
    return p.project(rows, tuple(p.Item(c.name) for c in node.columns), node.output)


@dataclass
class _Builder:
    nodes: Mapping[str, Node]
    changed: set[str]
    recomputing: bool = False
    steps: list[Step] = field(default_factory=list)
    applied: dict[tuple[str, str], Applied] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    deltas: dict[int, tuple[p.Plan, p.Plan | None]] = field(default_factory=dict)

    def delta(self, plan: p.Plan) -> p.Plan | None:
        if id(plan) not in self.deltas:
            self.deltas[id(plan)] = (plan, self._delta(plan))
        return self.deltas[id(plan)][1]

    def _delta(self, plan: p.Plan) -> p.Plan | None:
        if not sources(plan) & self.changed:
            return None
        rule = rule_of(plan)
        assert rule is not None, plan
        change: p.Plan | None = rule.delta(plan, self)
        if change is not None:
            self.note(plan, rule.name, rule.law)
        return change

    def after(self, plan: p.Plan) -> p.Plan:
        match plan:
            case p.Scan():
                return p.State(plan.columns, plan.source, plan.fields, p.When.AFTER)
            case p.NodeRef():
                return self._node_state(plan)
        return plan.with_children(tuple(self.after(c) for c in plan.children)) if plan.children else plan

    def _node_state(self, ref: p.NodeRef) -> p.Plan:
        node = self.nodes[ref.node]
        fields = {c.name: c.field for c in node.columns}
        when = p.When.AFTER if ref.node in self.changed or self.recomputing else p.When.BEFORE
        return p.State(ref.columns, ref.node, tuple(fields[n] for n in ref.names), when, stored=True)

    def before(self, plan: p.Plan) -> p.Plan:
        after, change = weighted(self.after(plan)), self.delta(plan)
        if change is None:
            return after
        names = after.names
        ordered = negate(p.project(change, tuple(p.Item(n) for n in names)))
        return p.Union(after.columns, (after, ordered))

    def share(self, plan: p.Plan, purpose: str) -> p.Plan:
        """Materialise, unless the plan is already a cheap view of one change."""
        if is_at_hand(plan):
            return plan
        shared = self._step(StepKind.MATERIALIZE, plan, purpose)
        for key, (of, change) in self.deltas.items():
            if change is plan:
                self.deltas[key] = of, shared
        return shared

    def select(self, plan: p.Plan, flag: str, purpose: str) -> p.Plan:
        return self._step(StepKind.SELECT, plan, purpose, flag)

    def net(self, plan: p.Plan, purpose: str) -> p.Plan:
        return self._step(StepKind.NET, plan, purpose)

    def loop(self, seed: p.Plan, loop: p.Loop, purpose: str) -> p.Plan:
        result = self._step(StepKind.LOOP, seed, purpose)
        assert isinstance(result, p.Ref)
        step = loop.inputs[1]
        change = _Round(self, loop, result).delta(step)
        assert change is not None
        pairs = zip(loop.names, step.names, strict=True)
        items = [p.Item(name, p.column_expr(source)) for name, source in pairs]
        body = p.project(change, (*items, p.Item(p.WEIGHT)), result.columns)
        self.steps[-1] = replace(self.steps[-1], body=body, limit=loop.limit)
        return result

    def stored(self, node: Node) -> p.Plan:
        return p.State(node.output, node.id, tuple(c.field for c in node.columns), p.When.BEFORE, stored=True)

    def _step(self, kind: StepKind, plan: p.Plan, purpose: str, flag: str | None = None) -> p.Plan:
        name = f"s{len(self.steps) + 1}"
        self.steps.append(Step(name, kind, plan, purpose, flag))
        return p.Ref(plan.columns, name)

    def finish(self, node: Node, change: p.Plan, consolidated: bool = False) -> None:
        purpose = f"change of {'the stream table' if not node.id else 'internal node ' + node.id}"
        self._step(StepKind.RESULT, change, purpose)
        self.steps[-1] = replace(self.steps[-1], node=node.id, consolidated=consolidated)
        self.results[node.id] = self.steps[-1].name
        self.changed.add(node.id)

    def note(self, plan: p.Plan, rule: str, why: str) -> None:
        operator = type(plan).__name__
        self.applied.setdefault((operator, rule + why), Applied(operator, rule, why))

    def program(self, strategy: str) -> RefreshProgram:
        return RefreshProgram(strategy, tuple(self.steps), tuple(self.applied.values()), dict(self.results))


@dataclass
class _Round:
    """What a rule sees in one round of a recursion: only the reference changes, by the result of the round before."""

    outer: _Builder
    loop: p.Loop
    previous: p.Ref

    def delta(self, plan: p.Plan) -> p.Plan | None:
        if not refers(plan, self.loop.id):
            return None
        if isinstance(plan, p.LoopRef):
            pairs = zip(plan.names, self.loop.names, strict=True)
            items = [p.Item(name, p.column_expr(source)) for name, source in pairs]
            return p.project(self.previous, (*items, p.Item(p.WEIGHT)), (*plan.columns, COLUMN))
        rule = rule_of(plan)
        assert rule is not None, plan
        change: p.Plan | None = rule.delta(plan, self)
        return change

    def after(self, plan: p.Plan) -> p.Plan:
        return self.outer.after(plan)

    def before(self, plan: p.Plan) -> p.Plan:
        return weighted(self.outer.after(plan))

    def share(self, plan: p.Plan, purpose: str) -> p.Plan:
        """A step of its own would be evaluated once, not in every round."""
        return plan

    def select(self, plan: p.Plan, flag: str, purpose: str) -> p.Plan:
        return p.Filter(plan.columns, plan, (p.column_expr(flag),))


def uses(program: RefreshProgram) -> Iterable[str]:
    """Names of the steps that later steps read."""
    return (leaf.step for step in program.steps for leaf in _refs(step.plan))


def _refs(plan: p.Plan) -> Iterable[p.Ref]:
    if isinstance(plan, p.Ref):
        yield plan
    for child in plan.children:
        yield from _refs(child)
