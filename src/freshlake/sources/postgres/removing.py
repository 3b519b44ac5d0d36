"""Removing what was installed in a database, in whichever way its tables were captured."""

from __future__ import annotations

from freshlake.sources.postgres.blocking import unblock
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.trigger.install import uninstall
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import unpublish


def remove(pool: Pool, names: Names, oid: int | None) -> None:
    """Remove the capture of one table, or of all with whatever is left of the project; what is gone is no error."""
    oids = None if oid is None else [oid]
    if oid is None:
        # first of all: as long as it is there, the server keeps its log
        WalCapture(pool, names).drop_slot()
    with pool.take() as connection:
        if oid is None:
            with transaction(connection) as cursor:
                unblock(cursor, names)
        unpublish(connection, names, oids)
        uninstall(connection, names, oids)
