"""Conditions that a scheduler watches: tables that are stale or fall behind, and changes that pile up unread.

Those of source databases are watched beside the ticks: to count them here would be to read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import SourceType
from freshlake.catalog.idle import Standing
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency
from freshlake.refresh.engine import Engine
from freshlake.schedule.state import Tick
from freshlake.service.known import Dag
from freshlake.sources.protocol import Position

_log = logging.getLogger("freshlake.scheduler")

MOST_PENDING = 1_000_000
"""Changed rows of a source that wait for one table; more is told."""
_EVERY_SECONDS = 60.0

Payloads = Mapping[str, Mapping[str, object]]


def hold(alerts: Alerts, event: Event, before: set[str], now: Payloads) -> set[str]:
    """A condition is told when it begins to hold for a table, and again only after it has ended; for which it holds."""
    for table in before - now.keys():
        alerts.clear_condition(event, table)
    for table, payload in now.items():
        alerts.raise_condition(event, table, dict(payload))
    return {*now}


@dataclass
class Conditions:
    engine: Engine
    alerts: Alerts
    _raised: dict[Event, set[str]] = field(default_factory=dict)
    _looked_at: datetime | None = None
    _counted: dict[tuple[str, str], _Count] = field(default_factory=dict)

    def tell(self, decided: Tick, typical: Mapping[str, float]) -> None:
        """What a tick has found about schedules that are not kept."""
        stale = {late.table: {"staleness_seconds": late.staleness_seconds} for late in decided.stale}
        behind = {late.table: {"duration_ms": 1000 * typical[late.table]} for late in decided.falling_behind}
        allowed = {late.table: late.schedule_seconds for late in (*decided.stale, *decided.falling_behind)}
        for event, tables in ((Event.STALE_DATA, stale), (Event.FALLING_BEHIND, behind)):
            self._hold(event, {t: {**payload, "schedule_seconds": allowed[t]} for t, payload in tables.items()})

    def watch_pending(self, dag: Dag, now: datetime) -> None:
        """Once a minute: sources of which very many changes wait. Looks at the tables of each that stand still."""
        if self._looked_at is not None and 0 <= (now - self._looked_at).total_seconds() < _EVERY_SECONDS:
            return
        self._looked_at = now
        self._hold(Event.BUFFER_GROWTH_WARNING, dict(self._piled_up(dag)))

    def _hold(self, event: Event, now: Payloads) -> None:
        named = {TableName.parse(name).short: payload for name, payload in now.items()}
        self._raised[event] = hold(self.alerts, event, self._raised.get(event, set()), named)

    def _piled_up(self, dag: Dag) -> Iterator[tuple[str, Mapping[str, object]]]:
        standings = self.engine.catalog.standings()
        loaded = {n: standings[i] for n, i in dag.ids.items() if i in standings and standings[i].frontier is not None}
        edges = {n: [e for e in dag.edges[n] if e.source_type is not SourceType.POSTGRES] for n in loaded}
        heads = self.engine.pinned([edge for own in edges.values() for edge in own], {})
        self._counted = {key: count for key, count in self._counted.items() if key[0] in loaded}
        for name, table in loaded.items():
            counts = {e.source_name: self._pending(name, table, e, heads) for e in edges[name]}
            source, rows = max(counts.items(), key=lambda item: item[1], default=("", 0))
            if rows > MOST_PENDING:
                yield name, {"source": source, "pending_rows": rows, "limit": MOST_PENDING}

    def _pending(self, name: str, table: Standing, edge: Dependency, heads: Mapping[str, Position]) -> int:
        """Changed rows between where a table stands and where its source is; 0 when that cannot be told."""
        known, end = (table.frontier or {}).get("sources", {}).get(edge.source_key), heads.get(edge.source_key)
        if known is None or end is None or known == end.to_json():
            return 0
        start, key = Position.from_json(known), (name, edge.source_key)
        count = self._counted.get(key)
        if count is None or count.start != start:
            count = _Count(start, start, 0)
        try:
            # what was counted a minute ago is not counted again
            more = self.engine.source(edge).triage(count.end, end).rows if count.end != end else 0
        except Exception as error:  # also one that was not foreseen ends nothing but this count
            _log.debug("changes of %s that wait for %s cannot be counted: %s", edge.source_name, name, error)
            # perhaps not from there any more: the next time all are counted
            self._counted.pop(key, None)
            return 0
        count = self._counted[key] = _Count(start, end, count.rows + (more or 0))
        return count.rows


@dataclass(frozen=True)
class _Count:
    start: Position
    end: Position
    rows: int
