"""The catalog in PostgreSQL: one schema per lake, one writer at a time, and what the server's errors mean.

Writers queue at an advisory lock of their lake, which their transaction holds to its end, as they queue at the file of
a SQLite catalog. They read under READ COMMITTED, so that the first statement after the lock already sees what the
writer before has done; readers see one moment under REPEATABLE READ, and wait for nobody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text

from freshlake.errors import (
    CatalogCorrupt,
    CatalogDenied,
    CatalogError,
    CatalogUnavailable,
    DriverNotFound,
    FreshlakeError,
    InvalidSetting,
)

SCHEMES = ("postgresql://", "postgres://")

# A client that vanished without a word holds its lock until the server notices: a minute, not the hours of TCP.
_IDLE_WRITER_SECONDS = 60
_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "freshlake",
}
# "freshlak" as a number: the turn of those who make a new lake's schema
_MAKING = 0x66726573686C616B

# one ALTER per table, which rewrites it once
_NARROW = """
SELECT table_name, string_agg(format('ALTER COLUMN %I TYPE %s', column_name,
    CASE data_type WHEN 'integer' THEN 'bigint' ELSE 'text COLLATE "C"' END), ', ')
FROM information_schema.columns
WHERE table_schema = :schema
  AND (data_type = 'integer' OR (data_type IN ('character varying', 'text') AND collation_name IS NULL))
GROUP BY table_name
"""
_NEIGHBOURS = r"""
SELECT n.nspname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relname = 'fl_daemons' AND a.attname = 'running' AND n.nspname LIKE 'freshlake\_%%'
  AND n.nspname <> current_schema()
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname
"""
_COUNTERS = """
SELECT sequence_name FROM information_schema.sequences WHERE sequence_schema = :schema AND data_type = 'integer'
"""


def is_postgres(url: str) -> bool:
    """Whether a catalog setting is a PostgreSQL URL."""
    return url.startswith(SCHEMES)


def postgres_engine(url: str, busy_seconds: float) -> Engine:
    """An engine whose transactions begin where the code says; libpq reads the URL, and completes it as always."""
    try:
        import psycopg

        given = _parameters(url)
        parameters = {**_unset(), **given, "client_encoding": "UTF8"}
        engine = create_engine(
            "postgresql+psycopg://",
            # no prepared statements: they need a session, which a connection pooler may not keep
            creator=lambda: psycopg.connect(**parameters, autocommit=True, prepare_threshold=None),
            max_overflow=-1,
            use_native_hstore=False,
        )
    except ImportError as error:
        raise DriverNotFound("the PostgreSQL driver psycopg cannot be loaded", detail=str(error)) from None
    event.listen(engine, "begin", _on_begin)
    return engine.execution_options(freshlake_busy_ms=round(busy_seconds * 1000))


def in_schema(engine: Engine, lake_id: str) -> Engine:
    """The same connections, for transactions in a lake's own schema, under its own lock."""
    return engine.execution_options(freshlake_schema=schema_of(lake_id), freshlake_lock=_lock_of(lake_id))


def in_turn(engine: Engine) -> Engine:
    """The same connections, for a transaction that is the only one in the database that makes a new lake."""
    return engine.execution_options(freshlake_schema="pg_catalog", freshlake_lock=_MAKING)


def schema_of(lake_id: str) -> str:
    """The schema of a lake; several lakes share a database."""
    return f"freshlake_{lake_id}"


def neighbours(connection: Connection) -> tuple[str, ...]:
    """Schemas of other lakes in this database whose daemons this connection may look at, and can: an earlier catalog
    does not say what they run."""
    return tuple(connection.exec_driver_sql(_NEIGHBOURS).scalars())


def identity(connection: Connection) -> str:
    """What tells this database from all others, also from those that were restored from it."""
    found = "SELECT system_identifier || '/' || oid FROM pg_control_system(), pg_database"
    return str(connection.exec_driver_sql(f"{found} WHERE datname = current_database()").scalar_one())


def time(connection: Connection) -> datetime:
    """What the server's clock shows now, not when the transaction began."""
    found: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    return found.astimezone(UTC)


