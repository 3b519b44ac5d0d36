"""Batches: the units of a tick on their way, each begun when those before it have ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import Action
from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.errors import InternalError
from freshlake.refresh.engine import Engine
from freshlake.refresh.result import RefreshResult
from freshlake.refresh.roots import from_json, is_past
from freshlake.schedule.state import Unit
from freshlake.service.idle import Idleness
from freshlake.service.known import Dag
from freshlake.service.moment import Round
from freshlake.service.outcome import Outcome
from freshlake.service.rounds import ELSEWHERE, Rounds
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
    alerts: Alerts
    idleness: Idleness
    workers: Workers
    free: Callable[[], None]
    """Told when a unit has ended and no other waits: a table may be due that was not looked at since."""
    told: Callable[[RefreshResult], None] = lambda result: None
    """Told every result."""
    stopping: threading.Event = field(default_factory=threading.Event)
    typical: dict[str, float] = field(default_factory=dict)
    """How many seconds refreshes of a table took lately."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: dict[str, datetime | None] = field(default_factory=dict)

    @property
    def busy(self) -> dict[str, datetime | None]:
        """Tables that are being refreshed or wait for that, and since when."""
        with self._lock:
            return dict(self._busy)

    def begin(self, units: tuple[Unit, ...], dag: Dag, left: frozenset[str] = frozenset()) -> None:
        """Pin the sources, record at once what has nothing to do, and hand over the rest; `left` by dead workers."""
        names = [name for unit in units for name in unit.tables]
        moment = self.rounds.begin(edge for name in names for edge in dag.edges.get(name, ()))
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
        unit = batch.units[number]
        try:
            self._use_own_pool()
            return self._refresh(batch, unit)
        except Exception as error:
            failure = InternalError("the refresh failed in a way that was not expected", detail=str(error))
            batch.moment.failed.update(dict.fromkeys(unit.tables, failure))
            _log.exception("the refresh of %s failed in a way that was not expected", ", ".join(unit.tables))
            return str(failure)
        finally:
            with self._lock:
                for name in unit.tables:
                    self._busy.pop(name, None)
                for after in batch.waiting.values():
                    after.discard(number)
            self._ask(batch)
            if not self.workers.load[1]:
                self.free()

    def _use_own_pool(self) -> None:
        """Jobs of this worker share the cores with those of others by Spark's FAIR scheduler, where it is on."""
        if self.workers.has_threads:
            context = self.engine.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)

    def _refresh(self, batch: _Batch, unit: Unit) -> str | None:
        tables = [t for t in map(self.engine.catalog.find, unit.tables) if t is not None]
        if self.stopping.is_set():
            return _STOPPED
        if all(_is_done(table, batch.moment) for table in tables):
            return None
        outcome = self.rounds.run(tables, batch.moment, retries=True, publishes=unit.publishes, beside=unit.beside)
        self._remember(outcome.results)
        self._tell(unit, outcome)
        for result in outcome.results:
            self.told(result)
        return "; ".join(f"{TableName.parse(name).short}: {e.message}" for name, e in outcome.failed.items()) or None

    def _tell(self, unit: Unit, outcome: Outcome) -> None:
        really = [error for error in outcome.failed.values() if not isinstance(error, ELSEWHERE)]
        if really and len(unit.tables) > 1:
            members, failed = ([TableName.parse(name).short for name in of] for of in (unit.tables, outcome.failed))
            self.alerts.emit(Event.DIAMOND_PARTIAL_FAILURE, members[-1], members=members, failed=sorted(failed))

    def _remember(self, results: Iterable[RefreshResult]) -> None:
        for result in (r for r in results if r.action is not Action.SKIPPED):
            took = result.duration_ms / 1000
            before = self.typical.get(result.table, took)
            self.typical[result.table] = before + _REMEMBERED * (took - before)


def _is_done(table: StreamTable, moment: Round) -> bool:
    """Whether another process has brought a table this far in the meantime, and readers see it."""
    shown, at = from_json(table.frontier), table.data_timestamp
    if shown is None or at is None or moment.at is None or at < moment.at:
        return False
    return table.is_published and is_past(shown, moment.pins)
