"""Pruning: a scheduler lets the catalog forget old refreshes and states, once an hour and in portions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshlake.catalog.retention import PORTION
from freshlake.refresh.engine import Engine
from freshlake.refresh.forgetting import forget_states

_EVERY = timedelta(hours=1)
_TABLES = 5
"""So many tables are looked at in one tick."""


@dataclass
class Pruning:
    engine: Engine
    _done_at: datetime | None = None
    _waiting: list[int] = field(default_factory=list)

    def consider(self, now: datetime) -> None:
        """Forget an hour after the last time, or at once while more is left than goes in one portion."""
        self._next_tables()
        if self._done_at is not None and timedelta(0) <= now - self._done_at < _EVERY:
            return
        if self.engine.catalog.prune_history(now - self._kept()) < PORTION:
            self._done_at = now
            self._waiting = [table.id for table in self.engine.catalog.stream_tables() if table.is_populated]

    def _next_tables(self) -> None:
        ids, self._waiting = self._waiting[:_TABLES], self._waiting[_TABLES:]
        for table in self.engine.catalog.stream_tables_by_id(ids).values() if ids else ():
            forget_states(self.engine, table)

    def _kept(self) -> timedelta:
        """The log of a table is cleaned by what the history says of its versions, so it must remember as long."""
        settings = self.engine.settings
        return max(timedelta(days=settings.history_retention_days), timedelta(hours=settings.log_retention_hours))
