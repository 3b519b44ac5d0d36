"""Connections to a source database: opened by reference, used in transactions that bring their own settings.

Every transaction sets what it depends on, and nothing is kept in a session, so a pooler may sit in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from freshlake.errors import (
    CaptureBusy,
    ConnectionNotFound,
    DriverNotFound,
    FreshlakeError,
    InvalidConnection,
    PrivilegeMissing,
    SourceDenied,
    SourceDropped,
    SourceHistoryLost,
    SourceUnreachable,
    SourceUnreadable,
)
from freshlake.sources.postgres.reference import ConnectionReference

if TYPE_CHECKING:
    import psycopg

_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "freshlake",
}

# Text forms that the decoders read, whatever the database, the role or the server have set.
FORMS = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
}
# What a transaction must not inherit: a policy that hides rows becomes an error, and names mean what they say.
_SAFE = {
    "row_security": "off",
    "search_path": "pg_catalog, pg_temp",
}
_TRANSACTION_LIMIT = 170_000
"""The version of PostgreSQL from which on transactions have a limit, too."""

# Shorter than `deadlock_timeout` usually is: then nobody is stopped because of us.
_KEEP_TRY_MS = 500
_KEEP_TRIES = 60


def connect(reference: ConnectionReference, *, replication: bool = False) -> psycopg.Connection[Any]:
    """A new connection without a transaction; `replication` opens one that may create slots."""
    try:
        import psycopg
    except ImportError as error:
        raise DriverNotFound("the PostgreSQL driver psycopg cannot be loaded", detail=str(error)) from None
    parameters = {**_unset(), **_parameters(reference), "client_encoding": "UTF8"}
    if replication:
        parameters["replication"] = "database"
    with translated():
        # no prepared statements: they need a session, which a pooler may not keep
        return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)


@contextmanager
def transaction(
    connection: psycopg.Connection[Any],
    *,
    read_only: bool = False,
    snapshot: str | None = None,
    lock_seconds: float = 0,
    keep: Iterable[str] = (),
) -> Iterator[psycopg.Cursor[Any]]:
    """One transaction. A read-only one sees one moment, or the moment of an exported snapshot.

    `lock_seconds` limits each wait for a lock (0: no limit). Tables in `keep` are not truncated or altered from before
    that moment to the end: an older snapshot would see them empty otherwise, because TRUNCATE leaves nothing behind.
    """
    level = "REPEATABLE READ, READ ONLY" if read_only else "READ COMMITTED, READ WRITE"
    settings = {**FORMS, **_SAFE, "lock_timeout": str(round(lock_seconds * 1000)), **limits(connection)}
    begin = [f"BEGIN ISOLATION LEVEL {level}"]
    if snapshot is not None:
        begin.append(f"SET TRANSACTION SNAPSHOT '{_snapshot(snapshot)}'")
    # none of these takes the snapshot yet
    begin += [f"SET LOCAL {name} TO {setting(value)}" for name, value in settings.items()]
    with translated(), connection.cursor() as cursor:
        try:
            cursor.execute("; ".join(begin).encode())
            _keep(cursor, list(keep), lock_seconds)
            yield cursor
        except BaseException:
            _roll_back(connection)
            raise
        cursor.execute("COMMIT")


def limits(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """What a role or a server may have set for applications, and what must not cut a long copy."""
    names = ["statement_timeout", "idle_in_transaction_session_timeout"]
    if connection.info.server_version >= _TRANSACTION_LIMIT:
        names.append("transaction_timeout")
    return dict.fromkeys(names, "0")


def _keep(cursor: psycopg.Cursor[Any], tables: Sequence[str], lock_seconds: float) -> None:
    """Get the locks of all tables at once, in short tries: who waits with one of them in hand makes others wait too."""
    import psycopg

    if not tables:
        return
    tries = f"SAVEPOINT fl_keep; SET LOCAL lock_timeout TO {_KEEP_TRY_MS}; LOCK TABLE {', '.join(tables)} IN ACCESS"
    for last in range(_KEEP_TRIES - 1, -1, -1):
        try:
            cursor.execute(f"{tries} SHARE MODE".encode())
            break
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not last:
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT fl_keep; RELEASE SAVEPOINT fl_keep")
    # neither of these takes the snapshot
    cursor.execute(f"RELEASE SAVEPOINT fl_keep; SET LOCAL lock_timeout TO {round(lock_seconds * 1000)}".encode())


def is_idle(connection: psycopg.Connection[Any], *, ask: bool = False) -> bool:
    """Whether a connection can be used; `ask` finds out whether the server still answers."""
    import psycopg

    if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return False
    try:
        if ask:
            connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def setting(value: str) -> str:
    """The value of a setting as it stands in a statement; several values are divided by commas."""
    return ", ".join(f"'{part.strip()}'" for part in value.split(","))


def _snapshot(name: str) -> str:
    if not all(c.isalnum() or c == "-" for c in name):
        raise ValueError("not the name of an exported snapshot")
    return name


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    """What went wrong before is what counts; a connection that cannot roll back is closed."""
    import psycopg

    try:
        # A copy that was not read to its end must be cancelled, or ROLLBACK would wait behind it.
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            connection.close()
        elif not connection.closed:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _parameters(reference: ConnectionReference) -> dict[str, Any]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(reference.resolve()))
    except psycopg.ProgrammingError:
        # the driver repeats the part that it could not read, which may be the password
        raise InvalidConnection(
            f"what {reference} holds is not an address of a PostgreSQL database",
            hint="write postgresql://user@host:5432/database, and special characters as %XX",
        ) from None


def _unset() -> dict[str, Any]:
    """Parameters that hold unless the address or the environment has them."""
    return {k: v for k, v in _CONNECTION.items() if k != "connect_timeout" or "PGCONNECT_TIMEOUT" not in os.environ}


@contextmanager
def translated() -> Iterator[None]:
    """The driver's errors as Freshlake's."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


