"""What is done now and then: folders of dropped tables, and for source databases removals, transitions, long buffers,
DDL guards, late deliveries, slots and changes that pile up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread

from freshlake.service.buffer_watch import BufferWatch
from freshlake.service.captures import Captures
from freshlake.service.compacting import Compacting
from freshlake.service.deliveries import Deliveries
from freshlake.service.slot_watch import SlotWatch
from freshlake.service.sweeping import Sweeping
from freshlake.service.transitions import Transitions

_log = logging.getLogger("freshlake")

_NEVER = datetime.min.replace(tzinfo=UTC)
_INTERVAL = timedelta(minutes=1)
_CLOSING_SECONDS = 5.0


@dataclass
class Upkeep:
    captures: Captures
    transitions: Transitions
    compacting: Compacting
    deliveries: Deliveries
    slots: SlotWatch
    buffers: BufferWatch
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
        """All of it, at once; what goes wrong with one task is not the others'."""
        tasks: tuple[Callable[[], None], ...] = (
            self.sweeping.sweep,
            self.captures.removals.retry,
            partial(self.transitions.consider, now),
            self.compacting.consider,
            self._guard,
            self.deliveries.bring_late,
            self.slots.consider,
            self.buffers.consider,
        )
        for task in tasks:
            try:
                task()
            except Exception:
                _log.exception("a part of the upkeep failed, and is tried again in a minute")

    def _guard(self) -> None:
        for database in self.captures.engine.catalog.databases():
            self.captures.guard(database.name)
