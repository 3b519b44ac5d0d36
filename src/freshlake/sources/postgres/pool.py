"""Connections of one capture, kept open between uses: a new one costs the server a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.connection import connect, is_idle, transaction
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import look

if TYPE_CHECKING:
    import psycopg

_KEPT = 2


class Pool:
    """Idle connections to one database; any thread may take one."""

    def __init__(self, reference: ConnectionReference) -> None:
        self.reference = reference
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = Lock()

    @contextmanager
    def take(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for as long as the block runs; one that an error or a server's restart broke is not kept."""
        connection = self._take() or connect(self.reference)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def close(self) -> None:
        """Close what is idle."""
        while (connection := self._take()) is not None:
            connection.close()

    def _take(self) -> psycopg.Connection[Any] | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if is_idle(connection, ask=True):
                return connection
            connection.close()

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            if len(self._idle) < _KEPT and is_idle(connection):
                self._idle.append(connection)
                return
        connection.close()


def origin_of(pool: Pool) -> str:
    """Which database it is, whatever its address is called; see `Server`."""
    with pool.take() as connection, transaction(connection, read_only=True) as cursor:
        return look(cursor).origin
