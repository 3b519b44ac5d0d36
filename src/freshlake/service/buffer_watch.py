"""Buffers of triggers in which very many changes wait, counted where they are: nothing is read for it.

Of a database that is captured from its log the slot tells how much waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from freshlake.alerts import Alerts, Event
from freshlake.errors import FreshlakeError
from freshlake.service.captures import Captures
from freshlake.service.conditions import MOST_PENDING, Payloads, hold
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.trigger.buffers import lengths

_log = logging.getLogger("freshlake")


@dataclass
class BufferWatch:
    captures: Captures
    alerts: Alerts
    _raised: dict[str, set[str]] = field(default_factory=dict)

    def consider(self) -> None:
        """Look at all databases; told when it begins, and again only after it has ended."""
        names = [record.name for record in self.captures.engine.catalog.databases()]
        for gone in self._raised.keys() - {*names}:
            del self._raised[gone]
        for name in names:
            try:
                now = _long(self.captures.database(name), name)
                event, before = Event.BUFFER_GROWTH_WARNING, self._raised.get(name, set())
                self._raised[name] = hold(self.alerts, event, before, now)
            except FreshlakeError as error:
                _log.debug("changes of source %s that wait cannot be counted: %s", name, error.message)


def _long(database: CapturedDatabase, source: str) -> Payloads:
    """The mirrors for which so many changes wait, and how many."""
    if database.state().mode is not Mode.TRIGGER or not (mirrored := database.mirrored()):
        return {}
    with database.pool.take() as connection:
        rows = lengths(connection, database.names, MOST_PENDING)
    long = {m.mirror.full_name.short: rows[m.captured.oid] for m in mirrored if m.captured.oid in rows}
    return {t: {"source": source, "pending_rows": count, "limit": MOST_PENDING} for t, count in long.items()}
