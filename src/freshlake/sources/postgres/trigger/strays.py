"""Triggers that write to a buffer from where they should not: under another name, or on a former partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.locking import Lock
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger import statements
from freshlake.sources.postgres.trigger.presence import family

if TYPE_CHECKING:
    import psycopg

# Only an owner may drop them. Those that a partition has from its parent go with the parent's.
_STRAYS = """
SELECT quote_ident(t.tgname), quote_ident(s.nspname) || '.' || quote_ident(c.relname), c.oid = ANY (%(family)s::oid[])
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace s ON s.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND p.proname ~ %(functions)s AND t.tgparentid = 0
  AND c.relkind IN ('r', 'p') AND pg_has_role(c.relowner, 'USAGE')
  AND NOT (t.tgname = ANY (%(triggers)s::text[]) AND c.oid = ANY (%(family)s::oid[]))
"""


def strays(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> list[tuple[str, str, bool]]:
    """Trigger and table of each, and whether the table is the captured one or part of it."""
    events = (*statements.EVENTS, statements.TRUNCATION)
    parameters = {
        "schema": names.schema,
        "functions": f"^cdc_{names.project}_{captured.oid}_",
        "triggers": [names.trigger(captured.oid, event) for event in events],
        "family": family(captured),
    }
    return cursor.execute(_STRAYS, parameters).fetchall()


def lock_for(cursor: psycopg.Cursor[Any], names: Names, tables: Iterable[Captured]) -> dict[int, Lock]:
    """What to lock each table with: dropping a trigger keeps readers away, too, and a lock is not raised later."""
    inside = {t.oid: any(is_inside for *_, is_inside in strays(cursor, names, t)) for t in tables}
    return {oid: Lock.EVERYTHING if found else Lock.WRITING for oid, found in inside.items()}


def drop_strays(cursor: psycopg.Cursor[Any], names: Names, captured: Captured) -> None:
    """Those on the captured table must go; others do no harm, and stay as long as somebody uses their table."""
    import psycopg

    for trigger, place, is_inside in strays(cursor, names, captured):
        wait = "" if is_inside else " NOWAIT"
        try:
            cursor.execute(f"SAVEPOINT fl_stray; LOCK TABLE {place} IN ACCESS EXCLUSIVE MODE{wait}".encode())
            cursor.execute(f"DROP TRIGGER {trigger} ON {place}".encode())
        except psycopg.errors.LockNotAvailable:
            if is_inside:
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT fl_stray")
        cursor.execute("RELEASE SAVEPOINT fl_stray")
