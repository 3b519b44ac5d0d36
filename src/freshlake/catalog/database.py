"""The database below the catalog: connections, transactions, and one family of errors."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from freshlake.clock import Clock
from freshlake.errors import CatalogCorrupt, CatalogError, CatalogUnavailable, FreshlakeError, LakeNotWritable

_NOT_WRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_NOMEM,
}


class Database:
    """Connections for any number of threads; each thread has at most one transaction, which nested calls join."""

    def __init__(self, engine: Engine, clock: Clock, owner: str) -> None:
        self._engine = engine
        self._clock = clock
        self.owner = owner
        self._thread = threading.local()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything that this thread does inside one write transaction: all of it is kept, or nothing."""
        with self._write():
            yield

    def close(self) -> None:
        """Close all connections; the catalog can be used again and opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        # writers queue at BEGIN IMMEDIATE: a deferred one could fail half-way when it becomes a writer
        with self._joined("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._joined("BEGIN") as connection:
            yield connection

    @contextmanager
    def _joined(self, begin: str) -> Iterator[Connection]:
        current: Connection | None = getattr(self._thread, "connection", None)
        if current is not None:
            yield current
            return
        with translated(), self._engine.connect() as connection:
            connection.execution_options(freshlake_begin=begin)
            with connection.begin():
                # a read must stay alone: joining it would turn it into a writer half-way
                if begin != "BEGIN":
                    self._thread.connection = connection
                try:
                    yield connection
                finally:
                    self._thread.connection = None


def sqlite_engine(path: Path, busy_seconds: float) -> Engine:
    """An engine whose transactions begin where the code says, not where the driver guesses."""
    url = URL.create("sqlite", database=str(path))
    # threads wait for the file, never for a pooled connection
    engine = create_engine(url, connect_args={"timeout": busy_seconds, "check_same_thread": False}, max_overflow=-1)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def use_write_ahead_log(engine: Engine) -> None:
    """Let readers and one writer work at the same time; the mode stays with the file."""
    with translated():
        connection = engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA journal_mode=WAL").fetchone()
        finally:
            connection.close()


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("freshlake_begin", "BEGIN"))


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
    """The catalog's error for an error of the driver."""
    code = getattr(error, "sqlite_errorcode", None)
    kind = code & 0xFF if code is not None else None
    detail = str(error)
    if kind in _NOT_WRITABLE:
        return LakeNotWritable("the catalog cannot be opened for writing", detail=detail)
    if kind in _CORRUPT or (kind is None and isinstance(error, sqlite3.DatabaseError)):
        return CatalogCorrupt("the catalog is damaged or not a Freshlake catalog", detail=detail)
    if kind in _UNAVAILABLE:
        return CatalogUnavailable("the catalog did not answer", detail=detail)
    return CatalogError("the catalog refused a statement", detail=detail)
