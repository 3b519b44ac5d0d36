"""Daemons: which processes keep the stream tables of a lake fresh, when each was last awake, and what each runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, MetaData, Table, delete, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.owner import is_dead
from freshlake.catalog.postgres import neighbours
from freshlake.catalog.records import Json
from freshlake.catalog.rows import fetch
from freshlake.catalog.tables import daemons
from freshlake.version import VERSION

_REMEMBERED = timedelta(days=7)
_SILENT_SECONDS = 10.0
_SILENT_TICKS = 5


@dataclass(frozen=True)
class Daemon:
    """A process that runs a scheduler over the lake, as it was at its last tick."""

    owner: str
    started_at: datetime
    heartbeat_at: datetime
    last_tick_at: datetime | None
    ended_at: datetime | None
    interval_ms: int
    workers: int
    """How many refreshes it may run side by side."""
    running: int = 0
    waiting: int = 0
    """Units that run, and that could run if there were room."""
    quota: int = 0
    """Workers that its lake is to have of those of all lakes; 0: an equal part."""
    version: str | None = None
    """Of Freshlake."""
    jobs: tuple[Json, ...] | None = None
    """What it runs and ran lately."""


@dataclass(frozen=True)
class Load:
    """What one daemon of any lake in the same database runs, and would like to run."""

    lake: str
    owner: str
    running: int
    waiting: int
    quota: int


class Daemons(Database):
    """Register, keep alive and look up daemons."""

    def register_daemon(self, interval_ms: int, workers: int, quota: int = 0) -> Daemon:
        """This process runs a scheduler from now on; those that ended long ago are forgotten."""
        with self._write() as connection:
            now = self._shared_now(connection)
            daemon = Daemon(self.owner, now, now, None, None, interval_ms, workers, quota=quota, version=VERSION)
            connection.execute(delete(daemons).where(daemons.c.heartbeat_at < now - _REMEMBERED))
            connection.execute(delete(daemons).where(daemons.c.owner == self.owner))
            connection.execute(
                insert(daemons).values(
                    owner=self.owner,
                    started_at=now,
                    heartbeat_at=now,
                    interval_ms=interval_ms,
                    workers=workers,
                    quota=quota,
                    version=VERSION,
                )
            )
        return daemon

    def beat_daemon(self, tick_at: datetime, **facts: Any) -> bool:
        """This process is awake and has looked at its tables; `facts` are further columns that have changed.

        False when others took it for dead and forgot it.
        """
        with self._write() as connection:
            return self._change(heartbeat_at=self._shared_now(connection), last_tick_at=tick_at, **facts) > 0

    def end_daemon(self, jobs: Sequence[Json] = ()) -> None:
        """This process stops."""
        self._change(ended_at=self.shared_now(), running=0, waiting=0, jobs=tuple(jobs))

    def daemons(self) -> tuple[Daemon, ...]:
        """All that are remembered, newest first."""
        with self._read() as connection:
            return fetch(connection, select(daemons).order_by(daemons.c.started_at.desc()), Daemon)

    def live_daemons(self, silent_seconds: float | None = None) -> tuple[Daemon, ...]:
        """Those that have not ended and have not been silent for so long: ten seconds, or several ticks of theirs."""
        now = self.shared_now()
        return tuple(d for d in self.daemons() if is_awake(d, now, silent_seconds))

    def forget_gone_daemons(self, silent_seconds: float) -> tuple[Daemon, ...]:
        """Those that are gone without a word: dead, or silent for so long. Of several callers one is told of each."""
        now = self.shared_now()
        others = [d for d in self.daemons() if d.ended_at is None and d.owner != self.owner]
        suspects = [d for d in others if not is_awake(d, now, silent_seconds)]
        if not suspects:
            return ()
        with self._write() as connection:
            now = self._shared_now(connection)
            suspects = [d for d in suspects if not is_awake(d, now, silent_seconds)]
            as_seen = ((d, (daemons.c.owner == d.owner) & (daemons.c.heartbeat_at == d.heartbeat_at)) for d in suspects)
            return tuple(d for d, same in as_seen if connection.execute(delete(daemons).where(same)).rowcount)

    def loads(self) -> tuple[Load, ...]:
        """What live daemons run: of this lake, and of all others whose catalogs are in the same database."""
        now = self.shared_now()
        with self._read() as connection:
            others = neighbours(connection) if connection.dialect.name == "postgresql" else ()
            tables = {"": daemons} | {schema: _daemons_in(schema) for schema in others}
            return tuple(load for lake, table in tables.items() for load in _loads(connection, lake, table, now))

    def _change(self, **values: Any) -> int:
        with self._write() as connection:
            changed = connection.execute(update(daemons).where(daemons.c.owner == self.owner).values(**values))
            return changed.rowcount


def is_awake(daemon: Daemon, now: datetime, silent_seconds: float | None = None) -> bool:
    """Whether a daemon works, as far as can be told."""
    seconds = silent_seconds or max(_SILENT_SECONDS, _SILENT_TICKS * daemon.interval_ms / 1000)
    silent = daemon.heartbeat_at <= now - timedelta(seconds=seconds)
    return daemon.ended_at is None and not silent and not is_dead(daemon.owner)


@lru_cache(maxsize=1024)
def _daemons_in(schema: str) -> Table:
    return daemons.to_metadata(MetaData(), schema=schema)


def _loads(connection: Connection, lake: str, table: Table, now: datetime) -> Iterator[Load]:
    # the catalog of another lake may be of a later version, so only what is needed is read
    columns = [table.c[field.name] for field in fields(Daemon) if field.name not in ("version", "jobs")]
    for daemon in fetch(connection, select(*columns), Daemon):
        if is_awake(daemon, now):
            yield Load(lake, daemon.owner, daemon.running, daemon.waiting, daemon.quota)
