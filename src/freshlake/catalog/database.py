"""The database below the catalog: connections, transactions, and one family of errors."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, Engine, RootTransaction
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from freshlake.catalog import postgres, sqlite
from freshlake.clock import Clock, SystemClock
from freshlake.errors import CatalogError, CatalogUnavailable, FreshlakeError

Kind = Literal["read", "write"]


class Database:
    """Connections for any number of threads; each thread has at most one transaction, which nested calls join.

    Writers follow one another, in every process, so what a write transaction looked at stays true until it ends. A read
    transaction sees one moment.
    """

    def __init__(self, engine: Engine, clock: Clock, owner: str) -> None:
        self._engine = engine
        self._clock = clock
        self.owner = owner
        self._thread = threading.local()
        # a clock that was given is everybody's: only those of machines may differ
        self._asks_server = engine.dialect.name == "postgresql" and isinstance(clock, SystemClock)
        self._ahead: timedelta | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything that this thread does inside one write transaction: all of it is kept, or nothing."""
        with self._write():
            yield

    @property
    def in_transaction(self) -> bool:
        """Whether this thread has a write transaction open."""
        return getattr(self._thread, "connection", None) is not None

    def shared_now(self) -> datetime:
        """The time by which leases run out and daemons are silent, the same for processes of all machines.

        In PostgreSQL it is the server's, as far ahead of this machine's as it was when somebody last asked.
        """
        if self._asks_server and self._ahead is None:
            with self._read() as connection:
                return self._shared_now(connection)
        return self._clock.now() + (self._ahead or timedelta(0))

    def _shared_now(self, connection: Connection) -> datetime:
        """The same inside a transaction, where the server is asked each time."""
        if self._asks_server:
            self._ahead = postgres.time(connection) - self._clock.now()
        return self.shared_now()

    def close(self) -> None:
        """Close all connections; the catalog can be used again and opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._joined("write") as connection:
            yield connection

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._joined("read") as connection:
            yield connection

    @contextmanager
    def _joined(self, kind: Kind) -> Iterator[Connection]:
        current: Connection | None = getattr(self._thread, "connection", None)
        if current is not None:
            yield current
            return
        with begun(self._engine, kind) as connection:
            # a read must stay alone: joining it would turn it into a writer half-way
            if kind == "write":
                self._thread.connection = connection
            try:
                yield connection
            finally:
                self._thread.connection = None


@contextmanager
def begun(engine: Engine, kind: Kind) -> Iterator[Connection]:
    """One transaction of a kind, with the catalog's errors."""
    with translated():
        transaction = _begin(engine, kind)
        with transaction.connection as connection, transaction:
            yield connection


def _begin(engine: Engine, kind: Kind, *, again: bool = True) -> RootTransaction:
    """A new transaction; a connection that the server dropped in the meantime is replaced, as nothing was done yet."""
    connection = engine.connect().execution_options(freshlake_begin=kind)
    try:
        return connection.begin()
    except BaseException as error:
        connection.close()
        if again and isinstance(error, DBAPIError) and error.connection_invalidated:
            return _begin(engine, kind, again=False)
        raise


@contextmanager
def translated() -> Iterator[None]:
    """Turn every database error into one of the catalog's."""
    try:
        yield
    except DBAPIError as error:
        raise translate(error.orig) from error
    except sqlite3.Error as error:
        raise translate(error) from error
    except PoolTimeout as error:
        raise CatalogUnavailable("the catalog has no free connection", detail=str(error)) from error
    except SQLAlchemyError as error:
        raise CatalogError("the catalog could not run a statement", detail=str(error)) from error


def translate(error: BaseException | None) -> FreshlakeError:
    """The catalog's error for an error of a driver."""
    return sqlite.translate(error) if isinstance(error, sqlite3.Error) else postgres.translate(error)
