"""Care of buffers: removing what was consumed, and netting out what waits too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureBusy
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.position import SnapshotPosition
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.trigger.released import note_released

if TYPE_CHECKING:
    import psycopg

# A new file costs more than marking a few rows dead; from here on it costs less.
TRUNCATE_BYTES = 1024 * 1024
# No change takes less: the place and the header of a row, and the columns that every buffer has.
_ROW_BYTES = 60

_SIZES = """
SELECT substring(c.relname FROM '[0-9]+$')::bigint, n.nspname || '.' || c.relname, pg_table_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname ~ %s ORDER BY 1
"""
_PUBLISHED = """
SELECT pubname::text FROM pg_publication p WHERE p.puballtables
  AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace(%s) AND c.relname ~ %s) ORDER BY 1
"""


@dataclass(frozen=True)
class BufferSize:
    """What waits in a buffer; `oldest_seconds` is the age of the oldest change in it."""

    oid: int
    rows: int
    bytes: int
    oldest_seconds: float | None


def sizes(connection: psycopg.Connection[Any], names: Names) -> list[BufferSize]:
    """All buffers of a project."""
    with transaction(connection, read_only=True) as cursor:
        found = _buffers(cursor, names)
        return [_size(cursor, oid, buffer, size) for oid, buffer, size in found]


def _size(cursor: psycopg.Cursor[Any], oid: int, buffer: str, size: int) -> BufferSize:
    query = f"SELECT count(*), extract(epoch FROM now() - min(captured_at))::float8 FROM {buffer}"
    rows, oldest = cursor.execute(query.encode()).fetchone() or (0, None)
    return BufferSize(oid, rows, size, oldest)


def _buffers(cursor: psycopg.Cursor[Any], names: Names) -> list[tuple[int, str, int]]:
    return cursor.execute(_SIZES, [names.schema, f"^changes_{names.project}_[0-9]+$"]).fetchall()


def published_by(cursor: psycopg.Cursor[Any], names: Names) -> tuple[str, ...]:
    """The publications of all tables, which send the buffers too: a subscriber that has no such tables stops."""
    found = cursor.execute(_PUBLISHED, [names.schema, f"^changes_{names.project}_[0-9]+$"])
    return tuple(str(name) for (name,) in found)


def lengths(connection: psycopg.Connection[Any], names: Names, least: int) -> dict[int, int]:
    """The rows of the buffers that have more than so many; one whose file is too small for that is not counted."""
    with transaction(connection, read_only=True) as cursor:
        large = [(oid, buffer) for oid, buffer, size in _buffers(cursor, names) if size > least * _ROW_BYTES]
        counted = {oid: _count(cursor, buffer) for oid, buffer in large}
    return {oid: rows for oid, rows in counted.items() if rows > least}


def _count(cursor: psycopg.Cursor[Any], buffer: str) -> int:
    (rows,) = cursor.execute(f"SELECT count(*) FROM {buffer}".encode()).fetchone() or (0,)
    return int(rows)


def clean(
    connection: psycopg.Connection[Any], names: Names, upto: SnapshotPosition, *, use_truncate: bool = True
) -> None:
    """Remove what a position has seen; a large buffer without anything else is emptied at once."""
    with transaction(connection, read_only=True) as cursor:
        found = _buffers(cursor, names)
    if found:
        with transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
            note_released(cursor, names, upto)
    for _, buffer, size in found:
        if not (use_truncate and size >= TRUNCATE_BYTES and _truncate(connection, buffer, upto)):
            with transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
                cursor.execute(f"DELETE FROM {buffer} WHERE {_seen(upto)}".encode())


def _truncate(connection: psycopg.Connection[Any], buffer: str, upto: SnapshotPosition) -> bool:
    """Empty a buffer if nothing else is in it, and nobody is writing to it at this moment: nobody waits for this."""
    try:
        with transaction(connection) as cursor:
            cursor.execute(f"LOCK TABLE {buffer} IN ACCESS EXCLUSIVE MODE NOWAIT".encode())
            # under the lock, so it sees everyone who wrote
            later = cursor.execute(f"SELECT EXISTS (SELECT FROM {buffer} WHERE NOT {_seen(upto)})".encode()).fetchone()
            if later == (False,):
                cursor.execute(f"TRUNCATE {buffer}".encode())
            return later == (False,)
    except CaptureBusy:
        return False


def _seen(position: SnapshotPosition, alias: str = "") -> str:
    return f"pg_visible_in_snapshot({alias}xid, '{position.text}')"


def compact(
    connection: psycopg.Connection[Any],
    names: Names,
    oid: int,
    bounds: Iterable[SnapshotPosition],
    *,
    upto: SnapshotPosition,
) -> int:
    """Add up equal rows of a buffer, and drop those that went as often as they came; how many changes were saved.

    An insert and its delete leave nothing, several updates leave the first old and the last new row. What is left has
    the transaction of one of the changes it came from. So nothing is added up across one of `bounds`, which are the
    positions before `upto` that a batch may still begin or end at. What all of them see waits for nobody and is left
    alone, and so is what `upto` does not see: positions that are taken while this runs see more than it, and may lie
    anywhere there. Positions of another history mean nothing, and nothing is done.
    """
    with transaction(connection, lock_seconds=_LOCK_SECONDS) as cursor:
        numbers = [int(number) for (number,) in cursor.execute(_NUMBERS, [names.buffer(oid)])]
        if not numbers or look(cursor).origin != upto.origin:
            return 0
        query = _compaction(names.buffer(oid), numbers, list(bounds), upto)
        before, after = cursor.execute(query.encode()).fetchone() or (0, 0)
        return int(before) - int(after)


# Who needs a buffer for himself removes it or makes it anew.
_LOCK_SECONDS = 1.0


# All that is in the buffer, of which a reader may use less.
_NUMBERS = """
SELECT substring(attname FROM 3)::int FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attname ~ '^o_[0-9]+$' AND NOT attisdropped ORDER BY 1
"""


def _compaction(buffer: str, numbers: Sequence[int], bounds: Sequence[SnapshotPosition], upto: SnapshotPosition) -> str:
    """Sequence numbers are kept: to a truncation that is not committed yet, all smaller ones are before it.

    What is left of old and of new rows is paired again, in no particular way, to take half the space.
    """
    seen = [_seen(bound, "b.") for bound in bounds]
    region = f"ARRAY[{', '.join(seen)}]::boolean[]"
    waits = f"{_seen(upto, 'b.')} AND NOT ({' AND '.join(seen or ['false'])})"
    return f"""
