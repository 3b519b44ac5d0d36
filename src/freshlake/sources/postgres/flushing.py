"""Bringing the log to the server's disk: what a position has seen must not be taken back by a crash.

A snapshot sees transactions whose end is not on disk yet: those that were rolled back, and those of applications that
do not wait for it. A server that crashes knows nothing of them, and gives their numbers to others, whose changes would
count as landed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.connection import transaction

if TYPE_CHECKING:
    import psycopg

_IS_FLUSHED = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"


def flush(connection: psycopg.Connection[Any]) -> None:
    """All that is in the log by now is on disk when this returns."""
    with transaction(connection, read_only=True) as cursor:
        is_flushed = cursor.execute(_IS_FLUSHED).fetchone() == (True,)
    if not is_flushed:
        heartbeat(connection)


def heartbeat(connection: psycopg.Connection[Any]) -> None:
    """A commit of our own, which brings to disk what lies before it in the log."""
    with transaction(connection) as cursor:
        cursor.execute("SET LOCAL synchronous_commit TO local")
        cursor.execute("SELECT pg_logical_emit_message(true, 'freshlake', '')")