def make_schema(connection: Connection, schema: str) -> None:
    """Make a lake's schema if it is missing; IF NOT EXISTS would ask for a permission that is not needed then."""
    found = connection.execute(text("SELECT to_regnamespace(:name)"), {"name": schema}).scalar()
    if found is None:
        connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')


def widen(connection: Connection, schema: str) -> None:
    """Give the columns of all tables the reach that they have in SQLite.

    Text has no length and sorts by its code points, whatever the database's collation; whole numbers have 64 bits,
    so that no history is too long.
    """
    tables = connection.execute(text(_NARROW), {"schema": schema}).all()
    counters = connection.execute(text(_COUNTERS), {"schema": schema}).scalars().all()
    changes = [f'ALTER TABLE "{table}" {columns}' for table, columns in tables]
    changes += [f'ALTER SEQUENCE "{counter}" AS bigint' for counter in counters]
    if changes:
        connection.exec_driver_sql("; ".join(changes))


def _parameters(url: str) -> dict[str, Any]:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        # the driver repeats the part that it could not read, which may be the password
        raise InvalidSetting(
            "setting catalog is not a PostgreSQL URL that can be read",
            hint="write postgresql://user@host:5432/database, and special characters as %XX",
        ) from None


def _unset() -> Mapping[str, Any]:
    """Parameters that hold unless the URL or the environment has them."""
    return {k: v for k, v in _CONNECTION.items() if k != "connect_timeout" or "PGCONNECT_TIMEOUT" not in os.environ}


def _lock_of(lake_id: str) -> int:
    return int.from_bytes(bytes.fromhex(lake_id)[:8], signed=True)


def _on_begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    schema = options.get("freshlake_schema", "pg_catalog")
    if options.get("freshlake_begin", "read") == "read":
        begin = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", f'SET LOCAL search_path TO "{schema}"']
    else:
        begin = [
            "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
            f'SET LOCAL search_path TO "{schema}"',
            f"SET LOCAL lock_timeout TO {options['freshlake_busy_ms']}",
            f"SET LOCAL idle_in_transaction_session_timeout TO '{_IDLE_WRITER_SECONDS}s'",
            f"SELECT pg_advisory_xact_lock({options['freshlake_lock']})",
        ]
    connection.exec_driver_sql("; ".join(begin))


_UNAVAILABLE = {"08", "40", "53", "57", "58"}
_UNAVAILABLE_CODES = {"55P03", "25006", "25P03", "25P04"}
_DENIED = {"28", "3D"}
_DENIED_CODES = {"42501"}
_CORRUPT_CODES = {"42P01", "42703", "3F000", "XX001", "XX002"}
# A connection that fails has no code, only words.
_DENIED_WORDS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist", "permitted")
_ANSWER = "try again; if it stays, look at the PostgreSQL server of the catalog and at the network"


def translate(error: BaseException | None) -> FreshlakeError:
    """The catalog's error for an error of the driver."""
    state = getattr(error, "sqlstate", None)
    detail = str(error).strip()
    if _is_denied(error, state, detail):
        return CatalogDenied("PostgreSQL refused access to the catalog", detail=detail)
    if state in _UNAVAILABLE_CODES or (state or "")[:2] in _UNAVAILABLE or (not state and _is_connection(error)):
        return CatalogUnavailable("the catalog did not answer", detail=detail, hint=_ANSWER)
    if state in _CORRUPT_CODES:
        return CatalogCorrupt("the catalog is damaged or not a Freshlake catalog", detail=detail)
    return CatalogError("the catalog refused a statement", detail=detail)


def _is_denied(error: BaseException | None, state: str | None, detail: str) -> bool:
    if state:
        return state in _DENIED_CODES or state[:2] in _DENIED
    return _is_connection(error) and any(words in detail for words in _DENIED_WORDS)


def _is_connection(error: BaseException | None) -> bool:
    return type(error).__name__ in {"OperationalError", "InterfaceError", "ConnectionTimeout"}
