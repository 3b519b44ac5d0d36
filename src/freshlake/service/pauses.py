"""Pauses: a table whose failure left no moment in the catalog before which it is not tried again waits all the same.

The catalog may not have answered, or what failed was not the refresh of the table alone. Only this process knows.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshlake.catalog.enums import Status
from freshlake.catalog.records import StreamTable
from freshlake.catalog.store import Catalog
from freshlake.clock import Clock
from freshlake.errors import FreshlakeError
from freshlake.refresh.situation import BLOWN

_LONGEST_SECONDS = 60


@dataclass(frozen=True)
class _Pause:
    failures: int
    until: datetime


@dataclass
class Pauses:
    catalog: Catalog
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, _Pause] = field(default_factory=dict)

    def until(self) -> dict[str, datetime]:
        """The moments before which tables are not tried again."""
        with self._lock:
            return {name: pause.until for name, pause in self._known.items()}

    def ended(self, well: Iterable[str], failed: Collection[str]) -> None:
        """One second for what failed and has nothing to wait for, then twice as long each time, up to a minute."""
        now = self.clock.now()
        unpaused = set(failed) - self._waiting(failed, now) if failed else set()
        with self._lock:
            for name in well:
                self._known.pop(name, None)
            for name in unpaused:
                failures = self._known[name].failures if name in self._known else 0
                seconds = min(_LONGEST_SECONDS, 2**failures)
                self._known[name] = _Pause(failures + 1, now + timedelta(seconds=seconds))

    def _waiting(self, names: Iterable[str], now: datetime) -> set[str]:
        try:
            found = [self.catalog.find(name) for name in names]
        except FreshlakeError:
            return set()
        return {str(table.full_name) for table in found if table is not None and _waits(table, now)}


def _waits(table: StreamTable, now: datetime) -> bool:
    rests = table.shown_status is not Status.ACTIVE or table.fuse_state == BLOWN
    return rests or (table.retry_at is not None and table.retry_at > now)
