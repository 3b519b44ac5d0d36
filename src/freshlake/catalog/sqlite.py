"""The catalog in a SQLite file: connections that begin where the code says, and what the driver's errors mean."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

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
# writers queue at BEGIN IMMEDIATE: a deferred one could fail half-way when it becomes a writer
_BEGIN = {"read": "BEGIN", "write": "BEGIN IMMEDIATE"}


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
    connection.exec_driver_sql(_BEGIN[connection.get_execution_options().get("freshlake_begin", "read")])


def translate(error: sqlite3.Error) -> FreshlakeError:
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
