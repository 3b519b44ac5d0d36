"""Rounds: several refreshes that read one point in time, upstreams first; groups are published as one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.errors import FreshlakeError, StreamTableQuarantined, StreamTableSuspended
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine, Pins
from freshlake.refresh.folding import fold_if_due
from freshlake.refresh.leasing import leased
from freshlake.refresh.result import FoldResult, RefreshResult
from freshlake.refresh.roots import from_json
from freshlake.refresh.terms import Terms
from freshlake.schedule.graph import Graph
from freshlake.schedule.state import Consistency
from freshlake.schedule.units import Groups, groups_of
from freshlake.service.announce import Announcer
from freshlake.service.names import Names
from freshlake.sources.protocol import Position
from freshlake.sources.stream_table import position_of

_log = logging.getLogger("freshlake")

RESTING = (Status.SUSPENDED, Status.ERROR, Status.QUARANTINED)
"""Tables in these states are not refreshed unless a person asks for it; a group is published without them."""
STOPPED = (Status.SUSPENDED, Status.QUARANTINED)
"""Tables in these states are not refreshed even then."""


@dataclass(frozen=True)
class Round:
    """One point in time: the heads of plain sources, taken once."""

    pins: Pins
    at: datetime | None
    """None: the moment at which a refresh begins."""
    failed: dict[str, FreshlakeError] = field(default_factory=dict)
    """What was refreshed in this round and failed, or was left out because of that; what reads it is left out too."""


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

    # What a person asks for ------------------------------------------------------------------------------------------

    def refresh(self, table: StreamTable, requested: RefreshMode | None) -> RefreshResult:
        """One table and what it reads; only the table itself takes the requested mode."""
        name = table.full_name.short
        if table.status is Status.SUSPENDED:
            raise StreamTableSuspended(f"stream table {name} is suspended", hint=f'fl.resume("{name}")')
        if table.is_quarantined:
            raise StreamTableQuarantined(
                f"stream table {name} is in quarantine: its rows are not those of its query",
                hint=f'look at fl.audits("{name}"); then repair it: fl.repair("{name}")',
            )
        if not self.engine.catalog.reads_stream_tables(table.id):
            return self._alone(table, requested)
        return self._with_upstreams(table, self.engine.catalog.dependencies(table.id), requested)

    def _alone(self, table: StreamTable, requested: RefreshMode | None) -> RefreshResult:
        """A table that reads plain tables, and those in mode IMMEDIATE that follow it."""
        followers = self.followers([str(table.full_name)])
        edges = [e for t in (table, *followers) for e in self.engine.catalog.dependencies(t.id)] if followers else []
        outcome = self.run([table, *followers], self.begin(edges), {table.id: requested})
        self._raising(outcome)
        return outcome.results[0]

    def _with_upstreams(
        self, table: StreamTable, edges: Sequence[Dependency], requested: RefreshMode | None
    ) -> RefreshResult:
        known, chain, moment = self._upstreams(table, edges)
        together = self.group(known, str(table.full_name))
        for upstream in chain:
            if str(upstream.full_name) not in together:
                self._raising(self.run([upstream], moment))
        members = [*(t for t in chain if str(t.full_name) in together), table]
        followers = [t for t in self.followers([str(table.full_name)]) if t.id not in {m.id for m in members}]
        outcome = self.run([*members, *followers], moment, {table.id: requested})
        self._raising(outcome)
        return outcome.results[len(members) - 1]

    def prepare(self, table: StreamTable, edges: Sequence[Dependency]) -> Round:
        """Bring the stream tables that these edges lead to up to date; returns the moment that they have read."""
        if all(edge.stream_table_id is None for edge in edges):
            return Round({}, self.engine.clock.now())
        _, chain, moment = self._upstreams(table, edges)
        for upstream in chain:
            self._raising(self.run([upstream], moment))
        self._check_sound(edge.stream_table_id for edge in edges)
        return moment

    def _check_sound(self, upstreams: Iterable[int | None]) -> None:
        """Nothing is made of rows that are known to be wrong."""
        read = self.engine.catalog.stream_tables_by_id([i for i in upstreams if i is not None])
        for upstream in read.values():
            if upstream.is_quarantined:
                raise StreamTableQuarantined(
                    f"stream table {upstream.full_name.short}, which it reads, is in quarantine"
                )

    def _upstreams(self, table: StreamTable, edges: Sequence[Dependency]) -> tuple[Graph, list[StreamTable], Round]:
        """The stream tables that these edges lead to, in order, but for stopped ones, which stay as they are."""
        name = str(table.full_name)
        reads = [edge.source_name for edge in edges if edge.stream_table_id is not None]
        known = graph(self.engine.catalog).with_table(name, reads)
        found = [t for t in map(self.engine.catalog.find, known.order(known.upstream(name))) if t is not None]
        moment = self.begin([*edges, *(e for t in found for e in self.engine.catalog.dependencies(t.id))])
        return known, [t for t in found if t.shown_status not in STOPPED], moment

    def refresh_all(self) -> list[RefreshResult]:
        """Every table that is not stopped; one that fails does not stop tables that do not read it."""
        moment = self.begin(e for edges in self.engine.catalog.all_dependencies().values() for e in edges)
        known = graph(self.engine.catalog)
        by_name = {str(t.full_name): t for t in self.engine.catalog.stream_tables()}
        results: dict[str, RefreshResult] = {}
        for unit in self.units(known):
            tables = [by_name[name] for name in unit if name in by_name]
            outcome = self.run([t for t in tables if t.shown_status not in STOPPED], moment)
            stopped = (
                (t, "quarantined" if t.is_quarantined else "suspended") for t in tables if t.shown_status in STOPPED
            )
            skipped = (self.skipped(table, why) for table, why in stopped)
            results |= {result.table: result for result in (*outcome.results, *skipped)}
        return [results[name] for name in known.order() if name in results]

    def _raising(self, outcome: Outcome) -> RefreshResult:
        for error in outcome.failed.values():
            raise error
        return outcome.results[-1]

    def followers(self, names: Sequence[str]) -> list[StreamTable]:
        """The stream tables in mode IMMEDIATE that read these, directly or through others in that mode; in order."""
        if not self.engine.catalog.has_mode(RefreshMode.IMMEDIATE):
            return []
        tables = self.engine.catalog.stream_tables()
        immediate = {str(t.full_name): t for t in tables if t.refresh_mode is RefreshMode.IMMEDIATE}
        known = graph(self.engine.catalog)
        found: set[str] = set()
        pending = list(names)
        while pending:
            reached = {r for r in known.readers(pending.pop()) if r in immediate} - found
            found |= reached
            pending.extend(reached)
        loaded = (immediate[name] for name in known.order(found))
        return [table for table in loaded if table.is_populated and table.shown_status not in RESTING]

    # Groups ----------------------------------------------------------------------------------------------------------

    def groups(self, known: Graph) -> Groups:
        """Tables that are published together: those of atomic diamonds, and those that users declared."""
        tables = self.engine.catalog.stream_tables()
        loose = [str(t.full_name) for t in tables if t.diamond_consistency != Consistency.ATOMIC]
        declared = [frozenset(map(str, group.members)) for group in self.engine.catalog.groups()]
        # one in mode IMMEDIATE is published with the stream tables that it reads
        declared += [
            frozenset({str(t.full_name), *known.inputs(str(t.full_name))})
            for t in tables
            if t.refresh_mode is RefreshMode.IMMEDIATE
        ]
        return groups_of(known, loose=loose, declared=declared)

    def group(self, known: Graph, name: str) -> tuple[str, ...]:
        """The tables that are published with one, itself among them."""
        group = self.groups(known).of.get(name)
        return (name,) if group is None else group.tables

    def is_alone(self, table: StreamTable) -> bool:
        """Whether a table is published by itself."""
        return len(self.group(graph(self.engine.catalog), str(table.full_name))) == 1

    def units(self, known: Graph) -> list[tuple[str, ...]]:
        """All tables, those of a group side by side, upstreams before what reads them."""
        of = self.groups(known).of
        waiting = list(dict.fromkeys(of[name].tables if name in of else (name,) for name in known.order()))
        done: set[str] = set()
        ordered = []
        while waiting:
            unit = next(u for u in waiting if all(known.upstream(member) <= done | set(u) for member in u))
            waiting.remove(unit)
            ordered.append(unit)
            done |= set(unit)
        return ordered

    # Running ---------------------------------------------------------------------------------------------------------

    def begin(self, edges: Iterable[Dependency]) -> Round:
        """The heads of all plain sources, taken once; a source that is gone is reported by the table that reads it."""
        at = self.engine.clock.now()
        return Round(self.engine.pinned(edges), at)

    def run(
        self,
        tables: Sequence[StreamTable],
        moment: Round,
        requested: Mapping[int, RefreshMode | None] | None = None,
        *,
        retries: bool = False,
        leases: Mapping[int, Lease] | None = None,
        repairs: bool = False,
    ) -> Outcome:
        """Refresh tables one after the other, upstreams first, and publish them at once; none if one of them failed.

        A table that reads one that failed in this round is left out; the others are committed, and the next round goes
        on from there. Who gives `leases` writes a source, and takes that back when a table cannot follow, or repairs a
        table; it folds when it has given them back.
        """
        modes, terms = requested or {}, Terms(moment.at, retries=retries, repairs=repairs)
        if leases is not None:
            outcome = self._together(tables, moment, modes, replace(terms, counts=False, leases=leases))
        elif len(tables) == 1:
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
            return _none_published(tables, moment, error, [_not_done(t, error.code, error.message) for t in tables])

    def _not_behind(self, tables: Sequence[StreamTable], moment: Round) -> Round:
        """The moment was taken before the leases: where another process has gone further since, it is taken again."""
        for table in tables:
            current = self.engine.catalog.get_by_id(table.id)
            for key, done in (from_json(current.frontier) or {}).items():
                pinned = moment.pins.get(key)
                if pinned is not None and pinned.table_id == done.table_id and pinned.version < done.version:
                    again = self.begin(e for t in tables for e in self.engine.catalog.dependencies(t.id))
                    return replace(again, failed=moment.failed)
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
                return _none_published(tables, moment, error, outcome.results)
            self.engine.reached("published")
        return outcome

    def _refresh(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        outcome, pins = Outcome(), dict(moment.pins)
        for table in tables:
            name = str(table.full_name)
            if blockers := self._blockers(table, moment.failed):
                outcome.results.append(self.skipped(table, "upstream-failed", ", ".join(blockers)))
                outcome.failed[name] = moment.failed[name] = moment.failed[blockers[0]]
                continue
            try:
                current = self.engine.catalog.get_by_id(table.id)
                result = self.announcer.refresh(current, pins, modes.get(table.id), terms)
            except FreshlakeError as error:
                outcome.failed[name] = moment.failed[name] = error
                outcome.results.append(_not_done(table, error.code, error.message))
                continue
            outcome.results.append(result)
            stands = current if result.action is Action.NO_DATA else self.engine.catalog.get_by_id(table.id)
            pins[table.source_key] = committed(stands)
        outcome.published = not outcome.failed
        return outcome

    def _blockers(self, table: StreamTable, failed: Mapping[str, FreshlakeError]) -> list[str]:
        if not failed:
            return []
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


def _none_published(
    tables: Sequence[StreamTable], moment: Round, error: FreshlakeError, results: list[RefreshResult]
) -> Outcome:
    failed = dict.fromkeys((str(table.full_name) for table in tables), error)
    moment.failed.update(failed)
    return Outcome(results, failed, published=False)


def _not_done(table: StreamTable, reason: str, detail: str | None) -> RefreshResult:
    frontier = dict(table.frontier or {})
    return RefreshResult(str(table.full_name), Action.SKIPPED, reason, 0, 0, 0.0, frontier, table.version, detail)


def committed(table: StreamTable) -> Position:
    """Where a table stands, whether readers see it yet or not."""
    return position_of(table, table.generation, table.version)
