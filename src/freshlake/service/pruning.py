"""Pruning: a scheduler lets the history forget old refreshes, once an hour and in portions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from freshlake.catalog.retention import PORTION
from freshlake.refresh.engine import Engine

_EVERY = timedelta(hours=1)


@dataclass
class Pruning:
    engine: Engine
    _done_at: datetime | None = None

    def consider(self, now: datetime) -> None:
        """Forget an hour after the last time, or at once while more is left than goes in one portion."""
        if self._done_at is not None and timedelta(0) <= now - self._done_at < _EVERY:
            return
        if self.engine.catalog.prune_history(now - self._kept()) < PORTION:
            self._done_at = now

    def _kept(self) -> timedelta:
        """The log of a table is cleaned by what the history says of its versions, so it must remember as long."""
        settings = self.engine.settings
        return max(timedelta(days=settings.history_retention_days), timedelta(hours=settings.log_retention_hours))
