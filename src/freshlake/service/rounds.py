"""Rounds: several refreshes that read one point in time, upstreams first; groups are published as one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.errors import ColumnsAwaited, FreshlakeError, RefreshInProgress, StreamTableQuarantined
from freshlake.refresh.engine import Engine
from freshlake.refresh.failing import ELSEWHERE
from freshlake.refresh.folding import fold_if_due
from freshlake.refresh.leasing import leased
from freshlake.refresh.result import FoldResult, RefreshResult
from freshlake.refresh.terms import Terms
from freshlake.service.announce import Announcer
from freshlake.service.grouping import Grouping
from freshlake.service.landing import Landing
from freshlake.service.moment import Round
from freshlake.service.names import Names
from freshlake.service.outcome import (
    STOPPED,
    Outcome,
    check_asked,
    failed_result,
    holds_back,
    is_brought,
    none_published,
    not_done,
    not_of_one_moment,
    not_shown,
    unpublished,
)
from freshlake.service.pinning import Pinning
from freshlake.sources.protocol import Position
from freshlake.sources.stream_table import position_of

_log = logging.getLogger("freshlake")

UPSTREAM_FAILED = "upstream-failed"
"""Reason of a refresh that was left out: what the table reads failed in the same round."""


@dataclass
class Rounds:
    engine: Engine
    names: Names
    announcer: Announcer
    landing: Landing
    published: Callable[[StreamTable], None]
    """Told of every table whose new rows readers see."""
    pinning: Pinning = field(init=False)
    _known: Grouping | None = None

    def __post_init__(self) -> None:
        self.pinning = Pinning(self.engine)

    # What a person asks for ------------------------------------------------------------------------------------------

    def refresh(self, table: StreamTable, requested: RefreshMode | None, *, waits: bool = False) -> RefreshResult:
        """One table, what it reads, and what is published with it; only the table itself takes the requested mode.

        With `waits` it waits a while for what others refresh just now.
        """
        check_asked(table)
        full, known = str(table.full_name), self.known()
        if known.is_alone(full) and not table.is_mirror:
            wait = self._seconds(waits)
            return self._raising(self.run([table], self.begin(()), {table.id: requested}, wait_seconds=wait))
        asked = {full, *known.graph.upstream(full)}
        try:
            results = self._bring(known, known.brought([full]), asked, {table.id: requested}, waits=waits)[1]
        except ColumnsAwaited:
            # they are captured by now, and their mirrors are copied first
            results = self._bring(known, known.brought([full]), asked, {table.id: requested}, waits=waits)[1]
        if full not in results:
            check_asked(self.engine.catalog.get(full))
            raise RefreshInProgress(f"stream table {table.full_name.short} was altered meanwhile", hint="refresh again")
        return results[full]

    def _seconds(self, waits: bool) -> float:
        """How long a person waits for a refresh that others make."""
        return self.engine.settings.immediate_wait_seconds if waits else 0.0

    def prepare(self, table: StreamTable, edges: Sequence[Dependency]) -> Round:
        """Bring the stream tables that these edges lead to up to date; returns the moment that they have read."""
        reads = [edge.source_name for edge in edges if edge.stream_table_id is not None]
        if not reads:
            return Round({}, self.engine.clock.now())
        name = str(table.full_name)
        known = self.known().with_table(name, reads)
        asked = known.graph.upstream(name)
        moment, _ = self._bring(known, known.brought(reads) - {name}, asked, {}, edges, waits=True)
        self._check_sound(edge.stream_table_id for edge in edges)
        return moment

    def _bring(
        self,
        known: Grouping,
        selected: Iterable[str],
        asked: Collection[str],
        modes: Mapping[int, RefreshMode | None],
        edges: Sequence[Dependency] = (),
        *,
        waits: bool,
    ) -> tuple[Round, dict[str, RefreshResult]]:
        """Refresh tables at one moment, each group as one; raises what the first one that fails raises.

        Stopped tables are left as they are, and so are those that rest and only came along.
        """
        found = {name: table for name in selected if (table := self.engine.catalog.find(name)) is not None}
        tables = {name: table for name, table in found.items() if is_brought(table, asked=name in asked)}
        moment = self.begin([*edges, *(e for t in tables.values() for e in self.engine.catalog.dependencies(t.id))])
        results: dict[str, RefreshResult] = {}
        for part in known.parts(tables):
            outcome = self._run_part(known, [tables[name] for name in part], moment, modes, waits=waits)
            self._raising(outcome)
            results |= {result.table: result for result in outcome.results}
        return moment, results

    def _check_sound(self, upstreams: Iterable[int | None]) -> None:
        """Nothing is made of rows that are known to be wrong."""
        read = self.engine.catalog.stream_tables_by_id([i for i in upstreams if i is not None])
        for upstream in read.values():
            if upstream.is_quarantined:
                raise StreamTableQuarantined(
                    f"stream table {upstream.full_name.short}, which it reads, is in quarantine"
                )

    def refresh_all(self) -> list[RefreshResult]:
        """Every table that is not stopped; one that fails does not stop tables that do not read it."""
        moment = self.begin(e for edges in self.engine.catalog.all_dependencies().values() for e in edges)
        known = self.known()
        by_name = {str(t.full_name): t for t in self.engine.catalog.stream_tables()}
        results: dict[str, RefreshResult] = {}
        for part in known.parts(known.graph.order()):
            tables = [by_name[name] for name in part if name in by_name]
            ready = [t for t in tables if t.shown_status not in STOPPED]
            outcome = self._run_all(known, ready, moment) if ready else Outcome()
            stopped = (
                (t, "quarantined" if t.is_quarantined else "suspended") for t in tables if t.shown_status in STOPPED
            )
            skipped = (self.skipped(table, why) for table, why in stopped)
            results |= {result.table: result for result in (*outcome.results, *skipped)}
        return [results[name] for name in known.graph.order() if name in results]

    def _run_part(
        self,
        known: Grouping,
        tables: Sequence[StreamTable],
        moment: Round,
        modes: Mapping[int, RefreshMode | None],
        *,
        waits: bool = False,
    ) -> Outcome:
        """A failure that keeps a table of their group from coming along keeps readers from seeing the others."""
        beside = known.beside([str(table.full_name) for table in tables])
        waits_for = [t for t in map(self.engine.catalog.find, beside) if t is not None and holds_back(t)]
        wait = self._seconds(waits)
        outcome = self.run(tables, moment, modes, publishes=not waits_for, beside=beside, wait_seconds=wait)
        return not_shown(outcome, waits_for) if waits_for else outcome

    def _run_all(self, known: Grouping, tables: Sequence[StreamTable], moment: Round) -> Outcome:
        """Refresh a part; mirrors go on without those that stay in ERROR until a person has looked at them."""
        outcome = self._run_part(known, tables, moment, {})
        left = [t for t in tables if str(t.full_name) not in outcome.failed]
        if outcome.published or not left or not all(t.is_mirror for t in tables):
            return outcome
        now = self.engine.catalog.stream_tables_by_id([t.id for t in tables])
        if not all(now[t.id].status is Status.ERROR for t in tables if t not in left and t.id in now):
            return outcome
        again = self._run_part(known, [now[t.id] for t in left if t.id in now], moment, {})
        kept = [r for r in outcome.results if r.table in outcome.failed]
        return Outcome([*kept, *again.results], {**outcome.failed, **again.failed}, again.published)

    def _raising(self, outcome: Outcome) -> RefreshResult:
        for error in outcome.failed.values():
            raise error
        return outcome.results[-1]

    def followers(self, names: Sequence[str]) -> list[StreamTable]:
        """The stream tables in mode IMMEDIATE that have to follow a change of these; in order."""
        found = (self.engine.catalog.find(name) for name in self.known().followers(names))
        return [table for table in found if table is not None and is_brought(table, asked=False)]

    def known(self) -> Grouping:
        if self._known is None or self._known.version != self.engine.catalog.graph_version():
            self._known = Grouping.read(self.engine.catalog)
        return self._known

    def is_alone(self, table: StreamTable) -> bool:
        """Whether a table is published by itself."""
        return not self.known().mates(str(table.full_name))

    # Running ---------------------------------------------------------------------------------------------------------

    def begin(self, edges: Iterable[Dependency]) -> Round:
        """The heads of all plain sources, taken once; a source that is gone is reported by the table that reads it."""
        at, unreachable = self.engine.clock.now(), dict[str, FreshlakeError]()
        return Round(self.engine.pinned(edges, unreachable), at, unreachable=unreachable)

    def run(
        self,
        tables: Sequence[StreamTable],
        moment: Round,
        requested: Mapping[int, RefreshMode | None] | None = None,
        *,
        retries: bool = False,
        leases: Mapping[int, Lease] | None = None,
        repairs: bool = False,
        publishes: bool = True,
        beside: Sequence[str] = (),
        wait_seconds: float = 0.0,
    ) -> Outcome:
        """Refresh tables one after the other, upstreams first, and publish them at once; none if one of them failed.

        A table that reads one that failed in this round is left out; the others are committed, and the next round goes
        on from there. Who gives `leases` writes a source, and takes that back when a table cannot follow, or repairs a
        table; it folds when it has given them back. Without `publishes` a later round does that. `beside` are the
        tables of their groups that are left out.
        """
        modes = requested or {}
        moment = self._with_committed(moment, beside)
        terms = Terms(moment.at, retries=retries, repairs=repairs, publish=publishes, wait_seconds=wait_seconds)
        if leases is not None:
            outcome = self._together(tables, moment, modes, replace(terms, counts=False, leases=leases))
        elif len(tables) == 1:
            # nothing to publish with it: a refresh that finds nothing to do needs no lease
            outcome = self._refresh(tables, moment, modes, terms)
        else:
            outcome = self._under_leases(tables, moment, modes, terms)
        if leases is None:
            self.announcer.together(tables, outcome.failed)
        outcome.published = outcome.published and publishes
        if outcome.published:
            before = {str(table.full_name): table for table in tables}
            outcome.results = [self._after(before, result, folds=leases is None) for result in outcome.results]
        if not outcome.published or any(result.action is not Action.NO_DATA for result in outcome.results):
            self._show_published(tables, beside)
        return outcome

    def _with_committed(self, moment: Round, beside: Sequence[str]) -> Round:
        """What is left out of a group is read where it is committed: tables of its group may have read that before."""
        found = (table for table in map(self.engine.catalog.find, beside) if table is not None)
        ahead = {table.source_key: committed(table) for table in found if table.is_populated and not table.is_published}
        return replace(moment, pins={**moment.pins, **ahead}) if ahead else moment

    def _under_leases(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        """Nobody else touches a member until all are published; if somebody does so now, none of them is refreshed."""
        try:
            with leased(
                self.engine, [table.id for table in tables], wait_seconds=terms.wait_seconds, terms=terms
            ) as leases:
                return self._together(tables, moment, modes, replace(terms, leases=leases))
        except FreshlakeError as error:
            return none_published(tables, moment, error, [failed_result(t, error) for t in tables])

    def _together(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        """Nobody moves any of the tables meanwhile, so all are brought to one moment before readers see them."""
        if len(tables) == 1:
            return self._refresh(tables, moment, modes, terms)
        moment = replace(moment, pins=self.pinning.pins(tables, moment.pins))
        outcome = self._refresh(tables, moment, modes, replace(terms, publish=False))
        outcome.published = outcome.published and terms.publish
        if not outcome.published:
            return outcome
        if not self._in_one_state(tables):
            return unpublished(outcome, "not all tables of the database have come to one state of it yet")
        if terms.counts and (waits_for := self._missing(outcome.results)):
            return not_shown(outcome, waits_for)
        try:
            # a write does not wait for what others have not brought along
            if terms.counts and (torn := self.pinning.torn(tables, outcome.results)):
                raise not_of_one_moment(tables, torn)
            self.engine.reached("publish")
            self.engine.catalog.publish(terms.leases[table.id] for table in tables)
        except FreshlakeError as error:
            return none_published(tables, moment, error, outcome.results)
        self.engine.reached("published")
        return outcome

    def _missing(self, results: Iterable[RefreshResult]) -> list[StreamTable]:
        """What has failed, where a table was left out that is published with others: a tick keeps these back, too."""
        known = self.known()
        left = [r.table for r in results if r.action is Action.SKIPPED and r.table in known.groups.of]
        above = {*left}.union(*map(known.graph.upstream, left))
        return [t for t in map(self.engine.catalog.find, sorted(above)) if t is not None and holds_back(t)]

    def _refresh(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        with self.landing.ready(tables, moment) as ready:
            return self._one_by_one(tables, ready, modes, replace(terms, unreachable=ready.unreachable))

    def _one_by_one(
        self, tables: Sequence[StreamTable], moment: Round, modes: Mapping[int, RefreshMode | None], terms: Terms
    ) -> Outcome:
        outcome, pins = Outcome(), dict(moment.pins)
        for table in tables:
            name = str(table.full_name)
            if blockers := self._blockers(table, moment.failed):
                outcome.results.append(self._blocked(table, blockers, moment.failed))
                outcome.failed[name] = moment.failed[name] = moment.failed[blockers[0]]
                continue
            try:
                # a table alone was read just now; if it moved since, its refresh notices
                current = table if len(tables) == 1 else self.engine.catalog.get_by_id(table.id)
                result = self.announcer.refresh(current, pins, modes.get(table.id), terms)
                # also a refresh with nothing to do may have found what a dead one had committed
                same = result.action is Action.NO_DATA and result.version == current.version
                pins[table.source_key] = committed(current if same else self.engine.catalog.get_by_id(table.id))
            except FreshlakeError as error:
                outcome.failed[name] = moment.failed[name] = error
                outcome.results.append(failed_result(table, error))
                continue
            outcome.results.append(result)
        outcome.published = not outcome.failed
        return outcome

    def _in_one_state(self, tables: Sequence[StreamTable]) -> bool:
        """Whether the mirrors of a database stand at one position; otherwise the next round brings them there."""
        ids = [t.id for t in tables if t.is_mirror]
        seen: dict[str | None, set[str]] = {}
        for mirror in self.engine.catalog.stream_tables_by_id(ids).values() if len(ids) > 1 else ():
            at = json.dumps((mirror.frontier or {}).get("sources"), sort_keys=True)
            seen.setdefault(mirror.full_name.database, set()).add(at)
        return all(len(positions) == 1 for positions in seen.values())

    def _blocked(
        self, table: StreamTable, blockers: Sequence[str], failed: Mapping[str, FreshlakeError]
    ) -> RefreshResult:
        """What is only in other hands goes on there, and its readers with it: no refresh is missing in the history."""
        detail = ", ".join(blockers)
        error = next((failed[name] for name in blockers if not isinstance(failed[name], ELSEWHERE)), None)
        if error is None:
            return not_done(table, RefreshInProgress.code, detail)
        return replace(self.skipped(table, UPSTREAM_FAILED, detail), error=error.to_dict())

    def _blockers(self, table: StreamTable, failed: Mapping[str, FreshlakeError]) -> list[str]:
        if not failed:
            return []
        reads = {e.source_name for e in self.engine.catalog.dependencies(table.id) if e.stream_table_id is not None}
        return sorted(reads & set(failed))

    def _after(self, before: Mapping[str, StreamTable], result: RefreshResult, folds: bool) -> RefreshResult:
        """What follows once readers see a result: its name in Spark's catalog, and a fold if it is due.

        They may see one of an earlier round now, which its group has published with this one, or of a dead process.
        """
        known = before[result.table]
        if result.action in (Action.NO_DATA, Action.SKIPPED) and known.is_published and result.version == known.version:
            return result
        after = self.engine.catalog.find(result.table)
        if after is None or not after.is_published:  # a drop may have waited for the refresh
            return result
        if after.published_generation != known.published_generation:
            self.names.show(after)
        folded = self.fold(after) if folds else None
        self.published(after)
        return replace(result, fold=folded) if folded else result

    def _show_published(self, tables: Sequence[StreamTable], beside: Sequence[str]) -> None:
        """Plain Spark does not see what was rebuilt before its group is published; refreshes had to see its columns."""
        own = {str(table.full_name) for table in tables}
        with suppress(FreshlakeError):  # it is looked at again after the next round
            others = {*beside}.union(*map(self.known().graph.inputs, own)) - own
            known = self.engine.catalog.stream_tables_by_id(table.id for table in tables)
            for table in (*known.values(), *map(self.engine.catalog.find, sorted(others))):
                if table is not None and 0 < table.published_generation < table.generation:
                    self.names.show(table)

    def skipped(self, table: StreamTable, reason: str, detail: str | None = None) -> RefreshResult:
        self.engine.catalog.skip_refresh(table.id, reason)
        return not_done(table, reason, detail)

    def fold(self, table: StreamTable) -> FoldResult | None:
        """Fold if it is due; the refresh stays whatever becomes of it, and it is due again after the next one."""
        try:
            return fold_if_due(self.engine, table)
        except FreshlakeError as error:
            _log.warning("fold of %s: %s", table.full_name.short, error.message)
            return FoldResult(str(table.full_name), 0, 0, 0.0, error=error.message)


def committed(table: StreamTable) -> Position:
    """Where a table stands, whether readers see it yet or not."""
    return position_of(table, table.generation, table.version)
