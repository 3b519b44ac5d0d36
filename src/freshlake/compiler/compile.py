"""compile(query): Spark's analyzed plan, bound, brought to normal form and cut into stored nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pyspark.sql import DataFrame

from freshlake.compiler import plan as p
from freshlake.compiler.bind import Bound, bind
from freshlake.compiler.bridge import Bridge
from freshlake.compiler.complexity import Complexity, complexity
from freshlake.compiler.derive import Changed, differential, full
from freshlake.compiler.fingerprint import fingerprint, former_fingerprint
from freshlake.compiler.passes import PASSES
from freshlake.compiler.program import RefreshProgram
from freshlake.compiler.split import Node, split
from freshlake.compiler.support import Reason, of_random, reasons, unstorable
from freshlake.compiler.walk import nodes as walk_nodes
from freshlake.compiler.walk import transform
from freshlake.errors import InvalidQuery


@dataclass(frozen=True)
class ReadSource:
    """A source of the query and the columns it reads there."""

    key: str
    path: str
    name: str | None
    fields: tuple[str, ...]


@dataclass(frozen=True)
class CompiledQuery:
    plan: p.Plan
    output: tuple[p.Column, ...]
    sources: tuple[ReadSource, ...]
    nodes: tuple[Node, ...]
    reasons: tuple[Reason, ...]
    fingerprint: str
    uses: Mapping[str, str] = field(default_factory=dict)
    """Views and functions that the query uses, each with a digest of what it is."""
    is_random: bool = False
    """Whether two evaluations may differ in any way."""
    formerly: Callable[[], str] = str

    @cached_property
    def former(self) -> str:
        """The fingerprint that an earlier version gave the query."""
        return self.formerly()

    @cached_property
    def complexity(self) -> Complexity:
        return complexity(self.plan)

    @property
    def root(self) -> Node:
        return self.nodes[-1]

    def node(self, node_id: str) -> Node:
        return next(n for n in self.nodes if n.id == node_id)

    def differential(self, changed: Changed) -> RefreshProgram:
        return differential(self.nodes, changed)

    def full(self, replaced: bool) -> RefreshProgram:
        return full(self.nodes, replaced)


def compile_query(frame: DataFrame, bridge: Bridge, key_of: Callable[[str], str]) -> CompiledQuery:
    """`key_of` names a source by its path. Raises InvalidQuery or UnsupportedQuery; nothing is run."""
    bound = bind(frame, bridge)
    _check_labels(bound.output)
    plan = normal_form(_keyed(bound.plan, key_of), bound.output)
    why = (*reasons(plan, bound.places), *(of_random(name, place) for name, place in bound.random.items()))
    stored = split(plan, _unique(bound.output), differential=not why)
    if bad := unstorable(stored):
        why, stored = bad, split(plan, _unique(bound.output), differential=False)
    uses = {f"Python function {name}": code for name, code in bound.functions.items()}
    return CompiledQuery(
        plan,
        _unique(bound.output),
        _sources(plan, bound, key_of),
        stored,
        why,
        fingerprint(plan, bound.output, uses),
        uses,
        bool(bound.random),
        partial(former_fingerprint, plan, bound.output, uses),
    )


def normal_form(plan: p.Plan, output: tuple[p.Column, ...]) -> p.Plan:
    """The user's columns on top, then the passes."""
    names = tuple(dict.fromkeys(c.name for c in output))
    if plan.names != names:
        plan = p.project(plan, tuple(p.Item(n) for n in names), output)
    for rewrite in PASSES:
        plan = rewrite(plan)
    return plan


def _keyed(plan: p.Plan, key_of: Callable[[str], str]) -> p.Plan:
    return transform(plan, lambda n: replace(n, source=key_of(n.source)) if isinstance(n, p.Scan) else n)


def _unique(output: tuple[p.Column, ...]) -> tuple[p.Column, ...]:
    return tuple({c.name: c for c in output}.values())


def _check_labels(output: tuple[p.Column, ...]) -> None:
    seen: set[str] = set()
    for column in output:
        label = column.label.lower()
        if label in seen:
            raise InvalidQuery(
                f"the query has two columns named {column.label}", hint="give each output column its own name with AS"
            )
        if label.startswith("__fl_"):
            raise InvalidQuery(f"column {column.label} uses the reserved prefix __fl_", hint="rename it with AS")
        seen.add(label)


def _sources(plan: p.Plan, bound: Bound, key_of: Callable[[str], str]) -> tuple[ReadSource, ...]:
    fields: dict[str, dict[str, None]] = {key_of(s.key): {} for s in bound.sources}
    for node in walk_nodes(plan):
        if isinstance(node, p.Scan):
            fields[node.source].update(dict.fromkeys(node.fields))
    return tuple(ReadSource(key_of(s.key), s.path, s.name, tuple(fields[key_of(s.key)])) for s in bound.sources)
