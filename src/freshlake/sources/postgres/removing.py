"""Removing what was installed in a database, in whichever way its tables were captured."""

from __future__ import annotations

from collections.abc import Collection

from freshlake.sources.postgres.blocking import unblock
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.trigger.install import installed, uninstall
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import published, unpublish


def remove(pool: Pool, names: Names, oid: int | None) -> None:
    """Remove the capture of one table, or of all with whatever is left of the project; what is gone is no error."""
    oids = None if oid is None else [oid]
    if oid is None:
        # first of all: as long as it is there, the server keeps its log
        WalCapture(pool, names).drop_slot()
    with pool.take() as connection:
        if oid is None:
            with transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
                unblock(cursor, names)
        unpublish(connection, names, oids)
        uninstall(connection, names, oids)


def remove_unused(pool: Pool, names: Names, oid: int | None, mode: Mode, kept: Collection[int]) -> None:
    """Remove what is left of the other way of capture: of one table, or of all and with those that are not `kept`."""
    if oid is not None:
        with pool.take() as connection:
            (unpublish if mode is Mode.TRIGGER else uninstall)(connection, names, [oid])
        return
    if mode is Mode.TRIGGER:
        WalCapture(pool, names).drop_slot()
    with pool.take() as connection:
        with transaction(connection, read_only=True) as cursor:
            by_triggers, by_log = installed(cursor, names), published(cursor, names)
        unpublish(connection, names, None if mode is Mode.TRIGGER else by_log - {*kept})
        uninstall(connection, names, None if mode is Mode.WAL else by_triggers - {*kept})
