"""Carry out a decision: compute every node's change, append node logs, then the table's own log (the commit point)."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from freshlake.catalog.enums import Action, DefinitionKind
from freshlake.catalog.records import Commit, Dependency, Lease, NodeState, StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.derive import Changed
from freshlake.compiler.split import ROOT
from freshlake.errors import FreshlakeError, SourceSchemaChanged
from freshlake.refresh.certify import certify
from freshlake.refresh.choose import Decision, changed_rows
from freshlake.refresh.definition import Definition
from freshlake.refresh.inputs import SMALL_ROWS, Inputs, SourceSpan, StoredNode, are_small
from freshlake.refresh.land import land
from freshlake.refresh.refused import require_baseline
from freshlake.refresh.run import Runner, collect_small, renamed
from freshlake.refresh.shape import key_fields, node_schema
from freshlake.refresh.stored import stored_nodes
from freshlake.refresh.terms import DEFAULT_TERMS, Terms
from freshlake.sources.protocol import ChangeKind, Position
from freshlake.storage.certificate import Certificate
from freshlake.storage.layout import FoldPoint
from freshlake.storage.netting import updated
from freshlake.storage.relation import Relation, weighted
from freshlake.storage.table import ChangeLogged
from freshlake.version import VERSION

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


@dataclass(frozen=True)
class Done:
    """What a refresh left behind."""

    table: StreamTable
    refresh_id: str
    rows_inserted: int
    rows_deleted: int
    rows_updated: int | None
    rows_read: int


@dataclass(frozen=True)
class Counts:
    """Rows that a refresh wrote; `updated` are pairs of the others with one key, None if they were not counted."""

    inserted: int = 0
    deleted: int = 0
    updated: int | None = 0


def frontier(heads: Mapping[str, Position], at: datetime, roots: Mapping[str, Any]) -> dict[str, Any]:
    """`roots` are what the frontier says about the plain tables behind its sources."""
    return {
        "sources": {key: position.to_json() for key, position in sorted(heads.items())},
        "data_timestamp": at.isoformat(),
        **roots,
    }


@dataclass
class Work:
    """One attempt at one decision, under a lease."""

    engine: Engine
    table: StreamTable
    lease: Lease
    refresh_id: str
    decision: Decision
    spans: Mapping[str, SourceSpan]
    compiled: CompiledQuery
    definition: Definition
    mark: Callable[[str], None]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the stream table to move with this refresh, for one that carries a new definition."""
    edges: tuple[Dependency, ...] | None = None
    """What the table reads from now on, if that moves with this refresh too."""
    terms: Terms = DEFAULT_TERMS
    known_rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows a node has afterwards, where what was counted so far may be wrong."""
    began: float = field(default=0.0, init=False)
    took: float | None = field(default=None, init=False)
    """Milliseconds from the start of the computation to the end of the append."""
    appended: dict[str, int] = field(default_factory=dict, init=False)
    """Versions of internal nodes whose change is in their log."""

    def perform(self) -> Done:
        self.began = time.perf_counter()
        action = self.decision.action
        if action is Action.NO_DATA:
            return self._commit(self.table.version, Counts(), None, 0)
        if action is Action.DIFFERENTIAL:
            require_baseline(self.table, self.spans)
        if action is Action.REINITIALIZE or not self.table.is_populated:
            return self._load()
        return self._append()

    # A new generation ------------------------------------------------------------------------------------------------

    def _load(self) -> Done:
        """Build a whole generation beside the old one; readers switch when the catalog does.

        It is numbered by the lease, so no two attempts share a folder, and a late one cannot harm the next.
        """
        generation = max(self.lease.epoch, self.table.generation + 1)
        shutil.rmtree(self.engine.layout.generation(self.table.storage_id, generation), ignore_errors=True)
        try:
            return self._load_generation(generation)
        except Exception:
            # whoever took the table over has removed this attempt: a lost lease is the better answer
            self.engine.catalog.heartbeat_lease(self.lease, self.engine.settings.lease_seconds)
            raise
        finally:
            self._remove_attempts(generation)

    def _remove_attempts(self, upto: int) -> None:
        """Remove loads that were not committed, this one or earlier ones; without their leases they never will be.

        What a catalog that does not answer cannot confirm is left to the next load.
        """
        layout, storage_id = self.engine.layout, self.table.storage_id
        with contextlib.suppress(FreshlakeError):
            committed = {fold.generation for fold in self.engine.catalog.folds(self.table.id)}
            for number in layout.generations(storage_id):
                if number <= upto and number not in committed:
                    shutil.rmtree(layout.generation(storage_id, number), ignore_errors=True)

    def _load_generation(self, generation: int) -> Done:
        version = 1
        tables = {n.id: self.engine.layout.node(self.table.storage_id, generation, n.id) for n in self.compiled.nodes}
        for node in self.compiled.nodes:
            partitions = self._partitions() if node.id == ROOT else ()
            ChangeLogged.create(tables[node.id].path, node_schema(node), partition_by=partitions)
        runner = self._runner({n: StoredNode(t, 0, None) for n, t in tables.items()})

        def load(node_id: str, frame: DataFrame) -> FoldPoint:
            node = self.compiled.node(node_id)
            named = frame.toDF(*(c.field for c in node.columns))
            certificate = self._certificate(version, dict.fromkeys(runner.loaded, version), first=True)
            self.mark(f"load {node_id or 'root'}")
            worker = self.engine.worker
            rows = collect_small(named, self.engine.settings, SMALL_ROWS) if small else None
            worker.size_for(small=rows is not None)
            return tables[node_id].load(worker.running, named if rows is None else rows, certificate)

        small = are_small(self.spans.values())
        self.engine.worker.size_for(small)
        runner.load = load
        runner.run(self.compiled.full(replaced=False))
        self.mark("loaded")
        self.took = (time.perf_counter() - self.began) * 1000
        point = runner.loaded[ROOT]
        rows = tables[ROOT].certificate(version).rows_inserted
        nodes = {
            n: NodeState(tables[n].path, version, f.base_version, f.folded_version)
            for n, f in runner.loaded.items()
            if n != ROOT
        }
        self._certify(replace(self.table, generation=generation, version=version, row_count=rows), point)
        return self._commit(version, Counts(rows), nodes, 0, generation=generation, fold=point, row_count=rows)

    def _partitions(self) -> tuple[str, ...]:
        """The columns that the files are partitioned by; a source may have lost one since they were chosen."""
        wanted: tuple[str, ...] = self.changes.get("partition_by", self.table.partition_by)
        known = {column.field.lower() for column in self.compiled.root.visible}
        gone = [name for name in wanted if name.lower() not in known]
        if gone:
            raise SourceSchemaChanged(
                f"stream table {self.table.full_name.short} is partitioned by {gone[0]}, which its query no longer has",
                hint="alter the query, or partition_by",
            )
        return wanted

    def _certify(self, loaded: StreamTable, point: FoldPoint) -> None:
        """A plan that is loaded for the first time is checked against the user's own query before it counts."""
        if self.table.is_populated and self.table.fingerprint == self.compiled.fingerprint:
            return
        if self.definition.kind is DefinitionKind.CAPTURE:
            return  # no query of a user stands behind it
        stands = replace(loaded, fold_base_version=point.base_version, folded_version=point.folded_version)
        certify(self.engine, stands, self.definition, self.compiled, self.spans)

    # A change of what is stored --------------------------------------------------------------------------------------

    def _append(self) -> Done:
        stored = stored_nodes(self.engine, self.table, self.compiled)
        runner = self._runner(stored)
        differential = self.decision.action is Action.DIFFERENTIAL
        small = self._is_small() if differential else are_small(self.spans.values())
        self.engine.worker.size_for(small)
        runner.settle = lambda node_id: self._settle(runner, stored, node_id)
        try:
            if not (differential and land(runner, self.definition)):
                runner.run(self.compiled.differential(self._changed()) if differential else self.compiled.full(True))
            self.mark("compute")
            return self._append_results(runner, stored)
        finally:
            runner.release()

    def _append_results(self, runner: Runner, stored: Mapping[str, StoredNode]) -> Done:
        version = self.table.version + 1
        read = runner.rows_in
        self._append_nodes(runner, stored)
        root = runner.results.get(ROOT)
        if not self.appended and (root is None or root.is_empty):
            return self._commit(self.table.version, Counts(), None, read)
        self.mark("append root")
        change = root or Relation.empty(weighted(node_schema(self.compiled.node(ROOT))))
        written = self._write(stored[ROOT].table, ROOT, change)
        self.mark("appended")
        return self._commit(version, written, self._moved_nodes(), read, row_count=self.known_rows.get(ROOT))

    def _append_nodes(self, runner: Runner, stored: Mapping[str, StoredNode]) -> None:
        """Append the changes of internal nodes that are known by now, each once."""
        for node_id in (n.id for n in self.compiled.nodes if n.id != ROOT and n.id not in self.appended):
            change = runner.results.get(node_id)
            if change is not None and not change.is_empty:
                self.mark(f"append {node_id}")
                self._write(stored[node_id].table, node_id, change)
                self.appended[node_id] = self.table.version + 1

    def _settle(self, runner: Runner, stored: Mapping[str, StoredNode], node_id: str) -> Relation:
        """A node's change as its log has it, before anything is computed from it."""
        self._append_nodes(runner, stored)
        written = stored[node_id].table.appended(self.engine.worker.running, self.appended[node_id])
        return renamed(written, [c.name for c in self.compiled.node(node_id).columns])

    def _moved_nodes(self) -> dict[str, NodeState]:
        return {n: replace(s, version=self.appended.get(n, s.version)) for n, s in self.table.nodes.items()}

    def _write(self, table: ChangeLogged, node_id: str, change: Relation) -> Counts:
        """Append one node's change; the log counts the rows, and refuses to delete more than it has."""
        node = self.compiled.node(node_id)
        named = renamed(change, [c.field for c in node.columns])
        certificate = self._certificate(self.table.version + 1, {n: s.version for n, s in self._moved_nodes().items()})
        certificate = replace(certificate, row_count=self.known_rows.get(node_id))
        if node_id == ROOT:
            certificate = replace(certificate, changes=dict(self.changes), decision=self.decision.to_json())
        written = table.append(self.engine.worker.running, named, certificate)
        return Counts(written.rows_inserted, written.rows_deleted, updated(named.arrow, key_fields(node)))

    # Parts -----------------------------------------------------------------------------------------------------------

    def _runner(self, nodes: Mapping[str, StoredNode]) -> Runner:
        return Runner(self.engine.worker, self.compiled, Inputs(self.spans, nodes), self.engine.settings)

    def _changed(self) -> Changed:
        kinds = {k: self._kind(k) for k in self.spans}
        return Changed(
            frozenset(k for k, kind in kinds.items() if kind is not ChangeKind.NONE),
            frozenset(k for k, kind in kinds.items() if kind is ChangeKind.INSERT_ONLY),
        )

    def _kind(self, key: str) -> ChangeKind:
        return ChangeKind(self.decision.inputs["sources"][key]["change"])

    def _is_small(self) -> bool:
        inputs = self.decision.inputs["sources"].values()
        changed = [s for s in inputs if s["change"] != ChangeKind.NONE]
        return all(
            (s["changed_rows"] or 0) <= self.engine.settings.driver_rows
            and s.get("bytes", 0) <= self.engine.settings.driver_result_bytes
            for s in changed
        )

    def _certificate(self, version: int, nodes: Mapping[str, int], first: bool = False) -> Certificate:
        """The log fills in how many rows it wrote."""
        return Certificate(
            refresh_id=self.refresh_id,
            epoch=self.lease.epoch,
            fingerprint=self.compiled.fingerprint,
            version=version,
            from_frontier=dict(self.table.frontier) if self.table.frontier and not first else None,
            to_frontier=self._frontier(),
            action=str(self.decision.action),
            reason=self.decision.reason,
            nodes=dict(nodes),
            engine=f"freshlake {VERSION}",
        )

    def _frontier(self) -> dict[str, Any]:
        heads = {k: s.end for k, s in self.spans.items()}
        return frontier(heads, self._moment(), self.engine.root_positions(heads))

    def _moment(self) -> datetime:
        terms = replace(self.terms, at=self.terms.at or self.lease.acquired_at)
        return terms.not_before(self.table.data_timestamp)

    def _commit(
        self,
        version: int,
        rows: Counts,
        nodes: Mapping[str, NodeState] | None,
        read: int,
        *,
        generation: int | None = None,
        fold: FoldPoint | None = None,
        row_count: int | None = None,
    ) -> Done:
        known = self.table.row_count
        if row_count is None and known is not None:
            row_count = known + rows.inserted - rows.deleted
        moved = Commit(
            refresh_id=self.refresh_id,
            action=self.decision.action,
            generation=self.table.generation if generation is None else generation,
            version=version,
            frontier=self._frontier(),
            data_timestamp=self._moment(),
            rows_inserted=rows.inserted,
            rows_deleted=rows.deleted,
            rows_updated=rows.updated,
            row_count=row_count,
            nodes=nodes,
            fold_base_version=fold.base_version if fold else None,
            folded_version=fold.folded_version if fold else None,
            source_changes=changed_rows(self.decision.inputs),
            fallback_reason=self.decision.reason,
            decision={**self.decision.to_json(), **self._measured(row_count)},
            changes=dict(self.changes),
            publish=self.terms.publish,
        )
        with self.engine.catalog.transaction():
            table = self.engine.catalog.commit_refresh(self.table.id, self.lease.epoch, moved)
            if self.edges is not None:
                self.engine.catalog.replace_dependencies(table.id, self.edges)
        assert moved.decision is not None
        self.engine.learned.add(self.table, table, self.compiled, moved.decision)
        self.mark("committed")
        return Done(table, self.refresh_id, rows.inserted, rows.deleted, rows.updated, read)

    def _measured(self, target_rows: int | None) -> dict[str, Any]:
        action = self.decision.action
        if action is Action.NO_DATA:
            return {}
        took = (time.perf_counter() - self.began) * 1000 if self.took is None else self.took
        sources = self.decision.inputs["sources"]
        return self.engine.learned.measured(self.table, self.compiled, action, sources, self.spans, target_rows, took)
