"""Rounds: several refreshes that read one point in time, upstreams first."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.compiler.split import ROOT
from freshlake.errors import FreshlakeError, StreamTableSuspended
from freshlake.refresh.commit import stored_nodes
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine, Pins
from freshlake.refresh.folding import fold_if_due, oldest_fold
from freshlake.refresh.result import FoldResult, RefreshResult
from freshlake.service.announce import Announcer
from freshlake.service.names import Names

_log = logging.getLogger("freshlake")


@dataclass
class Rounds:
    engine: Engine
    names: Names
    announcer: Announcer

    def refresh(self, table: StreamTable, requested: RefreshMode | None) -> RefreshResult:
        """One table and what it reads; only the table itself takes the requested mode."""
        if table.status is Status.SUSPENDED:
            raise StreamTableSuspended(
                f"stream table {table.full_name.short} is suspended", hint=f'fl.resume("{table.full_name.short}")'
            )
        if not self.engine.catalog.reads_stream_tables(table.id):
            return self._one(table, {}, requested)
        pins = self.prepare(table, self.engine.catalog.dependencies(table.id))
        return self._one(self.engine.catalog.get_by_id(table.id), pins, requested)

    def prepare(self, table: StreamTable, edges: Sequence[Dependency]) -> Pins:
        """Bring the stream tables that these edges lead to up to date; returns the heads that all of them have read.

        One that is suspended is left as it is.
        """
        reads = [edge.source_name for edge in edges if edge.stream_table_id is not None]
        if not reads:
            return {}
        name = str(table.full_name)
        known = graph(self.engine.catalog).with_table(name, reads)
        found = map(self.engine.catalog.find, known.order(known.upstream(name)))
        chain = [upstream for upstream in found if upstream is not None]
        pins = self._pin([*edges, *(e for t in chain for e in self.engine.catalog.dependencies(t.id))])
        for upstream in chain:
            if upstream.status is not Status.SUSPENDED:
                self._one(self.engine.catalog.get_by_id(upstream.id), pins, None)
        return pins

    def refresh_all(self) -> list[RefreshResult]:
        """Every table that is not suspended; one that fails does not stop tables that do not read it."""
        pins = self._pin(e for edges in self.engine.catalog.all_dependencies().values() for e in edges)
        known = graph(self.engine.catalog)
        failed: set[str] = set()
        results = []
        for name in known.order():
            table = self.engine.catalog.find(name)
            if table is None:
                continue
            if table.status is Status.SUSPENDED:
                results.append(self._skipped(table, "suspended"))
                continue
            if blockers := known.upstream(name) & failed:
                results.append(self._skipped(table, "upstream-failed", ", ".join(sorted(blockers))))
                continue
            try:
                results.append(self._one(table, pins, None))
            except FreshlakeError as error:
                failed.add(name)
                results.append(self._skipped(table, error.code, error.message))
        return results

    def _skipped(self, table: StreamTable, reason: str, detail: str | None = None) -> RefreshResult:
        self.engine.catalog.skip_refresh(table.id, reason)
        return RefreshResult(
            str(table.full_name), Action.SKIPPED, reason, 0, 0, 0.0, dict(table.frontier or {}), table.version, detail
        )

    def _pin(self, edges: Iterable[Dependency]) -> Pins:
        """The heads of all plain sources, taken once; a source that is gone is reported by the table that reads it."""
        pins = {}
        for edge in edges:
            if edge.stream_table_id is None and edge.source_key not in pins:
                with contextlib.suppress(FreshlakeError):
                    pins[edge.source_key] = self.engine.source(edge).head()
        return pins

    def _one(self, table: StreamTable, pins: Pins, requested: RefreshMode | None) -> RefreshResult:
        result = self.announcer.refresh(table, pins, requested)
        if result.action is Action.NO_DATA:
            return result
        after = self.engine.catalog.get_by_id(table.id)
        if result.action is Action.REINITIALIZE or not table.is_populated:
            self.names.show(after)
        folded = self._fold(after)
        return replace(result, fold=folded) if folded else result

    def _fold(self, table: StreamTable) -> FoldResult | None:
        """The refresh before it is committed whatever becomes of the fold, which is due again after the next one."""
        try:
            return fold_if_due(self.engine, table)
        except FreshlakeError as error:
            _log.warning("fold of %s: %s", table.full_name.short, error.message)
            return FoldResult(str(table.full_name), 0, 0, 0.0, error=error.message)

    def vacuum(self, table: StreamTable) -> int:
        """Keeps every base version from which a state is read: the newest, and those that consumers stand at."""
        engine = self.engine
        if not table.is_populated:
            return 0
        removed = 0
        folds = [fold for fold in engine.catalog.folds(table.id) if fold.generation == table.generation]
        for node_id, node in stored_nodes(engine, table, engine.compiled(table)).items():
            assert node.fold is not None
            oldest = oldest_fold(engine, table) if node_id == ROOT else node.fold.folded_version
            kept = [fold.base_version for fold in folds if fold.node == node_id and fold.folded_version >= oldest]
            removed += node.table.vacuum(kept, engine.settings.reader_min_age_seconds)
        return removed + self._drop_generations(table)

    def _drop_generations(self, table: StreamTable) -> int:
        """Remove what was stored for earlier queries, once no reader can hold it and no consumer stands in it."""
        engine, removed = self.engine, 0
        limit = engine.clock.now() - timedelta(seconds=engine.settings.reader_min_age_seconds)
        # the first fold of a generation is its load, when readers left the one before
        begun = {f.generation: f.at for f in reversed(engine.catalog.folds(table.id)) if f.node == ROOT}
        for generation in range(1, table.published_generation):
            used = engine.catalog.minimum_consumer_version(table.id, generation) is not None
            if used or begun.get(generation + 1, limit) > limit:
                break
            folder = engine.layout.generation(table.storage_id, generation)
            removed += sum(p.is_file() for p in folder.rglob("*"))
            shutil.rmtree(folder, ignore_errors=True)
            engine.catalog.forget_generations(table.id, before=generation + 1)
        return removed
