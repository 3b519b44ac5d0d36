"""Leases: one writer per stream table, and a writer that was overtaken is refused by its epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, bindparam, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.owner import describe, is_dead
from freshlake.catalog.records import Lease, StreamTable
from freshlake.catalog.rows import fetch_one
from freshlake.catalog.stream_tables import require
from freshlake.catalog.tables import leases
from freshlake.catalog.upsert import upsert
from freshlake.errors import LeaseLost, RefreshInProgress

_OF_TABLE = select(leases).where(leases.c.stream_table_id == bindparam("id"))


class Leases(Database):
    """Take, keep and give back the right to write a stream table."""

    def acquire_lease(self, stream_table_id: int, seconds: float, *, owner: str | None = None) -> Lease:
        """Take the lease under a new epoch; raises RefreshInProgress while another worker holds it.

        A lease that ran out, or whose process ended on this machine, is taken over at once: `taken_from` says so, and
        that its last holder has to be shut out before anything is written.
        """
        with self._write() as connection:
            now = self._shared_now(connection)
            held = check_unheld(connection, require(connection, stream_table_id), lambda: now)
            lease = Lease(
                stream_table_id=stream_table_id,
                owner=owner or self.owner,
                epoch=1 + (held["epoch"] if held is not None else 0),
                acquired_at=now,
                heartbeat_at=now,
                expires_at=now + timedelta(seconds=seconds),
                taken_from=held["owner"] if held is not None else None,
            )
            _store(connection, lease)
            return lease

    def heartbeat_lease(self, lease: Lease, seconds: float) -> Lease:
        """Keep the lease for another while; raises LeaseLost when another worker took it over."""
        with self._write() as connection:
            now = self._shared_now(connection)
            kept = replace(lease, heartbeat_at=now, expires_at=now + timedelta(seconds=seconds))
            check_epoch(connection, lease.stream_table_id, lease.epoch)
            _store(connection, kept)
            return kept

    def release_lease(self, lease: Lease) -> None:
        """Give the lease back; nothing happens when it was already lost.

        Only its holder may do so: a lease that nobody gave back tells the next holder that somebody may be late.
        """
        mine = (leases.c.stream_table_id == lease.stream_table_id) & (leases.c.epoch == lease.epoch)
        with self._write() as connection:
            connection.execute(update(leases).where(mine).values(owner=None))

    def lease(self, stream_table_id: int) -> Lease | None:
        """The lease of a stream table as it is recorded, run out or not; None when nobody holds it."""
        held = select(leases).where(leases.c.stream_table_id == stream_table_id, leases.c.owner.is_not(None))
        with self._read() as connection:
            return fetch_one(connection, held, Lease)


def is_live(owner: str | None, expires_at: datetime, now: datetime) -> bool:
    """Whether a lease still keeps others away."""
    return owner is not None and expires_at > now and not is_dead(owner)


def check_unheld(connection: Connection, table: StreamTable, now: Callable[[], datetime]) -> RowMapping | None:
    """Raise RefreshInProgress while a worker holds the lease; otherwise its last row, if there ever was one.

    The time is asked for only where it decides: in PostgreSQL it is the server's.
    """
    held = _row(connection, table.id)
    if held is not None and held["owner"] is not None and is_live(held["owner"], held["expires_at"], now()):
        raise RefreshInProgress(
            f"stream table {table.full_name.short} is being refreshed by {describe(held['owner'])}",
            detail=f"since {held['acquired_at']:%Y-%m-%d %H:%M:%S} UTC",
        )
    return held


def check_epoch(connection: Connection, stream_table_id: int, epoch: int) -> None:
    """Raise LeaseLost unless the lease is held under this epoch.

    A lease that ran out is still good as long as nobody else took it: the next taker raises the epoch.
    """
    held = _row(connection, stream_table_id)
    if held is None or held["owner"] is None or held["epoch"] != epoch:
        name = require(connection, stream_table_id).full_name.short
        taken = f"{describe(held['owner'])} holds it now" if held is not None and held["owner"] else "nobody holds it"
        raise LeaseLost(f"the lease on stream table {name} was lost", detail=taken)


def _row(connection: Connection, stream_table_id: int) -> RowMapping | None:
    return connection.execute(_OF_TABLE, {"id": stream_table_id}).mappings().first()


def _store(connection: Connection, lease: Lease) -> None:
    values = {
        "owner": lease.owner,
        "epoch": lease.epoch,
        "acquired_at": lease.acquired_at,
        "heartbeat_at": lease.heartbeat_at,
        "expires_at": lease.expires_at,
    }
    statement = upsert(connection, leases).values(stream_table_id=lease.stream_table_id, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["stream_table_id"], set_=values))
