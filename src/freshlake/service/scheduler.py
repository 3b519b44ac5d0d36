"""The scheduler: looks at all stream tables in every tick and refreshes what is due, in threads of its own.

What a tick decides is a pure function (`schedule.tick`); this module gathers what it looks at and carries it out. All
units of a tick read one point in time. A table that is still being refreshed, here or elsewhere, is left to a later
tick, which covers the larger interval.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.catalog.watching import Looked
from freshlake.config import Settings
from freshlake.errors import RefreshInProgress
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine
from freshlake.refresh.result import RefreshResult
from freshlake.refresh.situation import BLOWN
from freshlake.schedule.expression import Schedule, parse_schedule
from freshlake.schedule.graph import Graph
from freshlake.schedule.state import Consistency, Limits, Policy, State, Tick, Tier, Unit, Watched
from freshlake.schedule.tick import tick
from freshlake.service.idle import Idleness
from freshlake.service.immediate import Immediate
from freshlake.service.rounds import Round, Rounds
from freshlake.service.sampler import Sampler

_log = logging.getLogger("freshlake.scheduler")

_REMEMBERED = 0.3
"""How much the newest refresh counts in what is typical."""


@dataclass
class _Batch:
    """The units of one tick on their way."""

    moment: Round
    units: tuple[Unit, ...]
    waiting: dict[int, set[int]]
    """Unit → units that must have ended before it."""
    failed: set[str] = field(default_factory=set)


class Scheduler:
    """One per process and lake; several processes may run one each, the leases of tables keep them apart."""

    def __init__(self, engine: Engine, rounds: Rounds, alerts: Alerts, immediate: Immediate, sampler: Sampler) -> None:
        self._engine, self._rounds, self._idleness = engine, rounds, Idleness(engine)
        self._alerts, self._immediate, self._sampler = alerts, immediate, sampler
        self._raised: dict[Event, set[str]] = {Event.STALE_DATA: set(), Event.FALLING_BEHIND: set()}
        self._graph: tuple[int, Graph, dict[str, tuple[Dependency, ...]], tuple[frozenset[str], ...]] | None = None
        self._lock = threading.Condition()
        self._busy: set[str] = set()
        self._overrun: set[str] = set()
        self._typical: dict[str, float] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self.results: Callable[[RefreshResult], None] = lambda result: None

    # Life ------------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to tick in the background; does nothing when it runs already."""
        if self.is_running:
            return
        settings = self._engine.settings
        self._stopping.clear()
        self._engine.catalog.register_daemon(settings.scheduler_interval_ms, workers(settings))
        self._pool = ThreadPoolExecutor(workers(settings), thread_name_prefix="freshlake-refresh")
        self._sampler.start()
        self._thread = threading.Thread(target=self._loop, name="freshlake-scheduler", daemon=True)
        self._thread.start()
        _log.info("started: %s at a time, a tick every %s ms", workers(settings), settings.scheduler_interval_ms)

    def stop(self, timeout: float | None = None) -> bool:
        """Start nothing new and wait for what runs; False if that took longer than the timeout."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
        drained = self.drain(timeout)
        drained = self._sampler.stop(timeout) and drained
        if self._pool is not None:
            self._pool.shutdown(wait=drained, cancel_futures=True)
            self._pool = None
            self._engine.catalog.end_daemon()
            _log.info("scheduler stopped")
        self._thread = None
        return drained

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._busy, timeout)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self.tick()
            except Exception:
                # whatever happened to one tick, the next one may be better: a scheduler must not end in silence
                _log.exception("a tick failed")
            rest = self._engine.settings.scheduler_interval_ms / 1000 - (time.monotonic() - began)
            self._wake.wait(max(rest, 0.0))
            self._wake.clear()

    # One tick --------------------------------------------------------------------------------------------------------

    def tick(self) -> Tick:
        """Look, decide, and hand what is due to the workers."""
        now = self._engine.clock.now()
        known, edges, declared = self._known()
        looked = self._engine.catalog.look()
        decided = tick(known, self._state(looked, declared, now), now)
        self._tell(decided)
        if decided.units:
            self._begin(decided.units, edges)
        with self._lock:
            is_idle = not self._busy
        self._sampler.consider(known, now, is_idle=is_idle)
        self._engine.catalog.beat_daemon(now)
        return decided

    def _known(self) -> tuple[Graph, dict[str, tuple[Dependency, ...]], tuple[frozenset[str], ...]]:
        """The graph, read again only when it changed."""
        version = self._engine.catalog.graph_version()
        if self._graph is None or self._graph[0] != version:
            catalog = self._engine.catalog
            names = {t.id: str(t.full_name) for t in catalog.stream_tables()}
            edges = {names[i]: e for i, e in catalog.all_dependencies().items() if i in names}
            declared = tuple(frozenset(map(str, group.members)) for group in catalog.groups())
            self._graph = (version, graph(catalog), edges, declared)
        return self._graph[1:]

    def _state(self, looked: Sequence[Looked], declared: tuple[frozenset[str], ...], now: datetime) -> State:
        settings = self._engine.settings
        limits = Limits(settings.min_schedule_seconds, settings.auto_backoff, settings.enabled)
        with self._lock:
            busy = set(self._busy)
        behind = self._behind(looked)
        watched = (self._watched(row, now, busy, behind) for row in looked)
        return State({table.name: table for table in watched}, declared, limits)

    def _behind(self, looked: Iterable[Looked]) -> set[int]:
        """Tables in mode IMMEDIATE whose sources somebody has written without Freshlake."""
        ids = [row.id for row in looked if row.refresh_mode is RefreshMode.IMMEDIATE]
        tables = self._engine.catalog.stream_tables_by_id(ids) if ids else {}
        return {table.id for table in tables.values() if self._immediate.is_behind(table)}

    def _watched(self, row: Looked, now: datetime, busy: set[str], behind: set[int]) -> Watched:
        name = row.full_name
        return Watched(
            name=name,
            schedule=_schedule(row.schedule),
            is_active=row.status is Status.ACTIVE and row.quarantined_at is None,
            is_quarantined=row.quarantined_at is not None,
            is_immediate=row.refresh_mode is RefreshMode.IMMEDIATE,
            tier=Tier(row.tier or Tier.HOT),
            data_timestamp=row.data_timestamp,
            is_leased=name in busy or row.is_leased(now),
            retry_at=row.retry_at,
            is_blown=row.fuse_state == BLOWN,
            is_wanted=row.id in behind,
            consistency=Consistency(row.diamond_consistency),
            policy=Policy(row.diamond_schedule_policy),
            typical_seconds=self._typical.get(name),
        )

    def _tell(self, decided: Tick) -> None:
        for skipped in decided.skipped:
            if skipped.table not in self._overrun:
                self._overrun.add(skipped.table)
                _log.info("%s is due and not refreshed: %s", skipped.table, skipped.detail or skipped.reason)
                table = self._engine.catalog.find(skipped.table)
                if table is not None:
                    self._engine.catalog.skip_refresh(table.id, skipped.reason)
        stale = {late.table: {"staleness_seconds": late.staleness_seconds} for late in decided.stale}
        behind = {late.table: {"duration_ms": 1000 * self._typical[late.table]} for late in decided.falling_behind}
        allowed = {late.table: late.schedule_seconds for late in (*decided.stale, *decided.falling_behind)}
        for event, tables in ((Event.STALE_DATA, stale), (Event.FALLING_BEHIND, behind)):
            told = {_short(t): {**payload, "schedule_seconds": allowed[t]} for t, payload in tables.items()}
            self._conditions(event, told)

    def _conditions(self, event: Event, now: Mapping[str, Mapping[str, float]]) -> None:
        """Sent when it begins to hold for a table, and again only after it has ended."""
        for table in self._raised[event] - now.keys():
            self._alerts.clear_condition(event, table)
        for table, payload in now.items():
            self._alerts.raise_condition(event, table, dict(payload))
        self._raised[event] = set(now)

    # Units -----------------------------------------------------------------------------------------------------------

    def _begin(self, units: tuple[Unit, ...], edges: dict[str, tuple[Dependency, ...]]) -> None:
        names = [name for unit in units for name in unit.tables]
        moment = self._rounds.begin(edge for name in names for edge in edges.get(name, ()))
        idle = self._idleness.idle(units, moment, edges)
        self._record_idle(idle, moment)
        waiting = {n: set(unit.after) - idle.keys() for n, unit in enumerate(units) if n not in idle}
        batch = _Batch(moment, units, waiting)
        self._overrun -= set(names)
        with self._lock:
            self._busy |= {name for number in waiting for name in units[number].tables}
        self._submit(batch)

    def _record_idle(self, idle: dict[int, list[StreamTable]], moment: Round) -> None:
        tables = [table for members in idle.values() for table in members]
        if tables and moment.at is not None:
            self._engine.catalog.record_idle(tables, moment.at)

    def _submit(self, batch: _Batch) -> None:
        """Hand over what waits for nothing, the most urgent first."""
        with self._lock:
            free = [number for number, after in batch.waiting.items() if not after]
            ready = sorted(free, key=lambda number: batch.units[number].priority)
            for number in ready:
                del batch.waiting[number]
        for number in ready:
            if self._pool is None:
                self._work(batch, number)
            else:
                self._pool.submit(self._work, batch, number)

    def _work(self, batch: _Batch, number: int) -> None:
        unit = batch.units[number]
        try:
            self._use_own_pool()
            self._refresh(batch, unit)
        except Exception:
            batch.failed |= set(unit.tables)
            _log.exception("the refresh of %s failed in a way that was not expected", ", ".join(unit.tables))
        finally:
            with self._lock:
                self._busy -= set(unit.tables)
                for after in batch.waiting.values():
                    after.discard(number)
                self._lock.notify_all()
            self._submit(batch)
            if self._pool is not None:
                self._wake.set()

    def _use_own_pool(self) -> None:
        """Jobs of this worker share the cores with those of others by Spark's FAIR scheduler, where it is on."""
        if self._pool is not None:
            context = self._engine.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)

    def _refresh(self, batch: _Batch, unit: Unit) -> None:
        known = self._known()[0]
        found = (self._engine.catalog.find(name) for name in unit.tables)
        tables = []
        for table in (t for t in found if t is not None):
            if blockers := known.upstream(str(table.full_name)) & batch.failed:
                self._rounds.skipped(table, "upstream-failed", ", ".join(sorted(blockers)))
                batch.failed.add(str(table.full_name))
            else:
                tables.append(table)
        if self._stopping.is_set() or not tables:
            return
        outcome = self._rounds.run(tables, batch.moment, retries=True)
        self._remember(outcome.results)
        batch.failed |= set(outcome.failed)
        really = [error for error in outcome.failed.values() if not isinstance(error, RefreshInProgress)]
        if really and len(unit.tables) > 1:
            failed = sorted(map(_short, outcome.failed))
            told = {"members": [_short(name) for name in unit.tables], "failed": failed}
            self._alerts.emit(Event.DIAMOND_PARTIAL_FAILURE, _short(unit.tables[-1]), **told)
        for result in outcome.results:
            self.results(result)

    def _remember(self, results: Iterable[RefreshResult]) -> None:
        for result in results:
            took = result.duration_ms / 1000
            before = self._typical.get(result.table, took)
            self._typical[result.table] = before + _REMEMBERED * (took - before)


def workers(settings: Settings) -> int:
    """How many refreshes run side by side."""
    return settings.max_concurrent_refreshes if settings.parallel_refresh_mode == "on" else 1


def _short(name: str) -> str:
    return TableName.parse(name).short


@lru_cache(maxsize=10_000)
def _schedule(text: str | None) -> Schedule:
    return parse_schedule(text)
