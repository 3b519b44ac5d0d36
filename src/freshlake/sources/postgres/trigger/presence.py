"""Whether what was installed is still there and switched on; a gap in capture is never silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.statements import EVENTS, TRUNCATION, image_columns

if TYPE_CHECKING:
    import psycopg

_TRIGGERS = """
SELECT t.tgrelid::bigint, array_agg(t.tgname::text)
FROM pg_trigger t JOIN unnest(%s::text[], %s::text[]) AS w (name, function) ON w.name = t.tgname
WHERE t.tgrelid = ANY (%s::oid[]) AND t.tgfoid = to_regproc(w.function) AND t.tgenabled = 'A' GROUP BY t.tgrelid
"""
_COLUMNS = """
SELECT w.oid::bigint, array(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = to_regclass(w.buffer))
FROM unnest(%s::oid[], %s::text[]) AS w (oid, buffer)
"""


def missing(cursor: psycopg.Cursor[Any], names: Names, tables: Sequence[Captured]) -> dict[int, Resync]:
    """The tables whose capture has a gap, by their numbers."""
    wanted = {captured.oid: _wanted(names, captured.oid) for captured in tables}
    functions = {trigger: function for each in wanted.values() for trigger, function in each.items()}
    places = [oid for captured in tables for oid in family(captured)]
    found = cursor.execute(_TRIGGERS, [list(functions), list(functions.values()), places])
    triggers = {oid: set(there) for oid, there in found}
    oids = [captured.oid for captured in tables]
    buffers = dict(cursor.execute(_COLUMNS, [oids, [names.buffer(oid) for oid in oids]]).fetchall())
    gaps = {c.oid: _gap(c, set(wanted[c.oid]), triggers, set(buffers[c.oid])) for c in tables}
    return {c.oid: Resync(c, Reason.CAPTURE_MISSING, gap) for c in tables if (gap := gaps[c.oid])}


def _wanted(names: Names, oid: int) -> dict[str, str]:
    """The triggers of a table, and what they call."""
    return {names.trigger(oid, event): names.function(oid, event) for event in (*EVENTS, TRUNCATION)}


def family(captured: Captured) -> list[int]:
    """The numbers of a table and of its partitions."""
    return [captured.oid, *(partition.oid for partition in captured.table.partitions)]


def _gap(captured: Captured, wanted: set[str], triggers: dict[int, set[str]], columns: set[str]) -> str:
    for oid in family(captured):
        lacking = wanted - triggers.get(oid, set())
        if lacking:
            return f"triggers are missing or not enabled ALWAYS: {', '.join(sorted(lacking))}"
    if not set(image_columns(captured)) <= columns:
        return "the buffer or some of its columns are missing"
    return ""
