"""Rounds: several refreshes that read one point in time, upstreams first; groups are published as one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.errors import FreshlakeError, StreamTableSuspended
from freshlake.refresh.engine import Engine, Pins
from freshlake.refresh.folding import fold_if_due
from freshlake.refresh.leasing import leased
from freshlake.refresh.result import FoldResult, RefreshResult
from freshlake.refresh.roots import from_json
from freshlake.refresh.terms import Terms
from freshlake.service.announce import Announcer
from freshlake.service.known import Known
from freshlake.service.names import Names
from freshlake.sources.protocol import Position
from freshlake.sources.stream_table import position_of

_log = logging.getLogger("freshlake")

RESTING = (Status.SUSPENDED, Status.ERROR)
"""Tables in these states are not refreshed unless a person asks for it; a group is published without them."""


@dataclass(frozen=True)
class Round:
    """One point in time: the heads of plain sources, taken once."""

    pins: Pins
    at: datetime | None
    """None: the moment at which a refresh begins."""


@dataclass
class Outcome:
    """What became of each table of a unit, in order."""

    results: list[RefreshResult] = field(default_factory=list)
    failed: dict[str, FreshlakeError] = field(default_factory=dict)
    published: bool = True


@dataclass
class Rounds:
    engine: Engine
    names: Names
    announcer: Announcer
    _known: Known | None = None

    # What a person asks for ------------------------------------------------------------------------------------------

    def refresh(self, table: StreamTable, requested: RefreshMode | None) -> RefreshResult:
        """One table, what it reads, and what is published with it; only the table itself takes the requested mode."""
        name = str(table.full_name)
        if table.status is Status.SUSPENDED:
            raise StreamTableSuspended(
                f"stream table {table.full_name.short} is suspended", hint=f'fl.resume("{table.full_name.short}")'
            )
        known = self.known()
        if known.is_alone(name):
            return self._raising(self.run([table], self.begin(()), {table.id: requested}))
        _, results = self._bring(
            known, known.brought([name]), {name, *known.graph.upstream(name)}, {table.id: requested}
        )
        return results[name]

    def prepare(self, table: StreamTable, edges: Sequence[Dependency]) -> Round:
        """Bring the stream tables that these edges lead to up to date; returns the moment that they have read."""
        reads = [edge.source_name for edge in edges if edge.stream_table_id is not None]
        if not reads:
            return Round({}, self.engine.clock.now())
        name = str(table.full_name)
        known = self.known().with_table(name, reads)
        asked = known.graph.upstream(name)
        return self._bring(known, known.brought(reads) - {name}, asked, {}, edges)[0]

    def _bring(
        self,
        known: Known,
        selected: Iterable[str],
        asked: Collection[str],
        modes: Mapping[int, RefreshMode | None],
        edges: Sequence[Dependency] = (),
    ) -> tuple[Round, dict[str, RefreshResult]]:
        """Refresh tables at one moment, each group as one; raises what the first one that fails raises.

        Suspended tables are left as they are, and so are those that rest and only came along.
        """
        found = {name: table for name in selected if (table := self.engine.catalog.find(name)) is not None}
        tables = {name: table for name, table in found.items() if _is_brought(table, asked=name in asked)}
        moment = self.begin([*edges, *(e for t in tables.values() for e in self.engine.catalog.dependencies(t.id))])
        results: dict[str, RefreshResult] = {}
        for part in known.parts(tables):
            outcome = self.run([tables[name] for name in part], moment, modes)
            self._raising(outcome)
            results |= {result.table: result for result in outcome.results}
        return moment, results

    def refresh_all(self) -> list[RefreshResult]:
        """Every table that is not suspended; one that fails does not stop tables that do not read it."""
        moment = self.begin(e for edges in self.engine.catalog.all_dependencies().values() for e in edges)
        known = self.known()
        by_name = {str(t.full_name): t for t in self.engine.catalog.stream_tables()}
        results: dict[str, RefreshResult] = {}
        failed: set[str] = set()
        for part in known.parts(known.graph.order()):
            ready = []
            for table in (by_name[name] for name in part if name in by_name):
                name = str(table.full_name)
                if table.status is Status.SUSPENDED:
                    results[name] = self.skipped(table, "suspended")
                elif blockers := known.graph.upstream(name) & failed:
                    results[name] = self.skipped(table, "upstream-failed", ", ".join(sorted(blockers)))
                else:
                    ready.append(table)
            outcome = self.run(ready, moment) if ready else Outcome()
            results |= {result.table: result for result in outcome.results}
            failed |= set(outcome.failed)
        return [results[name] for name in known.graph.order() if name in results]

    def _raising(self, outcome: Outcome) -> RefreshResult:
        for error in outcome.failed.values():
            raise error
        return outcome.results[-1]

    def followers(self, names: Sequence[str]) -> list[StreamTable]:
        """The stream tables in mode IMMEDIATE that have to follow a change of these; in order."""
        found = (self.engine.catalog.find(name) for name in self.known().followers(names))
        return [table for table in found if table is not None and _is_brought(table, asked=False)]

    def known(self) -> Known:
        if self._known is None or self._known.version != self.engine.catalog.graph_version():
            self._known = Known.read(self.engine.catalog)
        return self._known

    # Running ---------------------------------------------------------------------------------------------------------

    def begin(self, edges: Iterable[Dependency]) -> Round:
        """The heads of all plain sources, taken once; a source that is gone is reported by the table that reads it."""
        at = self.engine.clock.now()
        pins = {}
        for edge in edges:
            if edge.stream_table_id is None and edge.source_key not in pins:
                with contextlib.suppress(FreshlakeError):
                    pins[edge.source_key] = self.engine.source(edge).head()
        return Round(pins, at)

    def run(
        self,
        tables: Sequence[StreamTable],
        moment: Round,
        requested: Mapping[int, RefreshMode | None] | None = None,
        *,
        retries: bool = False,
        leases: Mapping[int, Lease] | None = None,
    ) -> Outcome:
        """Refresh tables one after the other, upstreams first, and publish them at once; none if one of them failed.

        A table that reads a failed one is left out; the others are committed, and the next round goes on from there.
        Who gives leases folds when it has given them back.
        """
        modes, terms = requested or {}, Terms(moment.at, retries=retries)
        if leases is not None:
            outcome = self._together(tables, moment, modes, replace(terms, leases=leases))
        elif len(tables) == 1:
            # nothing to publish with it: a refresh that finds nothing to do needs no lease
            outcome = self._refresh(tables, moment, modes, terms)
        else:
            outcome = self._under_leases(tables, moment, modes, terms)
        if outcome.published:
            before = {table.id: table for table in tables}
            outcome.results = [self._after(before, result, folds=leases is None) for result in outcome.results]
        return outcome

    def _under_leases(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        """Nobody else touches a member until all are published; if somebody does so now, none of them is refreshed."""
        try:
            with leased(self.engine, [table.id for table in tables]) as leases:
                moment = self._not_behind(tables, moment)
                return self._together(tables, moment, modes, replace(terms, at=moment.at, leases=leases))
        except FreshlakeError as error:
            results = [_not_done(table, error.code, error.message) for table in tables]
            return Outcome(results, {str(table.full_name): error for table in tables}, published=False)

    def _not_behind(self, tables: Sequence[StreamTable], moment: Round) -> Round:
        """The moment was taken before the leases: where another process has gone further since, it is taken again."""
        for table in tables:
            current = self.engine.catalog.get_by_id(table.id)
            for key, done in (from_json(current.frontier) or {}).items():
                pinned = moment.pins.get(key)
                if pinned is not None and pinned.table_id == done.table_id and pinned.version < done.version:
                    return self.begin(e for t in tables for e in self.engine.catalog.dependencies(t.id))
        return moment

    def _together(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        if len(tables) == 1:
            return self._refresh(tables, moment, modes, terms)
        outcome = self._refresh(tables, moment, modes, replace(terms, publish=False))
        if outcome.published:
            self.engine.reached("publish")
            try:
                self.engine.catalog.publish(terms.leases[table.id] for table in tables)
            except FreshlakeError as error:
                return Outcome(outcome.results, {str(table.full_name): error for table in tables}, published=False)
            self.engine.reached("published")
        return outcome

    def _refresh(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        outcome, pins = Outcome(), dict(moment.pins)
        for table in tables:
            if blockers := self._blockers(table, outcome.failed):
                outcome.results.append(self.skipped(table, "upstream-failed", ", ".join(blockers)))
                outcome.failed[str(table.full_name)] = outcome.failed[blockers[0]]
                continue
            try:
                current = self.engine.catalog.get_by_id(table.id)
                result = self.announcer.refresh(current, pins, modes.get(table.id), terms)
            except FreshlakeError as error:
                outcome.failed[str(table.full_name)] = error
                outcome.results.append(_not_done(table, error.code, error.message))
                continue
            outcome.results.append(result)
            pins[table.source_key] = committed(self.engine.catalog.get_by_id(table.id))
        outcome.published = not outcome.failed
        return outcome

    def _blockers(self, table: StreamTable, failed: Mapping[str, FreshlakeError]) -> list[str]:
        reads = {e.source_name for e in self.engine.catalog.dependencies(table.id) if e.stream_table_id is not None}
        return sorted(reads & set(failed))

    def _after(self, before: Mapping[int, StreamTable], result: RefreshResult, folds: bool) -> RefreshResult:
        """What follows once readers see a result: its name in Spark's catalog, and a fold if it is due."""
        if result.action in (Action.NO_DATA, Action.SKIPPED):
            return result
        after = self.engine.catalog.get(result.table)
        if result.action is Action.REINITIALIZE or not before[after.id].is_populated:
            self.names.show(after)
        folded = self.fold(after) if folds else None
        return replace(result, fold=folded) if folded else result

    def skipped(self, table: StreamTable, reason: str, detail: str | None = None) -> RefreshResult:
        self.engine.catalog.skip_refresh(table.id, reason)
        return _not_done(table, reason, detail)

    def fold(self, table: StreamTable) -> FoldResult | None:
        """Fold if it is due; the refresh stays whatever becomes of it, and it is due again after the next one."""
        try:
            return fold_if_due(self.engine, table)
        except FreshlakeError as error:
            _log.warning("fold of %s: %s", table.full_name.short, error.message)
            return FoldResult(str(table.full_name), 0, 0, 0.0, error=error.message)


def _is_brought(table: StreamTable, *, asked: bool) -> bool:
    """Who only comes along is not woken up for it, and not loaded for the first time if it has to follow writes."""
    if asked:
        return table.status is not Status.SUSPENDED
    return table.status not in RESTING and (table.is_populated or table.refresh_mode is not RefreshMode.IMMEDIATE)


def _not_done(table: StreamTable, reason: str, detail: str | None) -> RefreshResult:
    frontier = dict(table.frontier or {})
    return RefreshResult(str(table.full_name), Action.SKIPPED, reason, 0, 0, 0.0, frontier, table.version, detail)


def committed(table: StreamTable) -> Position:
    """Where a table stands, whether readers see it yet or not."""
    return position_of(table, table.generation, table.version)