_UNREACHABLE = {"08", "40", "53", "57", "58"}
_UNREACHABLE_CODES = {"25006", "25P03", "25P04"}
_DENIED = {"28", "3D"}
_PRIVILEGE = {"42501"}
_LOCKED = {"55P03", "55006", "40P01"}
_GONE = {"42P01"}
_LOST_WORDS = (
    "can no longer get changes",
    "can no longer access replication slot",
    "has been invalidated",
    "could not map filenumber",
    "could not map filenode",
)
# A connection that fails has no code, only words.
_DENIED_WORDS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist", "permitted")


def translate(error: psycopg.Error) -> FreshlakeError:
    """Freshlake's error for an error of the driver."""
    state, detail = error.sqlstate or "", _words(error)
    if not state:
        return _unconnected(error, detail)
    if state in _LOCKED:
        return CaptureBusy("a lock in the source database was not free", detail=detail)
    if state[:2] in _DENIED:
        return SourceDenied("the database refused the connection", detail=detail)
    if state in _PRIVILEGE:
        return PrivilegeMissing(
            "the capturing user lacks a privilege", detail=detail, hint="grant what the detail names"
        )
    if any(words in detail for words in _LOST_WORDS):
        return SourceHistoryLost("the replication slot cannot be read any more", detail=detail, hint="make it anew")
    if state[:2] in _UNREACHABLE or state in _UNREACHABLE_CODES:
        return SourceUnreachable("the source database did not answer", detail=detail)
    if state in _GONE:
        return SourceDropped("a table of the source database is gone", detail=detail)
    return SourceUnreadable("the source database refused a statement", detail=detail)


def _unconnected(error: psycopg.Error, detail: str) -> FreshlakeError:
    if "definition of service" in detail and "not found" in detail:
        return ConnectionNotFound(
            "the service is in no service file", detail=detail, hint="add it to ~/.pg_service.conf"
        )
    if type(error).__name__ == "OperationalError" and any(words in detail for words in _DENIED_WORDS):
        return SourceDenied("the database refused the connection", detail=detail)
    if type(error).__name__ in {"OperationalError", "InterfaceError", "ConnectionTimeout"}:
        return SourceUnreachable("the source database did not answer", detail=detail)
    return SourceUnreadable("the source database refused a statement", detail=detail)


def _words(error: psycopg.Error) -> str:
    extra = [part for part in (error.diag.message_detail, error.diag.message_hint) if part]
    return "; ".join([str(error.diag.message_primary or error).strip(), *extra])
