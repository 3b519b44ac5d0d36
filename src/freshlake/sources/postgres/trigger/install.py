"""Installing and removing trigger capture, so often as one likes: what is there already is brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from freshlake.errors import PrivilegeMissing
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS, Lock, acquire, alone, check_privileges, lock
from freshlake.sources.postgres.naming import Names, quoted
from freshlake.sources.postgres.server import Server, look
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger import statements
from freshlake.sources.postgres.trigger.presence import missing
from freshlake.sources.postgres.trigger.released import prepare
from freshlake.sources.postgres.trigger.strays import drop_strays, lock_for, strays

if TYPE_CHECKING:
    import psycopg

_BUFFER_COLUMNS = """
SELECT b.name, a.attname IS NOT NULL, coalesce(a.atttypid = to_regtype(b.kind), true)
FROM unnest(%s::text[], %s::text[]) AS b (name, kind)
LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(%s) AND a.attname = b.name AND NOT a.attisdropped
"""
_FUNCTIONS = """
SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname ~ %s
"""
_SOURCES = """
SELECT p.proname::text, p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname ~ %s
"""
_TRIGGERED = """
SELECT DISTINCT quote_ident(s.nspname) || '.' || quote_ident(c.relname)
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace s ON s.oid = c.relnamespace
WHERE n.nspname = %s AND p.proname ~ %s ORDER BY 1
"""
_INSTALLED = """
SELECT substring(p.proname FROM '^cdc_' || %(project)s || '_([0-9]+)_') AS oid
FROM pg_proc p WHERE p.pronamespace = to_regnamespace(%(schema)s) AND p.proname ~ ('^cdc_' || %(project)s || '_[0-9]+_')
UNION
SELECT substring(c.relname FROM '[0-9]+$')
FROM pg_class c WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'r'
  AND c.relname ~ ('^changes_' || %(project)s || '_[0-9]+$')
"""
_BUFFERS = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname ~ %s
"""
_IS_EMPTY = """
SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
   AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid) AND pg_has_role(n.nspowner, 'USAGE')
FROM pg_namespace n WHERE n.nspname = %s
"""


@dataclass(frozen=True)
class Installed:
    """A table that is captured now, as it was when its locks were held.

    `lost` says that the buffer was made anew, so changes up to here are not in it: copy the table.
    """

    captured: Captured
    lost: bool


def install(
    connection: psycopg.Connection[Any], names: Names, tables: Sequence[Captured], *, lock_seconds: float = LOCK_SECONDS
) -> tuple[Installed, ...]:
    """Capture tables from the commit of this one transaction on, and all of them or none."""
    with transaction(connection) as cursor:
        return install_within(cursor, names, tables, lock_seconds)


def keep_installed(
    connection: psycopg.Connection[Any], names: Names, tables: Sequence[Captured], *, lock_seconds: float = LOCK_SECONDS
) -> tuple[Captured, ...]:
    """Capture tables as they are described; what is captured just so already is left alone, without any lock."""
    with transaction(connection, read_only=True) as cursor:
        if not missing(cursor, names, tables) and all(_is_up_to_date(cursor, names, table) for table in tables):
            return tuple(tables)
    return tuple(made.captured for made in install(connection, names, tables, lock_seconds=lock_seconds))


def install_within(
    cursor: psycopg.Cursor[Any], names: Names, tables: Sequence[Captured], lock_seconds: float
) -> tuple[Installed, ...]:
    """The same within a transaction, which from here on holds locks against every writer of the tables."""
    server = look(cursor)
    check_privileges(server, [t.table for t in tables])
    _check_schema(cursor, server, names)
    locks = lock_for(cursor, names, tables)
    now = lock(cursor, server, tables, lock_seconds, lambda table: locks[table.oid])
    _make_schema(cursor, names)
    return tuple(_install(cursor, names, captured) for captured in now)


def _check_schema(cursor: psycopg.Cursor[Any], server: Server, names: Names) -> None:
    if not server.may_create_schema and not _has_schema(cursor, names):
        raise PrivilegeMissing(
            f"user {server.user} may not create schema {names.schema} in database {server.database}",
            hint=f"GRANT CREATE ON DATABASE {quoted(server.database)} TO {quoted(server.user)}",
        )


def _has_schema(cursor: psycopg.Cursor[Any], names: Names) -> bool:
    return cursor.execute("SELECT to_regnamespace(%s) IS NOT NULL", [names.schema]).fetchone() == (True,)


def _make_schema(cursor: psycopg.Cursor[Any], names: Names) -> None:
    alone(cursor, names.schema)
    if not _has_schema(cursor, names):
        cursor.execute(f"CREATE SCHEMA {names.schema}".encode())
    cursor.execute(statements.create_guard(names).encode())
    prepare(cursor, names)


