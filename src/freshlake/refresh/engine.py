"""One refresh of one stream table: lease, triage, choose, run, append (the commit point), catalog, publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import (
    ColumnsAwaited,
    CommitConflict,
    DataError,
    FreshlakeError,
    FuseBlown,
    InvalidQuery,
    LeaseLost,
    RecursionLimit,
    RefreshInProgress,
    SourceDropped,
    SourceHistoryLost,
    SourceSchemaChanged,
    TableNotFound,
)
from freshlake.refresh import commit, recover, roots
from freshlake.refresh.choose import STORAGE_LOST, Decision, choose
from freshlake.refresh.definition import definition_of
from freshlake.refresh.edges import check_acyclic, edges_of
from freshlake.refresh.failing import fail, known
from freshlake.refresh.heads import Heads, Pins
from freshlake.refresh.inputs import SourceSpan, spans_of
from freshlake.refresh.learned import Learned
from freshlake.refresh.leasing import leased
from freshlake.refresh.loss import damage
from freshlake.refresh.meaning import means_the_same
from freshlake.refresh.pinned import zone_of
from freshlake.refresh.quarantine import held_back
from freshlake.refresh.refused import full_refused, refused, require_differential
from freshlake.refresh.result import RefreshResult, result_of
from freshlake.refresh.shape import meaning
from freshlake.refresh.situation import BLOWN, Situation, SourceChange, bounds
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.terms import DEFAULT_TERMS, Terms
from freshlake.refresh.unbegun import recorded
from freshlake.refresh.uses import differing
from freshlake.schedule.state import Consistency
from freshlake.sources.protocol import ChangeKind, Position, Triage

_log = logging.getLogger("freshlake")

ROOTS_DISAGREE = "roots-disagree"
"""Reason of a refresh that was left out: what the table reads shows a root in two states."""


@dataclass
class Engine(Heads):
    """Everything a refresh needs; one per connection, shared by its threads."""

    learned: Learned = field(init=False)

    def __post_init__(self) -> None:
        self.learned = Learned(self.catalog)

    # Refresh ---------------------------------------------------------------------------------------------------------

    def next_choice(self, table: StreamTable) -> Decision:
        """What a refresh would do now, and why; nothing is run, nothing is recorded."""
        heads = self.heads(self.catalog.dependencies(table.id), {})
        return choose(_Refresh(self, table.id, heads, None, time.perf_counter(), DEFAULT_TERMS).situation(table)[0])

    def refresh(
        self,
        table: StreamTable,
        pins: Pins,
        requested: RefreshMode | None = None,
        terms: Terms = DEFAULT_TERMS,
    ) -> RefreshResult:
        """Bring one table to the newest state of its sources, or to the one that was pinned."""
        started = time.perf_counter()
        terms = replace(terms, at=terms.at or self.clock.now())
        if requested is RefreshMode.DIFFERENTIAL:
            self._require_rules(table)
        with recorded(self, table, terms):
            edges = self.catalog.dependencies(table.id)
            heads = self._heads(table, edges, pins, terms)
            if self._is_current(table, heads, requested) and held_back(self.catalog, table, edges) is None:
                done = self._no_data(table, heads, terms, started)
                if done is not None:
                    return done
        return _Refresh(self, table.id, heads, requested, started, terms).run()

    def _no_data(self, table: StreamTable, heads: Pins, terms: Terms, started: float) -> RefreshResult | None:
        """Record that a table stands at its heads already; None: take the lease and look again."""
        seen = terms.not_before(table.data_timestamp)
        frontier = self._unmoved(table, heads, seen)
        held = terms.leases.get(table.id)
        epoch, publish = (held.epoch if held else None), terms.publish
        try:
            moved = self.catalog.record_no_data(
                table, frontier=frontier, data_timestamp=seen, publish=publish, epoch=epoch
            )
        except RefreshInProgress:
            if not terms.wait_seconds:
                raise
            return None
        if moved is None:
            return None
        took = (time.perf_counter() - started) * 1000
        name, action = str(table.full_name), Action.NO_DATA
        return RefreshResult(name, action, None, 0, 0, took, frontier, table.version, rows_updated=0)

    def require_columns(self, table: StreamTable, compiled: CompiledQuery) -> None:
        """Raises ColumnsAwaited if the query reads what a mirror has no values of yet."""
        if awaited := self.awaited(edges_of(self.catalog, compiled)):
            raise ColumnsAwaited(f"stream table {table.full_name.short} waits for columns: {awaited}")

    def _unmoved(self, table: StreamTable, heads: Pins, at: datetime) -> dict[str, Any]:
        """The frontier of a table that stands at its heads already.

        A stream table that it reads may have seen its roots move without a change of its own.
        """
        known = table.frontier or {}
        if "roots" in known and not any(key.startswith(roots.STREAM) for key in heads):
            return {**known, "data_timestamp": at.isoformat()}
        return commit.frontier(heads, at, self.root_positions(heads))

    def _require_rules(self, table: StreamTable) -> None:
        try:
            compiled = self.compiled(table)
        except FreshlakeError:
            return  # the refresh will say what is wrong with the sources
        require_differential(compiled, table.full_name)

    def _heads(
        self, table: StreamTable, edges: tuple[Dependency, ...], pins: Pins, terms: Terms
    ) -> dict[str, Position]:
        try:
            terms.check_reached(e.source_key for e in edges if e.source_key not in pins)
            return self.heads(edges, pins)
        except SourceDropped:
            if (again := self._made_again(table, edges)) is not None:
                return self.heads(again, pins)
            if table.is_populated:
                self.catalog.update(table.id, status=Status.ERROR)
            raise

    def _made_again(self, table: StreamTable, edges: tuple[Dependency, ...]) -> tuple[Dependency, ...] | None:
        """What the query reads now, if a source that is gone was replaced by another one under its name."""
        self.forget(table)
        try:
            found = edges_of(self.catalog, self.compiled(table))
        except FreshlakeError:
            return None
        return None if {e.source_key for e in found} == {e.source_key for e in edges} else found

    def _is_current(self, table: StreamTable, heads: Pins, requested: RefreshMode | None) -> bool:
        if requested is RefreshMode.FULL or not table.is_populated or table.needs_reinit or table.frontier is None:
            return False
        is_there = self.layout.is_there(table.storage_id, table.generation)
        return is_there and roots.stands_at(table, heads) and self.means_the_same(table)


@dataclass
class _Refresh:
    engine: Engine
    table_id: int
    heads: Pins
    requested: RefreshMode | None
    started: float
    terms: Terms
    timings: dict[str, float] = field(default_factory=dict)

    def run(self) -> RefreshResult:
        if (held := self.terms.leases.get(self.table_id)) is not None:
            return self._under(held)
        with leased(self.engine, [self.table_id], wait_seconds=self.terms.wait_seconds, terms=self.terms) as leases:
            return self._under(leases[self.table_id])

    def _under(self, lease: Lease) -> RefreshResult:
        table, disagreement = self.engine.catalog.get_by_id(self.table_id), None
        with recorded(self.engine, table, self.terms, lease):
            table = recover.adopt(self.engine, table, lease)
            self.heads = self._not_behind(table)
            edges = self.engine.catalog.dependencies(table.id)
            held = held_back(self.engine.catalog, table, edges, self.terms)
            if held is None:
                disagreement = self._align(table)
        if held is not None:
            return self._skip(table, *held)
        if disagreement is not None:
            return self._skip(table, ROOTS_DISAGREE, str(disagreement))
        return self._leased(table, lease)

    def _not_behind(self, table: StreamTable) -> Pins:
        """The heads were taken before the lease: where another process has gone further since, its position counts."""
        committed = (table.frontier or {}).get("sources", {})
        heads = dict(self.heads)
        for edge in self.engine.catalog.dependencies(table.id):
            head, known = heads.get(edge.source_key), committed.get(edge.source_key)
            done = Position.from_json(known) if known is not None else None
            if head is None or done is None or head.table_id != done.table_id or head.version >= done.version:
                continue
            now = self.engine.head(edge)
            if now.table_id == done.table_id and now.version >= done.version:
                heads[edge.source_key] = done
        return heads

    def _align(self, table: StreamTable) -> roots.Disagreement | None:
        """Read every root at one position on all paths; which root cannot be, if there is one."""
        if table.diamond_consistency != Consistency.ATOMIC:
            return None
        done = {k: Position.from_json(p) for k, p in (table.frontier or {}).get("sources", {}).items()}
        found = roots.aligned(self.heads, self.engine.upstream_roots(self.heads), done)
        if isinstance(found, roots.Disagreement):
            return found
        self.heads = found
        return None

    def _skip(self, table: StreamTable, reason: str, detail: str) -> RefreshResult:
        """The table stays at its last consistent state."""
        self.engine.catalog.skip_refresh(table.id, reason)
        name, took, frontier = str(table.full_name), self._elapsed(), dict(table.frontier or {})
        return RefreshResult(name, Action.SKIPPED, reason, 0, 0, took, frontier, table.version, detail)

    def _elapsed(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    def _leased(self, table: StreamTable, lease: Lease) -> RefreshResult:
        engine = self.engine
        refresh = engine.catalog.begin_refresh(lease)
        decision: Decision | None = None
        try:
            with known(table.full_name), engine.worker.counting() as count:
                engine.worker.run_under(table.session_settings)
                situation, spans, compiled = self.situation(table)
                decision = choose(situation)
                self._mark("triage")
                if decision.refusal is not None:
                    raise refused(table.full_name, decision.refusal)
                engine.require_columns(table, compiled)
                done, decision = self._perform(table, lease, refresh.refresh_id, decision, spans, compiled)
        except FreshlakeError as error:
            fail(engine, refresh.refresh_id, error, self.terms, decision)
            if isinstance(error, FuseBlown) and self.terms.counts:
                engine.catalog.update(table.id, fuse_state=BLOWN)
            raise
        return result_of(done, decision, count.jobs, self._elapsed(), self.timings)

    def _mark(self, phase: str) -> None:
        self.engine.reached(phase)
        self.timings[phase] = self._elapsed() - sum(self.timings.values())

    def situation(self, table: StreamTable) -> tuple[Situation, dict[str, SourceSpan], CompiledQuery]:
        """What changed since the committed frontier, and the query that reads it."""
        engine = self.engine
        edges = engine.catalog.dependencies(table.id)
        if not {e.source_key for e in edges} <= set(self.heads):
            edges = edges_of(engine.catalog, self._compiled(table))
        spans = self._spans(table, edges)
        changes = {e.source_key: self._change(e, spans[e.source_key]) for e in edges}
        if any(c.triage.kind in (ChangeKind.SCHEMA_CHANGED, ChangeKind.REPLACED) for c in changes.values()):
            engine.forget(table)
        compiled = self._compiled(table)
        if {s.key for s in compiled.sources} != {e.source_key for e in edges}:
            edges = edges_of(engine.catalog, compiled)
            check_acyclic(engine.catalog, table.full_name, edges)
            spans = self._spans(table, edges)
            changes = {e.source_key: self._change(e, spans[e.source_key]) for e in edges}
        situation = Situation(
            mode=table.refresh_mode,
            requested=self.requested,
            is_populated=table.is_populated,
            needs_reinit=table.needs_reinit,
            storage_lost=damage(engine, table) if table.needs_reinit else None,
            definition_changed=not means_the_same(table, compiled),
            changed_texts=differing(table.uses, compiled.uses),
            not_differentiable=compiled.reasons,
            changes=changes,
            # a database is not copied again because much of it changed
            max_change_ratio=0 if table.is_mirror else engine.settings.differential_max_change_ratio,
            append_only=table.append_only,
            costs=engine.learned.costs(table, compiled, changes),
            full_ms=engine.learned.full_ms(table, compiled, changes) if table.max_full_seconds is not None else None,
            **bounds(table, engine.settings),
        )
        return situation, spans, compiled

    def _compiled(self, table: StreamTable) -> CompiledQuery:
        """A query that fitted its sources before and does not now was broken by them."""
        name = table.full_name.short
        try:
            return self.engine.compiled(table)
        except TableNotFound as error:
            message = f"stream table {name} reads a table or view that no longer exists"
            raise SourceDropped(message, detail=error.message) from error
        except InvalidQuery as error:
            message = f"the query of stream table {name} no longer fits its sources"
            raise SourceSchemaChanged(message, detail=error.message) from error

    def _spans(self, table: StreamTable, edges: tuple[Dependency, ...]) -> dict[str, SourceSpan]:
        heads = {**self.engine.heads(tuple(e for e in edges if e.source_key not in self.heads), {}), **self.heads}
        return spans_of(table, {e.source_key: self.engine.source(e) for e in edges}, heads)

    def _change(self, edge: Dependency, span: SourceSpan) -> SourceChange:
        if span.start is None:
            triage = Triage(ChangeKind.MUTATING, None, 0)
        else:
            triage = span.source.triage(span.start, span.end)
        used = set(edge.columns_used or ())
        affected = tuple(c for c in triage.changed_columns if not used or c in used)
        return SourceChange(edge.source_name, triage, span.source.row_count(span.end), affected)

    def _perform(
        self,
        table: StreamTable,
        lease: Lease,
        refresh_id: str,
        decision: Decision,
        spans: Mapping[str, SourceSpan],
        compiled: CompiledQuery,
    ) -> tuple[commit.Done, Decision]:
        definition = definition_of(table)
        work = commit.Work(self.engine, table, lease, refresh_id, decision, spans, compiled, definition, self._mark)
        work = replace(work, terms=self.terms)
        try:
            return self._attempt(work, decision)
        except (LeaseLost, CommitConflict):
            raise
        except Exception as error:
            lost = damage(self.engine, table) if decision.action is not Action.REINITIALIZE else None
            if lost is None or not self.engine.layout.is_mounted:
                raise
            if decision.no_full is not None and self.requested is not RefreshMode.FULL:
                raise full_refused(table.full_name, f"{decision.no_full}; {STORAGE_LOST}: {lost}") from error
            again = replace(decision, action=Action.REINITIALIZE, reason=STORAGE_LOST, detail=lost)
            return self._attempt(replace(work, decision=again), again)

    def _attempt(self, work: commit.Work, decision: Decision) -> tuple[commit.Done, Decision]:
        table, compiled = work.table, work.compiled
        if decision.not_appended:
            _log.warning(
                "%s is no longer append-only: rows of %s were updated or deleted",
                table.full_name.short,
                ", ".join(decision.not_appended),
            )
            work = replace(work, changes={"append_only": False})
        settings: Mapping[str, Any] = table.session_settings
        if table.fingerprint != compiled.fingerprint:
            # the zone that this table runs in; another one may have been compiled since it was
            settings = {**zone_of(self.engine.worker.running), **settings}
            known = {"fingerprint": compiled.fingerprint, "session_settings": settings}
            work = replace(work, changes={**work.changes, **known})
        if table.fuse_state is not None and decision.action is not Action.NO_DATA:
            work = replace(work, changes={**work.changes, "fuse_state": None})
        if decision.action is Action.REINITIALIZE or not table.is_populated:
            # the query may mean something else than when it was last compiled
            edges = edges_of(self.engine.catalog, compiled)
            changes = {**work.changes, **meaning(compiled, settings)}
            return replace(work, changes=changes, edges=edges).perform(), decision
        if decision.action is not Action.DIFFERENTIAL:
            return work.perform(), decision
        try:
            with translated():
                return work.perform(), decision
        except (DataError, SourceHistoryLost) as error:
            if self.requested is RefreshMode.DIFFERENTIAL:
                raise
            if decision.no_full is not None:
                raise full_refused(table.full_name, f"{decision.no_full}; {error.code}: {error.message}") from error
            code = "delta-evaluation-error" if isinstance(error, DataError) else "history-lost"
            code = error.code if isinstance(error, RecursionLimit) else code
            again = replace(decision, action=Action.FULL, reason=code, detail=error.message)
            recover.roll_back(self.engine, work.table, work.lease)
            return replace(work, decision=again).perform(), again
