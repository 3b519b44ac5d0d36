"""Refusing DDL: event triggers that know the columns of captured tables, and let everything else pass.

They look only at tables that a command is about, so whoever alters another table pays next to nothing. Who has to alter
a captured table all the same says so in a session: `SET freshlake.allow_ddl = on`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from freshlake.errors import PrivilegeMissing
from freshlake.sources.postgres.naming import Names, literal
from freshlake.sources.postgres.server import Server
from freshlake.sources.postgres.tables import Captured

if TYPE_CHECKING:
    import psycopg

ALLOWED = "freshlake.allow_ddl"
_EVENTS = {"ddl_command_end": "pg_event_trigger_ddl_commands", "sql_drop": "pg_event_trigger_dropped_objects"}

# A table that is gone has no columns, and so others than before.
_COLUMNS = """
SELECT md5(concat_ws(';', n.nspname, c.relname, string_agg(
           concat_ws(',', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation), ';' ORDER BY a.attnum)))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = {oid} GROUP BY n.nspname, c.relname"""
_SOURCE = "SELECT prosrc FROM pg_proc WHERE oid = to_regprocedure(%s)"


def block(cursor: psycopg.Cursor[Any], server: Server, names: Names, tables: Sequence[Captured]) -> None:
    """Refuse from the commit of this transaction on what would change these tables, as they are now, and no others."""
    body = _body(cursor, tables)
    if cursor.execute(_SOURCE, [f"{names.blocker}()"]).fetchone() == (body,):
        return
    if not server.is_superuser:
        raise PrivilegeMissing(
            f"user {server.user} may not make event triggers in database {server.database}",
            detail="only they can refuse DDL",
            hint="take away who may alter the tables, or set block_source_ddl = false",
        )
    cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {names.schema}".encode())
    cursor.execute(
        f"CREATE OR REPLACE FUNCTION {names.blocker} () RETURNS event_trigger LANGUAGE plpgsql "
        f"SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {literal(body)}".encode()
    )
    for event in _EVENTS:
        trigger = f"{names.blocking}_{event}"
        cursor.execute(f"DROP EVENT TRIGGER IF EXISTS {trigger}".encode())
        cursor.execute(f"CREATE EVENT TRIGGER {trigger} ON {event} EXECUTE FUNCTION {names.blocker} ()".encode())


def unblock(cursor: psycopg.Cursor[Any], names: Names) -> None:
    """Let all DDL pass again; what is gone is no error."""
    if cursor.execute(_SOURCE, [f"{names.blocker}()"]).fetchone() is not None:
        cursor.execute(f"DROP FUNCTION {names.blocker} () CASCADE".encode())


def _body(cursor: psycopg.Cursor[Any], tables: Sequence[Captured]) -> str:
    known = ", ".join(
        f"({table.oid}, {literal(table.table.full_name)}, {literal(_columns(cursor, table.oid))})"
        for table in sorted(tables, key=lambda table: table.oid)
    )
    looks = "\n    ELSE".join(
        f"""IF tg_event = '{event}' THEN
        SELECT k.name INTO found FROM {objects} () o JOIN (VALUES {known}) AS k (oid, name, columns) ON k.oid = o.objid
        WHERE o.classid = 'pg_class'::regclass AND k.columns IS DISTINCT FROM ({_COLUMNS.format(oid="k.oid")});"""
        for event, objects in _EVENTS.items()
    )
    return f"""
DECLARE found text;
BEGIN
    IF current_setting('{ALLOWED}', true) = 'on' THEN
        RETURN;
    END IF;
    {looks}
    END IF;
    IF found IS NOT NULL THEN
        RAISE EXCEPTION 'table % is read by Freshlake, which does not let it be altered', found
        USING ERRCODE = 'object_in_use', HINT = 'SET {ALLOWED} = on, if it has to be; its copy is then made anew.';
    END IF;
END"""


def _columns(cursor: psycopg.Cursor[Any], oid: int) -> str:
    found = cursor.execute(_COLUMNS.format(oid=oid).encode()).fetchone()
    return str(found[0]) if found else ""
