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

    def beat_daemon(self, tick_at: datetime) -> bool:
        """This process is awake and has looked at its tables; False when others took it for dead and forgot it."""
        return self._change(heartbeat_at=self._clock.now(), last_tick_at=tick_at) > 0

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
        return tuple(d for d in self.daemons() if d.ended_at is None and not _is_gone(d, limit))

    def forget_gone_daemons(self, silent_seconds: float) -> tuple[Daemon, ...]:
        """Those that are gone without a word: dead, or silent for so long. Of several callers one is told of each."""
        limit = self._clock.now() - timedelta(seconds=silent_seconds)
        suspects = [d for d in self.daemons() if d.ended_at is None and d.owner != self.owner and _is_gone(d, limit)]
        if not suspects:
            return ()
        with self._write() as connection:
            as_seen = ((d, (daemons.c.owner == d.owner) & (daemons.c.heartbeat_at == d.heartbeat_at)) for d in suspects)
            return tuple(d for d, same in as_seen if connection.execute(delete(daemons).where(same)).rowcount)

    def _change(self, **values: datetime) -> int:
        with self._write() as connection:
            changed = connection.execute(update(daemons).where(daemons.c.owner == self.owner).values(**values))
            return changed.rowcount


def _is_gone(daemon: Daemon, limit: datetime) -> bool:
    return daemon.heartbeat_at <= limit or is_dead(daemon.owner)
