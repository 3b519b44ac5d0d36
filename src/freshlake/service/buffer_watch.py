"""Buffers of triggers in which very many changes wait, counted where they are: nothing is read for it.

Of a database that is captured from its log the slot tells how much waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from freshlake.alerts import Alerts, Event
from freshlake.errors import FreshlakeError
from freshlake.service.captures import Captures
from freshlake.service.conditions import MOST_PENDING
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
                self._hold(name, _long(self.captures.database(name)))
            except FreshlakeError as error:
                _log.debug("changes of source %s that wait cannot be counted: %s", name, error.message)

    def _hold(self, source: str, long: dict[str, int]) -> None:
        event = Event.BUFFER_GROWTH_WARNING
        for table in self._raised.get(source, set()) - long.keys():
            self.alerts.clear_condition(event, table)
        for table, rows in long.items():
            self.alerts.raise_condition(event, table, {"source": source, "pending_rows": rows, "limit": MOST_PENDING})
        self._raised[source] = {*long}


def _long(database: CapturedDatabase) -> dict[str, int]:
    """The mirrors for which so many changes wait."""
    if database.state().mode is not Mode.TRIGGER or not (mirrored := database.mirrored()):
        return {}
    with database.pool.take() as connection:
        rows = lengths(connection, database.names, MOST_PENDING)
    return {m.mirror.full_name.short: rows[m.captured.oid] for m in mirrored if m.captured.oid in rows}
