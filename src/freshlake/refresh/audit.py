"""Audit: every stored node of a table against its plan over what is stored below it, and the table against its query.

Everything is read where the catalog says that the table stands, so refreshes may go on. Nodes come in order: a node is
compared with what its inputs would be once they are put right, so the corrections found belong together. Storing them
as one change puts the table right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshlake.catalog.records import StreamTable
from freshlake.compiler import plan as p
from freshlake.compiler.audit import Comparison, leaves, open_to_choice, over_sources, restricted, samplings
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.derive import recomputed
from freshlake.compiler.openness import Openness, openness
from freshlake.compiler.split import ROOT, Node
from freshlake.refresh.compare import correction, same_small
from freshlake.refresh.inputs import SMALL_ROWS, Inputs, SourceSpan
from freshlake.refresh.meaning import means_the_same
from freshlake.refresh.run import Runner, collect_small
from freshlake.refresh.sampling import Draw, draw, given
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.stored import stored_nodes
from freshlake.refresh.verify import only
from freshlake.sources.protocol import Position
from freshlake.storage.relation import WEIGHT, Relation

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

SHOWN_ROWS = 10
"""Rows of each kind that are kept as evidence."""


class Stopped(Exception):
    """An audit that was to end before it had found anything out."""


class Method(StrEnum):
    """How much of a node was compared."""

    WHOLE = "whole"
    SAMPLE = "sample"
    NONE = "none"


@dataclass(frozen=True)
class Check:
    """One comparison. `subject` is a node, the table itself, or the table with its query over the sources alone."""

    subject: str
    method: Method
    rows: int | None = None
    missing: int = 0
    unexpected: int = 0
    column: str | None = None
    """The column of a sample, of which `keys` values were compared."""
    keys: int | None = None
    why: str | None = None
    """Why it was not compared."""
    sample: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_equal(self) -> bool:
        return self.missing == 0 and self.unexpected == 0


@dataclass(frozen=True)
class Keys:
    """Values of one column of a table; only rows that have them are compared."""

    column: str
    values: tuple[Any, ...]


@dataclass
class Inspection:
    """What was found, and what would put it right: weighted rows per node, and how many rows it has then."""

    table: StreamTable
    checks: tuple[Check, ...]
    corrections: dict[str, Relation] = field(default_factory=dict)
    row_counts: dict[str, int] = field(default_factory=dict)
    spans: Mapping[str, SourceSpan] = field(default_factory=dict)
    by: Draw | Keys | None = None
    held: list[DataFrame] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return all(check.is_equal for check in self.checks)

    @property
    def is_verified(self) -> bool:
        """Whether anything was compared at all."""
        return any(check.method is not Method.NONE for check in self.checks)

    @property
    def is_whole(self) -> bool:
        return all(check.method is Method.WHOLE for check in self.checks)

    def release(self) -> None:
        for frame in self.held:
            frame.unpersist()


def never() -> bool:
    """Whether an audit is to end that nobody stops."""
    return False


def inspect(
    engine: Engine, table: StreamTable, by: Draw | Keys | None = None, stopped: Callable[[], bool] = never
) -> Inspection:
    """Compare a table as the catalog has it: all of it, keys of it, or keys of those nodes that are too large.

    Raises Stopped before the next comparison once it is `stopped`.
    """
    compiled = engine.compiled(table)
    if (why := _why_not(table, compiled)) is not None:
        return Inspection(table, (Check("root", Method.NONE, why=why),))
    assert table.frontier is not None
    edges = {e.source_key: e for e in engine.catalog.dependencies(table.id)}
    at = {key: Position.from_json(position) for key, position in table.frontier["sources"].items()}
    if {s.key for s in compiled.sources} != set(at) or not set(at) <= set(edges):
        return Inspection(table, (Check("root", Method.NONE, why="its sources are others than when it was refreshed"),))
    spans = {key: SourceSpan(engine.source(edges[key]), position, position) for key, position in at.items()}
    inputs = Inputs(spans, stored_nodes(engine, table, compiled))
    engine.worker.run_under(table.session_settings)
    runner = Runner(engine.worker, compiled, inputs, engine.settings)
    with translated():
        return _Audit(Inspection(table, (), spans=spans, by=by), compiled, runner, by, stopped).run()


def _why_not(table: StreamTable, compiled: CompiledQuery) -> str | None:
    if not table.is_populated or table.frontier is None:
        return "it has not been loaded yet"
    if table.needs_reinit:
        return "it is marked for a rebuild"
    if not means_the_same(table, compiled):
        return "its query means something else than when it was loaded; its next refresh rebuilds it"
    return "its query may give another result each time" if compiled.is_random else None


@dataclass
class _Audit:
    found: Inspection
    compiled: CompiledQuery
    runner: Runner
    by: Draw | Keys | None
    stopped: Callable[[], bool]

    def run(self) -> Inspection:
        try:
            self.found.checks = tuple(self._checks())
        except Stopped:
            self.found.release()
            raise
        return self.found

    def _checks(self) -> Iterator[Check]:
        for node in self.compiled.nodes:
            self._go_on()
            yield self._node(node)
        if self.compiled.root.operator is not None or len(self.compiled.nodes) > 1:
            self._go_on()
            yield self._query()

    def _go_on(self) -> None:
        if self.stopped():
            raise Stopped

    def _node(self, node: Node) -> Check:
        subject, chosen = node.id or "root", open_to_choice(node)
        if chosen.rows:
            return Check(subject, Method.NONE, why="SQL leaves open which rows it has")
        whole = Comparison(*recomputed(self.compiled.nodes, node))
        check, rows = self._compare(subject, node, whole, chosen)
        if rows is not None:
            self._correct(node, rows)
        return check

    def _query(self) -> Check:
        """The query over its sources alone; the rules have no part in it, so it also finds what they get wrong."""
        root, chosen = self.compiled.root, openness(self.compiled.plan, ties=False)
        if chosen.rows:
            return Check("query", Method.NONE, why="SQL leaves open which rows it has")
        plan = over_sources(self.compiled.plan)
        visible = [c for c in root.output if c.name not in root.hidden]
        expected = p.project(plan, [p.Item(c.name) for c in visible], visible)
        fields = tuple(c.field for c in root.visible)
        stored = p.State(tuple(visible), ROOT, fields, p.When.AFTER, stored=True)
        return self._compare("query", root, Comparison(expected, stored), chosen)[0]

    def _compare(self, subject: str, node: Node, whole: Comparison, chosen: Openness) -> tuple[Check, DataFrame | None]:
        size = self._size(whole)
        if isinstance(self.by, Keys):
            return self._given(subject, node, whole, chosen, self.by)
        if self.by is None or (size is not None and size <= self.by.limit):
            return self._compared(Check(subject, Method.WHOLE, size), node, whole, chosen)
        step, fields = f"keys of {subject}", {c.name: c.field for c in node.columns}
        for way in samplings(whole, step, self._rows, self.by.limit):
            keys = draw(self.runner, way, node.id, fields[way.column], self._rows(way.drawn), self.by)
            if keys is not None:
                self.runner.steps[step] = keys
                check = Check(subject, Method.SAMPLE, None, column=fields[way.column], keys=keys.rows)
                return self._compared(check, node, way.comparison, chosen)
        why = f"it is larger than audit_max_rows ({self.by.limit}), and no column of it restricts what is read to that"
        return Check(subject, Method.NONE, size, why=why), None

    def _given(
        self, subject: str, node: Node, whole: Comparison, chosen: Openness, by: Keys
    ) -> tuple[Check, DataFrame | None]:
        column = next((c for c in node.visible if c.field.lower() == by.column.lower()), None)
        if node.id != ROOT or column is None:
            return Check(subject, Method.NONE, why="the audit is of some keys of the table alone"), None
        step = f"keys of {subject}"
        self.runner.steps[step] = given(by.column, column.type, by.values)
        check = Check(subject, Method.SAMPLE, None, column=column.field, keys=len(by.values))
        return self._compared(check, node, restricted(whole, column.name, step), chosen)

    def _compared(self, check: Check, node: Node, pair: Comparison, chosen: Openness) -> tuple[Check, DataFrame | None]:
        small = check.method is Method.SAMPLE or (check.rows or SMALL_ROWS + 1) <= SMALL_ROWS
        self.runner.worker.size_for(small)
        expected, stored = self.runner.frame(pair.expected), self.runner.frame(pair.stored)
        closed = [name for name in pair.stored.names if name not in chosen.columns]
        lists = [name for name in closed if name in chosen.lists]
        if small and same_small(only(expected, closed), only(stored, closed), self.runner.settings):
            return check, None
        rows, held = correction(only(expected, pair.stored.names), stored, closed, lists)
        self.found.held.append(held)
        missing, unexpected = _totals(rows)
        if not missing and not unexpected:
            return check, None
        fields = {c.name: c.field for c in node.columns}
        named = rows.toDF(*(fields[name] for name in pair.stored.names), WEIGHT)
        return replace(check, missing=missing, unexpected=unexpected, sample=_evidence(named)), rows

    def _correct(self, node: Node, rows: DataFrame) -> None:
        """From here on the node is read as it will be."""
        small = collect_small(rows, self.runner.settings)
        if small is not None:
            relation = Relation.of_arrow(small, rows.schema, insert_only=False)
        else:
            relation = Relation.of_frame(rows, rows.schema, insert_only=False)
        self.runner.results[node.id] = self.found.corrections[node.id] = relation
        fields = tuple(c.field for c in node.columns)
        after = p.State(node.output, node.id, fields, p.When.AFTER, stored=True)
        self.found.row_counts[node.id] = self.runner.frame(after).count()

    # Sizes -----------------------------------------------------------------------------------------------------------

    def _size(self, whole: Comparison) -> int | None:
        known = [self._rows(leaf) for leaf in (*leaves(whole.expected), *leaves(whole.stored))]
        return None if None in known else sum(count or 0 for count in known)

    def _rows(self, leaf: p.State) -> int | None:
        if not leaf.stored:
            return self.runner.inputs.spans[leaf.of].rows
        node = self.runner.inputs.nodes[leaf.of]
        assert node.fold is not None
        return node.table.size(node.version, node.fold)


def _totals(rows: DataFrame) -> tuple[int, int]:
    """Copies to be added, and copies to be removed."""
    weight = F.col(WEIGHT)
    sums = rows.agg(F.sum(F.when(weight > 0, weight)), F.sum(F.when(weight < 0, -weight))).first()
    assert sums is not None
    return int(sums[0] or 0), int(sums[1] or 0)


def _evidence(rows: DataFrame) -> tuple[Mapping[str, Any], ...]:
    """Some rows that are missing, then some that should not be there."""
    kinds = (rows.where(f"{WEIGHT} > 0"), rows.where(f"{WEIGHT} < 0"))
    return tuple(row.asDict(recursive=True) for kind in kinds for row in kind.limit(SHOWN_ROWS).collect())
