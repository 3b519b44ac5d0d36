"""Reads of cold and frozen stream tables: a read asks for a refresh and waits for it, but not for long.

Only what users read through Freshlake is a read: refreshes and verifications take rows from storage themselves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from freshlake.catalog.enums import RefreshMode, RefreshStatus, Status
from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.refresh.roots import from_json
from freshlake.refresh.situation import BLOWN
from freshlake.schedule.expression import Calculated, Every, parse_schedule
from freshlake.schedule.hindrance import RUNNING
from freshlake.schedule.state import Tier
from freshlake.schedule.tiers import Declared, tier_of, with_reads
from freshlake.service.rounds import Rounds
from freshlake.service.scheduler import Scheduler

_log = logging.getLogger("freshlake")
_POLL_SECONDS = 0.05
_FLUSH_SECONDS = 10.0


@dataclass
class OnDemand:
    engine: Engine
    rounds: Rounds
    scheduler: Scheduler
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reads: Counter[int] = field(default_factory=Counter)
    _flushed: float = 0.0
    _refreshing: dict[int, threading.Thread] = field(default_factory=dict)

    def read(self, table: StreamTable) -> StreamTable:
        """The table as it is to be read: refreshed first, if its schedule says so and nobody has done it."""
        if table.tier == Declared.AUTO:
            self._count(table)
        if not self._is_on_demand(table) or not self._is_due(table) or not self._has_moved(table):
            return table
        asked = self.engine.catalog.want(table.id)
        return self._awaited(table, asked, self._begun(table))

    def close(self) -> None:
        """Write down what was read, and wait for refreshes that reads began."""
        self._flush()
        with self._lock:
            running = list(self._refreshing.values())
        for thread in running:
            thread.join()

    # Reads -----------------------------------------------------------------------------------------------------------

    def _count(self, table: StreamTable) -> None:
        with self._lock:
            self._reads[table.id] += 1
            is_time = time.monotonic() - self._flushed >= _FLUSH_SECONDS
        if is_time:
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            counts, self._reads = self._reads, Counter()
            self._flushed = time.monotonic()
        if counts:
            self.engine.catalog.add_reads(counts, with_reads)

    # Whether ---------------------------------------------------------------------------------------------------------

    def _is_on_demand(self, table: StreamTable) -> bool:
        if table.tier in (None, Declared.HOT, Declared.WARM) or table.refresh_mode is RefreshMode.IMMEDIATE:
            return False
        if table.shown_status not in (Status.ACTIVE, Status.INITIALIZING) or table.fuse_state == BLOWN:
            return False
        known = self.engine.catalog.readership(table.id)
        last, now = known.last_read_at or table.created_at, self.engine.clock.now()
        return tier_of(table.tier, known.reads_per_minute, last, now) in (Tier.COLD, Tier.FROZEN)

    def _is_due(self, table: StreamTable) -> bool:
        """Being read makes it no fresher than its schedule asks for."""
        now = self.engine.clock.now()
        if table.data_timestamp is None:
            return True
        if table.retry_at is not None and table.retry_at > now:
            return False
        schedule = parse_schedule(table.schedule)
        if isinstance(schedule, Calculated):
            schedule = Every(self.engine.settings.min_schedule_seconds)
        return schedule.next_after(table.data_timestamp) <= now

    def _has_moved(self, table: StreamTable) -> bool:
        """Whether a plain table behind all that it reads has changed; no Spark job."""
        known = from_json(table.frontier)
        if known is None:
            return True
        pending, seen, edges = [table.id], {table.id}, []
        while pending:
            for edge in self.engine.catalog.dependencies(pending.pop()):
                edges.append(edge)
                if edge.stream_table_id is not None and edge.stream_table_id not in seen:
                    seen.add(edge.stream_table_id)
                    pending.append(edge.stream_table_id)
        return self.engine.pinned(edges) != known

    # Refreshing ------------------------------------------------------------------------------------------------------

    def _begun(self, table: StreamTable) -> threading.Thread | None:
        """Have it refreshed by this process's scheduler, by a daemon, or, where there is none, by a thread."""
        if table.is_populated:  # schedulers do not load what was never loaded
            if self.scheduler.is_running and self.engine.settings.enabled:
                self.scheduler.wake()
                return None
            if self.engine.catalog.live_daemons():
                return None
        with self._lock:
            if table.id not in self._refreshing:
                thread = threading.Thread(target=self._refresh, args=(table,), name="freshlake-read", daemon=True)
                self._refreshing[table.id] = thread
                thread.start()
            return self._refreshing[table.id]

    def _refresh(self, table: StreamTable) -> None:
        try:
            self.rounds.refresh(table, None)
        except FreshlakeError as error:
            _log.warning("%s could not be refreshed for a read: %s", table.full_name.short, error.message)
        finally:
            with self._lock:
                del self._refreshing[table.id]

    def _awaited(self, before: StreamTable, asked: datetime, thread: threading.Thread | None) -> StreamTable:
        seconds = self.engine.settings.lazy_refresh_timeout
        until = time.monotonic() + seconds
        while True:
            # looked at before the table itself, which may be refreshed in between
            is_late = time.monotonic() >= until
            why = self._failure(before, asked) if thread is None else _ended(thread)
            table = self.engine.catalog.get_by_id(before.id)
            published = (table.published_generation, table.published_version) == (table.generation, table.version)
            if table.data_timestamp is not None and table.data_timestamp >= asked and published:
                return table
            if why is not None or is_late:
                why = why or f"its refresh takes longer than {seconds:g} s"
                _log.warning("%s is read as of %s: %s", table.full_name.short, table.data_timestamp, why)
                return table
            time.sleep(_POLL_SECONDS)

    def _failure(self, table: StreamTable, asked: datetime) -> str | None:
        """Why waiting for a daemon has no sense any more."""
        newest = next(iter(self.engine.catalog.history(table.id, 1)), None)
        if newest is None or newest.start_time < asked:
            return None
        if newest.status is RefreshStatus.FAILED:
            return f"its refresh failed: {newest.error_code}"
        held_back = newest.status is RefreshStatus.SKIPPED and newest.fallback_reason != RUNNING
        return f"its refresh was skipped: {newest.fallback_reason}" if held_back else None


def _ended(thread: threading.Thread) -> str | None:
    return None if thread.is_alive() else "its refresh failed"
