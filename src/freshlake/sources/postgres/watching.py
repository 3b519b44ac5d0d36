"""Noticing cheaply that something happened: one query for DDL, one for changed rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.compare import Reason, compare
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.position import SnapshotPosition
from freshlake.sources.postgres.server import Server
from freshlake.sources.postgres.tables import Captured, Table, refusal
from freshlake.sources.postgres.trigger.presence import missing
from freshlake.sources.postgres.wal.publication import missing as unpublished
from freshlake.sources.postgres.wal.slot import judge, state

if TYPE_CHECKING:
    import psycopg

# What the checks of a table look at, as one short text: as long as it is the same, they would find the same.
_SIGNATURE = """
WITH family (oid) AS (
    SELECT DISTINCT p.relid::oid FROM unnest(%(oids)s::oid[]) AS w (oid)
    JOIN pg_class k ON k.oid = w.oid CROSS JOIN LATERAL (
        SELECT t.relid FROM pg_partition_tree(k.oid) t UNION SELECT k.oid::regclass) p
)
SELECT md5(string_agg(fact, ';' ORDER BY fact)) FROM (
    SELECT concat_ws(',', 'c', c.oid, c.relname, c.relnamespace, c.relkind, c.relfilenode, c.relreplident, c.relowner,
                     c.relrowsecurity, c.relforcerowsecurity, c.relispartition, c.relhassubclass) AS fact
    FROM pg_class c JOIN family f ON f.oid = c.oid
    UNION ALL
    SELECT concat_ws(',', 'a', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped,
                     a.attgenerated, a.xmin)
    FROM pg_attribute a JOIN family f ON f.oid = a.attrelid WHERE a.attnum > 0
    UNION ALL
    SELECT concat_ws(',', 't', t.tgrelid, t.tgname, t.tgenabled, t.tgfoid)
    FROM pg_trigger t JOIN family f ON f.oid = t.tgrelid WHERE t.tgname LIKE 'freshlake%%'
    UNION ALL
    SELECT concat_ws(',', 'e', e.oid, e.enumlabel) FROM pg_enum e
    UNION ALL
    SELECT concat_ws(',', 'r', s.srrelid) FROM pg_subscription_rel s JOIN family f ON f.oid = s.srrelid
    UNION ALL
    SELECT concat_ws(',', 'p', p.polrelid, p.oid, p.xmin) FROM pg_policy p JOIN family f ON f.oid = p.polrelid
    UNION ALL
    SELECT concat_ws(',', 'm', r.prrelid, r.oid, p.xmin)
    FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = %(publication)s
    UNION ALL
    SELECT concat_ws(',', 's', s.slot_name, s.wal_status = 'lost') FROM pg_replication_slots s
    JOIN pg_database d ON d.datname = s.database AND d.datname = current_database()
    WHERE s.slot_name = %(slots)s || d.oid
    UNION ALL
    SELECT concat_ws(',', 'b', b.name, to_regclass(b.name)::oid) FROM unnest(%(buffers)s::text[]) AS b (name)
) facts
"""


def signature(cursor: psycopg.Cursor[Any], names: Names, tables: Sequence[Captured]) -> str:
    """A text that changes with everything that `gaps` depends on."""
    oids = [table.oid for table in tables]
    facts = {
        "oids": oids,
        "buffers": [names.buffer(oid) for oid in oids],
        "publication": names.publication,
        "slots": names.slots,
    }
    found = cursor.execute(_SIGNATURE, facts).fetchone()
    return str(found[0]) if found else ""


def added(tables: Sequence[Captured], now: Mapping[int, Table]) -> dict[int, tuple[str, ...]]:
    """The columns that tables have got since they were described and that could be captured, by their numbers."""
    found = {}
    for captured in tables:
        if (table := now.get(captured.oid)) is not None:
            names = compare(captured, table).added_columns
            found[captured.oid] = tuple(n for n in names if refusal(table, table.column(n), captured.as_text) is None)
    return {oid: names for oid, names in found.items() if names}


def reguarded(tables: Sequence[Captured], now: Mapping[int, Table]) -> list[tuple[Captured, Table]]:
    """The tables whose row security is not what it was, with what they are now."""
    pairs = [(captured, now[captured.oid]) for captured in tables if captured.oid in now]
    return [(captured, table) for captured, table in pairs if compare(captured, table).row_security_changed]


def gaps(
    cursor: psycopg.Cursor[Any],
    server: Server,
    names: Names,
    tables: Sequence[Captured],
    now: Mapping[int, Table],
    mode: Mode,
) -> dict[int, Resync]:
    """The tables whose changes cannot be followed any more, by their numbers."""
    found = missing(cursor, names, tables) if mode is Mode.TRIGGER else _unlogged(cursor, server, names, tables)
    for captured in tables:
        difference = compare(captured, now.get(captured.oid))
        if difference.reason is not None:
            found[captured.oid] = Resync(captured, difference.reason, difference.detail)
        elif difference.renamed_to is not None:
            # who names a table means the one that has the name
            found[captured.oid] = Resync(captured, Reason.TABLE_DROPPED, f"is called {difference.renamed_to} now")
    return found


def _unlogged(
    cursor: psycopg.Cursor[Any], server: Server, names: Names, tables: Sequence[Captured]
) -> dict[int, Resync]:
    """The tables that are not published, or all if the log is not kept."""
    slot = state(cursor, names.slot(server.database_oid))
    if slot is None or slot.is_lost:
        return {t.oid: Resync(t, Reason.CAPTURE_MISSING, judge(slot).detail) for t in tables}
    return unpublished(cursor, names, tables)


def has_changes(
    cursor: psycopg.Cursor[Any],
    names: Names,
    tables: Sequence[Captured],
    start: SnapshotPosition,
    end: SnapshotPosition,
) -> bool:
    """Whether any buffer has a change that the second snapshot sees and the first does not."""
    if not tables:
        return False
    between = f"NOT pg_visible_in_snapshot(b.xid, '{start.text}') AND pg_visible_in_snapshot(b.xid, '{end.text}')"
    each = (f"EXISTS (SELECT FROM {names.buffer(table.oid)} b WHERE {between})" for table in tables)
    return cursor.execute(f"SELECT {' OR '.join(each)}".encode()).fetchone() == (True,)
