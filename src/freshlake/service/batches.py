"""Batches: the units of a tick on their way, each begun when those before it have ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from freshlake.catalog.enums import Action
from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable, database_key
from freshlake.errors import InternalError
from freshlake.refresh.engine import Engine
from freshlake.refresh.failing import ELSEWHERE
from freshlake.refresh.result import RefreshResult
from freshlake.refresh.roots import from_json, is_past
from freshlake.schedule.state import Unit
from freshlake.service.away import Away
from freshlake.service.idle import Idleness
from freshlake.service.known import Dag
from freshlake.service.moment import Round
from freshlake.service.outcome import Outcome
from freshlake.service.pauses import Pauses
from freshlake.service.rounds import UPSTREAM_FAILED, Rounds
from freshlake.service.workers import Workers

_log = logging.getLogger("freshlake.scheduler")
_STOPPED = "the scheduler was stopped before its turn"
_REMEMBERED = 0.3
"""How much the newest refresh counts in what is typical."""


@dataclass
class _Batch:
    """The units of one tick."""

    moment: Round
    units: tuple[Unit, ...]
    waiting: dict[int, set[int]]
    """Unit → units that must have ended before it."""


@dataclass
class Batches:
    engine: Engine
    rounds: Rounds
    idleness: Idleness
    workers: Workers
    free: Callable[[], None]
    """Told when a unit has gone well and no other waits: a table may be due that was not looked at since."""
    told: Callable[[RefreshResult], None] = lambda result: None
    """Told every result."""
    stopping: threading.Event = field(default_factory=threading.Event)
    typical: dict[str, float] = field(default_factory=dict)
    """How many seconds refreshes of a table took lately."""
    pauses: Pauses = field(init=False)
    away: Away = field(default_factory=Away)
    """Pinned where their mirrors are refreshed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: dict[str, datetime | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pauses = Pauses(self.engine.catalog, self.engine.clock)

    @property
    def busy(self) -> dict[str, datetime | None]:
        """Tables that are being refreshed or wait for that, and since when."""
        with self._lock:
            return dict(self._busy)

    def begin(self, units: tuple[Unit, ...], dag: Dag, left: frozenset[str] = frozenset()) -> None:
        """Pin the sources, record at once what has nothing to do, and hand over the rest; `left` by dead workers."""
        names = [name for unit in units for name in unit.tables]
        edges = [edge for name in names for edge in dag.edges.get(name, ())]
        moment = self.rounds.begin(self.away.without(edges))
        self.away.note(edges, moment.unreachable)
        idle = self.idleness.idle(units, moment, dag, left)
        if idle and moment.at is not None:
            self.engine.catalog.record_idle((table for tables in idle.values() for table in tables), moment.at)
        waiting = {n: set(unit.after) - idle.keys() for n, unit in enumerate(units) if n not in idle}
        with self._lock:
            self._busy |= {name: moment.at for number in waiting for name in units[number].tables}
        self._ask(_Batch(moment, units, waiting))
        self.workers.go()

    def _ask(self, batch: _Batch) -> None:
        """Ask for what waits for nothing more."""
        with self._lock:
            ready = [number for number, after in batch.waiting.items() if not after]
            for number in ready:
                del batch.waiting[number]
        for number in ready:
            unit = batch.units[number]
            self.workers.ask(unit.tables, unit.priority, partial(self._work, batch, number))

    def _work(self, batch: _Batch, number: int) -> str | None:
        unit, well = batch.units[number], False
        try:
            self._use_own_pool()
            if self.stopping.is_set():
                return _STOPPED
            outcome = self._refresh(batch, unit)
            well = not outcome.failed and all(result.action is not Action.SKIPPED for result in outcome.results)
            return "; ".join(f"{TableName.parse(n).short}: {e.message}" for n, e in outcome.failed.items()) or None
        except Exception as error:
            failure = InternalError("the refresh failed in a way that was not expected", detail=str(error))
            batch.moment.failed.update(dict.fromkeys(unit.tables, failure))
            self.pauses.ended((), unit.tables)
            _log.exception("the refresh of %s failed in a way that was not expected", ", ".join(unit.tables))
            return str(failure)
        finally:
            with self._lock:
                for name in unit.tables:
                    self._busy.pop(name, None)
                for after in batch.waiting.values():
                    after.discard(number)
            self._ask(batch)
            # what failed is not due before the next tick
            if well and not self.workers.load[1]:
                self.free()

    def _use_own_pool(self) -> None:
        """Jobs of this worker share the cores with those of others by Spark's FAIR scheduler, where it is on."""
        if self.workers.has_threads:
            context = self.engine.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)

    def _refresh(self, batch: _Batch, unit: Unit) -> Outcome:
        tables = [t for t in map(self.engine.catalog.find, unit.tables) if t is not None]
        if all(_is_done(table, batch.moment) for table in tables):
            return Outcome()
        outcome = self.rounds.run(tables, batch.moment, retries=True, publishes=unit.publishes, beside=unit.beside)
        self.pauses.ended(set(unit.tables) - outcome.failed.keys(), _own_failures(outcome))
        for table in tables:
            if table.full_name.database and table.is_mirror and str(table.full_name) not in outcome.failed:
                self.away.back(database_key(table.full_name.database))
        self._remember(outcome.results)
        for result in outcome.results:
            self.told(result)
        return outcome

    def _remember(self, results: Iterable[RefreshResult]) -> None:
        for result in (r for r in results if r.action is not Action.SKIPPED):
            took = result.duration_ms / 1000
            before = self.typical.get(result.table, took)
            self.typical[result.table] = before + _REMEMBERED * (took - before)


def _own_failures(outcome: Outcome) -> set[str]:
    """Tables that failed themselves, not because of others or in other hands."""
    failed = {name for name, error in outcome.failed.items() if not isinstance(error, ELSEWHERE)}
    return failed - {result.table for result in outcome.results if result.reason == UPSTREAM_FAILED}


def _is_done(table: StreamTable, moment: Round) -> bool:
    """Whether another process has brought a table this far in the meantime, and readers see it."""
    shown, at = from_json(table.frontier), table.data_timestamp
    if shown is None or at is None or moment.at is None or at < moment.at:
        return False
    return table.is_published and is_past(shown, moment.pins)
