"""Daemons: which processes keep the stream tables of a lake fresh, and when each was last awake."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.owner import is_dead
from freshlake.catalog.records import Daemon
from freshlake.catalog.rows import fetch
from freshlake.catalog.tables import daemons

_REMEMBERED = timedelta(days=7)


class Daemons(Database):
    """Register, keep alive and look up daemons."""

    def register_daemon(self, interval_ms: int, workers: int) -> Daemon:
        """This process runs a scheduler from now on; those that ended long ago are forgotten."""
        now = self._clock.now()
        daemon = Daemon(self.owner, now, now, None, None, interval_ms, workers)
        with self._write() as connection:
            connection.execute(delete(daemons).where(daemons.c.heartbeat_at < now - _REMEMBERED))
            connection.execute(delete(daemons).where(daemons.c.owner == self.owner))
            connection.execute(
                insert(daemons).values(
                    owner=self.owner, started_at=now, heartbeat_at=now, interval_ms=interval_ms, workers=workers
                )
            )
        return daemon

    def beat_daemon(self, tick_at: datetime) -> None:
        """This process is awake and has looked at its tables."""
        self._change(heartbeat_at=self._clock.now(), last_tick_at=tick_at)

    def end_daemon(self) -> None:
        """This process stops."""
        self._change(ended_at=self._clock.now())

    def daemons(self) -> tuple[Daemon, ...]:
        """All that are remembered, newest first."""
        with self._read() as connection:
            return fetch(connection, select(daemons).order_by(daemons.c.started_at.desc()), Daemon)

    def live_daemons(self, silent_seconds: float) -> tuple[Daemon, ...]:
        """Those that have not ended and have not been silent for so long."""
        limit = self._clock.now() - timedelta(seconds=silent_seconds)
        return tuple(
            d for d in self.daemons() if d.ended_at is None and d.heartbeat_at > limit and not is_dead(d.owner)
        )

    def _change(self, **values: datetime) -> None:
        with self._write() as connection:
            connection.execute(update(daemons).where(daemons.c.owner == self.owner).values(**values))