def _install(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> Installed:
    lost = _make_buffer(cursor, names, captured)
    wide = _as_in_buffer(cursor, names, captured)
    drop_strays(cursor, names, captured)
    texts = [
        *statements.create_functions(names, wide),
        *statements.revoke_functions(names, wide),
        *statements.create_triggers(names, wide),
    ]
    for text in texts:
        cursor.execute(text.encode())
    return Installed(captured, lost)


def _make_buffer(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> bool:
    """Make the buffer or what it lacks; one that holds another type is of no use any more, and made anew."""
    buffer, images = names.buffer(captured.oid), statements.image_columns(captured)
    exists = cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [buffer]).fetchone() == (True,)
    rows = cursor.execute(_BUFFER_COLUMNS, [list(images), list(images.values()), buffer]).fetchall()
    missing = [name for name, is_there, _ in rows if not is_there]
    if exists and all(is_same for _, _, is_same in rows):
        if missing:
            cursor.execute(statements.widen_buffer(names, captured, iter(missing)).encode())
        return False
    cursor.execute(f"DROP TABLE IF EXISTS {buffer}".encode())
    cursor.execute(statements.create_buffer(names, captured).encode())
    # it has no key, and rows of a table without identity cannot be deleted once somebody publishes all tables
    cursor.execute(f"ALTER TABLE {buffer} REPLICA IDENTITY FULL".encode())
    return True


def _is_up_to_date(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> bool:
    """Whether functions and buffer are those of the table as it is described: DDL leaves them as they were.

    And triggers, too: a partition that is detached keeps some.
    """
    if strays(cursor, names, captured):
        return False
    images = statements.image_columns(captured)
    rows = cursor.execute(_BUFFER_COLUMNS, [list(images), list(images.values()), names.buffer(captured.oid)]).fetchall()
    found = cursor.execute(_SOURCES, [names.schema, f"^cdc_{names.project}_{captured.oid}_"]).fetchall()
    there = {f"{names.schema}.{name}": source for name, source in found}
    wide = _as_in_buffer(cursor, names, captured)
    return all(is_there and is_same for _, is_there, is_same in rows) and there == statements.sources(names, wide)


def _as_in_buffer(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> Captured:
    """With all columns that the buffer has: somebody may have asked for them who installs at the same time."""
    every = replace(captured, columns=captured.whole)
    images = statements.image_columns(every)
    rows = cursor.execute(_BUFFER_COLUMNS, [list(images), list(images.values()), names.buffer(captured.oid)]).fetchall()
    there = {name for name, is_there, is_same in rows if is_there and is_same}
    kept = (c for c in every.columns if {f"o_{c.number}", f"n_{c.number}"} <= there)
    return replace(captured, columns=tuple(kept))


def installed(cursor: psycopg.Cursor[Any], names: Names) -> set[int]:
    """The numbers of the tables of which something is installed, whether they are there or not."""
    return {int(oid) for (oid,) in cursor.execute(_INSTALLED, {"schema": names.schema, "project": names.project})}


def uninstall(
    connection: psycopg.Connection[Any],
    names: Names,
    oids: Iterable[int] | None = None,
    *,
    lock_seconds: float = LOCK_SECONDS,
) -> None:
    """Remove the capture of some tables, or of all with whatever is left of the project; what is gone is no error."""
    which = "[0-9]+" if oids is None else f"({'|'.join(map(str, oids))})"
    with transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
        if not _has_schema(cursor, names):
            return
        ours = [names.schema, f"^cdc_{names.project}_{which}_"]
        buffers = [b for (b,) in cursor.execute(_BUFFERS, [names.schema, f"^changes_{names.project}_{which}$"])]
        places = [place for (place,) in cursor.execute(_TRIGGERED, ours)]
        # the buffers too: a writer that has one and waits for a table must not meet us waiting for the buffer
        acquire(cursor, dict.fromkeys([*places, *buffers], Lock.EVERYTHING), lock_seconds)
        for (function,) in cursor.execute(_FUNCTIONS, ours).fetchall():
            # the triggers go with their function, also those of a table that was renamed or belongs to others
            cursor.execute(f"DROP FUNCTION {function} () CASCADE".encode())
        for buffer in buffers:
            cursor.execute(f"DROP TABLE {buffer}".encode())
        if oids is None:
            _drop_schema(cursor, names)


def _drop_schema(cursor: psycopg.Cursor[Any], names: Names) -> None:
    """Other projects may share the schema."""
    alone(cursor, names.schema)
    cursor.execute(f"DROP FUNCTION IF EXISTS {names.guard} (anyelement, anyelement)".encode())
    cursor.execute(f"DROP TABLE IF EXISTS {names.released}".encode())
    if cursor.execute(_IS_EMPTY, [names.schema]).fetchone() == (True,):
        cursor.execute(f"DROP SCHEMA {names.schema}".encode())
