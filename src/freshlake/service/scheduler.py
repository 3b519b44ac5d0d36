"""The scheduler: looks at all stream tables in every tick and refreshes what is due, in threads of its own.

What a tick decides is a pure function (`schedule.tick`); this module gathers what it looks at and carries it out. All
units of a tick read one point in time. A table that is still being refreshed, here or elsewhere, is left to a later
tick, which covers the larger interval.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.names import TableName
from freshlake.catalog.owner import describe
from freshlake.catalog.watching import Looked
from freshlake.config import DEFAULT, Settings
from freshlake.refresh.engine import Engine
from freshlake.refresh.result import RefreshResult
from freshlake.schedule.quota import Claim, allowance
from freshlake.schedule.state import State, Tick
from freshlake.schedule.tick import tick
from freshlake.service.batches import Batches
from freshlake.service.conditions import Conditions
from freshlake.service.idle import Idleness
from freshlake.service.known import Dag, Known
from freshlake.service.pruning import Pruning
from freshlake.service.rounds import Rounds
from freshlake.service.sampler import Sampler
from freshlake.service.watched import limits, watched
from freshlake.service.workers import Workers
from freshlake.version import VERSION

_log = logging.getLogger("freshlake.scheduler")
_TOLD = 200
"""Most jobs that the catalog is told of."""


class Scheduler:
    """One per process and lake; several processes may run one each, the leases of tables keep them apart."""

    def __init__(self, engine: Engine, rounds: Rounds, alerts: Alerts, sampler: Sampler) -> None:
        self._engine, self._alerts, self._idleness, self._sampler = engine, alerts, Idleness(engine), sampler
        self._known = Known(engine.catalog)
        self._workers = Workers(engine.clock)
        self._wake = threading.Event()
        self._batches = Batches(engine, rounds, self._idleness, self._workers, self.wake)
        self._conditions, self._pruning = Conditions(engine, alerts), Pruning(engine)
        self._overrun: set[str] = set()
        self._thread: threading.Thread | None = None
        self._beaten: dict[str, object] = {}
        self.tidy: Callable[[datetime], None] = lambda now: None
        """Told of every tick: what is to be tried again now and then, beside refreshes."""

    def told(self, told: Callable[[RefreshResult], None]) -> None:
        """Tell every result."""
        self._batches.told = told

    # Life ------------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to tick in the background; does nothing when it runs already."""
        if self.is_running:
            return
        settings = self._engine.settings
        self._batches.stopping.clear()
        self._check_slots(settings)
        self._register()
        self._check_others()
        self._workers.start()
        self._sampler.start()
        self._thread = threading.Thread(target=self._loop, name="freshlake-scheduler", daemon=True)
        self._thread.start()
        told = (self._engine.layout.lake, workers(settings), settings.scheduler_interval_ms)
        _log.info("scheduler of %s started: %s at a time, a tick every %s ms", *told)

    def _check_slots(self, settings: Settings) -> None:
        """Said to who chose the number; the default is small enough to do no harm."""
        if settings.origin("max_concurrent_refreshes") == DEFAULT:
            return
        slots = self._engine.spark.sparkContext.defaultParallelism
        if workers(settings) > slots:
            _log.warning(
                "max_concurrent_refreshes is %s, but Spark runs %s tasks at a time: refreshes will wait for each other",
                workers(settings),
                slots,
            )

    def _check_others(self) -> None:
        for daemon in self._engine.catalog.live_daemons():
            if daemon.version not in (None, VERSION):
                told = (describe(daemon.owner), daemon.version, VERSION)
                _log.warning("%s keeps this lake fresh with Freshlake %s, this is %s: use one version", *told)

    def _register(self) -> None:
        settings = self._engine.settings
        self._engine.catalog.register_daemon(settings.scheduler_interval_ms, workers(settings), settings.worker_quota)
        self._beaten = {}

    def stop(self, timeout: float | None = None) -> bool:
        """Start nothing new and wait for what runs; False if that took longer than the timeout."""
        until = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if until is None else max(0.0, until - time.monotonic())

        self._batches.stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join(left())
        drained = self._workers.drain(left())
        drained = self._sampler.stop(left()) and drained
        if self._workers.has_threads:
            self._workers.close(wait=drained)
            self._engine.catalog.end_daemon([job.to_json() for job in self._workers.jobs()[:_TOLD]])
            _log.info("scheduler of %s stopped", self._engine.layout.lake)
        self._thread = None
        return drained

    def wake(self) -> None:
        """Let the next tick come now."""
        self._wake.set()

    def _loop(self) -> None:
        while not self._batches.stopping.is_set():
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
        # before anything that may take long, such as a source that does not answer: others would take this one for dead
        self._beat(now)
        dag = self._known.current()
        looked = self._engine.catalog.look()
        alive = self._engine.catalog.shared_now()
        left = frozenset(row.full_name for row in looked if row.is_left(alive))
        self._take_over(looked)
        decided = tick(dag.graph, self._state(looked, dag, left, now, alive), now)
        self._tell_of_skipped(decided)
        self._conditions.tell(decided, self._batches.typical)
        self._workers.go(self._room())
        if decided.units:
            self._overrun -= {name for unit in decided.units for name in unit.tables}
            self._batches.begin(decided.units, dag, left)
        self._beat(now, only_news=True)
        self._conditions.watch_pending(dag, now)
        self._pruning.consider(now)
        self._sampler.consider(dag.graph, now, is_idle=not self._batches.busy)
        self.tidy(now)
        return decided

    def _take_over(self, looked: Sequence[Looked]) -> None:
        """Say that another daemon is gone; what it left is due at once, and refreshing that cleans up after it."""
        catalog = self._engine.catalog
        for gone in catalog.forget_gone_daemons(self._engine.settings.silent_daemon_seconds):
            tables = sorted(TableName.parse(row.full_name).short for row in looked if row.owner == gone.owner)
            who = {"owner": describe(catalog.owner), "previous_owner": describe(gone.owner)}
            self._alerts.emit(Event.DAEMON_TOOK_OVER, None, **who, last_heard_of=gone.heartbeat_at, tables=tables)
            catalog.fail_interrupted()

    def _state(self, looked: Sequence[Looked], dag: Dag, left: frozenset[str], now: datetime, alive: datetime) -> State:
        immediate = [row.full_name for row in looked if row.refresh_mode is RefreshMode.IMMEDIATE]
        behind = left | (self._idleness.behind(immediate, dag) if immediate else set())
        batches, paused = self._batches, self._batches.pauses.until()
        see = partial(watched, alive=alive, busy=batches.busy, behind=behind, typical=batches.typical, paused=paused)
        tables = {row.full_name: see(row, now) for row in looked}
        return State(tables, dag.declared, limits(self._engine.settings))

    def _tell_of_skipped(self, decided: Tick) -> None:
        for skipped in decided.skipped:
            if skipped.table not in self._overrun:
                self._overrun.add(skipped.table)
                _log.info("%s is due and not refreshed: %s", skipped.table, skipped.detail or skipped.reason)
                table = self._engine.catalog.find(skipped.table)
                if table is not None:
                    self._engine.catalog.skip_refresh(table.id, skipped.reason)

    # Sharing ---------------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many refreshes may run here, after what others run and would like to run."""
        settings = self._engine.settings
        most = workers(settings)
        return min(most, self._allowance(settings)) if settings.max_dynamic_refresh_workers else most

    def _allowance(self, settings: Settings) -> int:
        catalog, (running, waiting) = self._engine.catalog, self._workers.load
        claims: dict[str, dict[str, Claim]] = {"": {}}
        for load in catalog.loads():
            claims.setdefault(load.lake, {})[load.owner] = Claim(load.running, load.waiting, load.quota)
        claims[""][catalog.owner] = Claim(running, waiting, settings.worker_quota)
        return allowance("", catalog.owner, claims, settings.max_dynamic_refresh_workers)

    def _beat(self, now: datetime, *, only_news: bool = False) -> None:
        """Say what runs here."""
        settings, (running, waiting) = self._engine.settings, self._workers.load
        facts: dict[str, object] = {
            "interval_ms": settings.scheduler_interval_ms,
            "workers": self._workers.room,
            "running": running,
            "waiting": waiting,
            "quota": settings.worker_quota,
            "jobs": tuple(job.to_json() for job in self._workers.jobs()[:_TOLD]),
        }
        changed = {name: value for name, value in facts.items() if self._beaten.get(name) != value}
        if only_news and not changed:
            return
        known = self._engine.catalog.beat_daemon(now, **changed)
        self._beaten = facts
        if not known and self.is_running:
            # others took this process for dead, while it was stopped
            self._register()


def workers(settings: Settings) -> int:
    """How many refreshes run side by side, if nobody else needs workers."""
    return settings.max_concurrent_refreshes if settings.parallel_refresh_mode == "on" else 1
