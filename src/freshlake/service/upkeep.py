"""What is done now and then: folders of dropped tables, and for source databases removals, transitions, long buffers,
DDL guards and late deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Thread

from freshlake.service.captures import Captures
from freshlake.service.compacting import Compacting
from freshlake.service.deliveries import Deliveries
from freshlake.service.sweeping import Sweeping
from freshlake.service.transitions import Transitions

_NEVER = datetime.min.replace(tzinfo=UTC)
_INTERVAL = timedelta(minutes=1)
_CLOSING_SECONDS = 5.0


@dataclass
class Upkeep:
    captures: Captures
    transitions: Transitions
    compacting: Compacting
    deliveries: Deliveries
    sweeping: Sweeping
    _last: datetime = _NEVER
    _thread: Thread | None = None

    def tick(self, now: datetime) -> None:
        """Once a minute, in a thread of its own: a database may take its time to not answer."""
        if now < self._last + _INTERVAL or (self._thread is not None and self._thread.is_alive()):
            return
        self._last = now
        catalog = self.captures.engine.catalog
        if catalog.removals() or catalog.databases() or self.sweeping.is_due():
            self._thread = Thread(target=self.run, args=(now,), name="freshlake-upkeep", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait a moment for what is under way; a database that does not answer is not waited for."""
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)

    def run(self, now: datetime) -> None:
        """All of it, at once."""
        self.sweeping.sweep()
        self.captures.retry_removals()
        self.transitions.consider(now)
        self.compacting.consider()
        for database in self.captures.engine.catalog.databases():
            self.captures.guard(database.name)
        self.deliveries.bring_late()