WITH marks AS (SELECT coalesce(max(seq), 0) AS seq FROM {buffer} WHERE action IN ('S', 'T')),
gone AS (
    DELETE FROM {buffer} b USING marks m WHERE b.action IN ('I', 'U', 'D') AND b.seq > m.seq AND {waits}
    RETURNING b.*, {region} AS region
),
change AS (SELECT *, row_number() OVER () AS number FROM gone),
image AS (
    SELECT number, relid, region, -1 AS weight, ROW({_listed("o", numbers)})::text AS image
    FROM change WHERE action IN ('U', 'D')
    UNION ALL
    SELECT number, relid, region, 1, ROW({_listed("n", numbers)})::text FROM change WHERE action IN ('I', 'U')
),
net AS (
    SELECT relid, region, sum(weight) AS weight, max(number) FILTER (WHERE weight < 0) AS old,
           max(number) FILTER (WHERE weight > 0) AS new
    FROM image GROUP BY relid, region, image HAVING sum(weight) <> 0
),
{_left("old", "-weight")},
{_left("new", "weight")},
kept AS (
    INSERT INTO {buffer} (seq, xid, captured_at, relid, action, {_listed("o", numbers)}, {_listed("n", numbers)})
    OVERRIDING SYSTEM VALUE
    SELECT coalesce(n.seq, o.seq), coalesce(n.xid, o.xid), coalesce(n.captured_at, o.captured_at),
           coalesce(n.relid, o.relid), CASE WHEN n.number IS NULL THEN 'D' WHEN o.number IS NULL THEN 'I' ELSE 'U' END,
           {_listed("o", numbers, "o.")}, {_listed("n", numbers, "n.")}
    FROM left_old o FULL JOIN left_new n ON n.relid = o.relid AND n.region = o.region AND n.pair = o.pair
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM kept)"""


def _left(side: str, copies: str) -> str:
    """Old or new rows that are left, as often as they are."""
    return f"""left_{side} AS (
    SELECT c.*, row_number() OVER (PARTITION BY c.relid, c.region) AS pair
    FROM net JOIN change c ON c.number = net.{side} CROSS JOIN generate_series(1, {copies}) WHERE {copies} > 0
)"""


def _listed(side: str, numbers: Sequence[int], alias: str = "") -> str:
    return ", ".join(f"{alias}{side}_{n}" for n in numbers)
