"""Reading what triggers wrote: a batch is what one snapshot sees and the one before did not.

Sequence numbers are given out when a row is written, not when it is committed, so a reader that remembers a number
loses whoever committed later with a smaller one. Whether a snapshot sees a transaction has no such gap: each
transaction lies in exactly one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureBusy, InvalidArgument, SourceReplaced, ValueNotRepresentable
from freshlake.sources.postgres.capture import CopyPoint, Mode
from freshlake.sources.postgres.compare import Reason, compare
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.copying import PIECE_BYTES, copy_query
from freshlake.sources.postgres.describe import describe_oids
from freshlake.sources.postgres.events import Event, Resync, Rows, Truncated, not_representable
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import Position, SnapshotPosition
from freshlake.sources.postgres.server import Server, look
from freshlake.sources.postgres.tables import Captured, Table
from freshlake.sources.postgres.trigger.buffers import clean
from freshlake.sources.postgres.trigger.presence import missing
from freshlake.sources.postgres.trigger.released import read_note

if TYPE_CHECKING:
    import psycopg

_BETWEEN = "NOT pg_visible_in_snapshot(b.xid, {start}) AND pg_visible_in_snapshot(b.xid, {end})"
# The last truncation of the whole table; a partition's own one counts if rows came into it since.
_MARKS = """
SELECT coalesce(max(b.seq) FILTER (WHERE b.action = 'T' AND b.relid = {oid}), 0) AS truncated,
       bool_or(b.action = 'S') AS is_changed
FROM {buffer} b WHERE b.action IN ('S', 'T') AND {between}
"""
_PARTITION_MARKS = """
SELECT EXISTS (
    SELECT FROM {buffer} b
    WHERE b.action = 'T' AND b.relid = ANY ('{{{partitions}}}'::oid[]) AND b.seq > {truncated} AND {between}
    AND ({truncated} = 0 OR EXISTS (
        SELECT FROM {buffer} r WHERE r.relid = b.relid AND r.action <> 'T' AND r.seq > {truncated} AND r.seq < b.seq
    ))
)
"""


class TriggerCapture:
    """The captured tables of one database, by triggers; positions are snapshots."""

    mode = Mode.TRIGGER

    def __init__(
        self,
        pool: Pool,
        names: Names,
        *,
        piece_bytes: int = PIECE_BYTES,
        use_truncate: bool = True,
    ) -> None:
        self._pool = pool
        self._names = names
        self._piece_bytes = piece_bytes
        self._use_truncate = use_truncate

    def head(self) -> SnapshotPosition:
        with self._pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return seen(cursor, look(cursor).origin)

    @contextmanager
    def copy_point(self, tables: Sequence[Captured]) -> Iterator[CopyPoint]:
        keep = [captured.table.quoted_name for captured in tables]
        with self._pool.take() as connection, transaction(connection, read_only=True, keep=keep) as cursor:
            position = seen(cursor, look(cursor).origin)
            (snapshot,) = cursor.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            yield CopyPoint(position, snapshot)

    def read(
        self, start: Position, end: Position, tables: Sequence[Captured], *, snapshot: str | None = None
    ) -> Iterator[Event]:
        """`snapshot` reads under an exported one, which must see all that `end` sees."""
        if not isinstance(start, SnapshotPosition) or not isinstance(end, SnapshotPosition):
            raise InvalidArgument("triggers are read between two snapshots, not places in the log")
        with self._pool.take() as connection:
            with transaction(connection, read_only=True, snapshot=snapshot) as cursor:
                server = look(cursor)
                _check_origin(start, server)
                if snapshot is None:
                    read_note(cursor, self._names).check_kept(start)
                _check(start, end, seen(cursor, server.origin))
                yield from self._events(cursor, server, start, end, tables)
            # a buffer that is emptied at once is empty for everybody, so what was read may lack what it had
            with transaction(connection, read_only=True) as cursor:
                read_note(cursor, self._names).check_kept(start)

    def _events(
        self,
        cursor: psycopg.Cursor[Any],
        server: Server,
        start: SnapshotPosition,
        end: SnapshotPosition,
        tables: Sequence[Captured],
    ) -> Iterator[Event]:
        now = describe_oids(cursor, server, [t.oid for t in tables])
        absent = missing(cursor, self._names, tables)
        for captured in tables:
            why = _difference(captured, now.get(captured.oid)) or absent.get(captured.oid)
            if why is not None:
                yield why
                continue
            try:
                yield from self._changes(cursor, captured, start, end)
            except ValueNotRepresentable as error:
                yield not_representable(captured, error)

    def confirm(self, upto: Position) -> None:
        if not isinstance(upto, SnapshotPosition):
            raise InvalidArgument("what triggers wrote is confirmed up to a snapshot")
        with self._pool.take() as connection:
            with transaction(connection, read_only=True) as cursor:
                _check_origin(upto, look(cursor))
            clean(connection, self._names, upto, use_truncate=self._use_truncate)

    def _changes(
        self, cursor: psycopg.Cursor[Any], captured: Captured, start: SnapshotPosition, end: SnapshotPosition
    ) -> Iterator[Event]:
        between = _BETWEEN.format(start=f"'{start.text}'", end=f"'{end.text}'")
        parts = {"buffer": self._names.buffer(captured.oid), "oid": captured.oid, "between": between}
        truncated, is_changed = cursor.execute(_MARKS.format(**parts).encode()).fetchone() or (0, None)
        if is_changed:
            yield Resync(captured, Reason.SCHEMA_CHANGED, "a trigger met columns that it does not know")
            return
        # a former partition may still tell of itself
        partitions = ",".join(str(partition.oid) for partition in captured.table.partitions)
        if partitions and _is_partly_truncated(cursor, truncated, {**parts, "partitions": partitions}):
            yield Resync(captured, Reason.PARTITION_TRUNCATED, "one partition was truncated")
            return
        if truncated:
            yield Truncated(captured)
        query = images(captured, self._names, f"b.seq > {truncated} AND {between}")
        for rows in copy_query(cursor, captured, query, piece_bytes=self._piece_bytes):
            yield Rows(captured, rows)


def seen(cursor: psycopg.Cursor[Any], origin: str) -> SnapshotPosition:
    """What the cursor's transaction sees, as a position."""
    (text,) = cursor.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
    return SnapshotPosition.parse(origin, text)


def images(captured: Captured, names: Names, condition: str) -> str:
    """A query of weighted rows: old values with -1, new ones with 1."""
    columns = {side: ", ".join(f"b.{side}_{c.number}" for c in captured.columns) for side in "on"}
    buffer = names.buffer(captured.oid)
    return (
        f"SELECT -1, {columns['o']} FROM {buffer} b WHERE b.action IN ('U', 'D') AND {condition} "
        f"UNION ALL SELECT 1, {columns['n']} FROM {buffer} b WHERE b.action IN ('I', 'U') AND {condition}"
    )


def _is_partly_truncated(cursor: psycopg.Cursor[Any], truncated: int, parts: dict[str, Any]) -> bool:
    query = _PARTITION_MARKS.format(truncated=truncated, **parts)
    return cursor.execute(query.encode()).fetchone() == (True,)


def _difference(captured: Captured, now: Table | None) -> Resync | None:
    difference = compare(captured, now)
    return Resync(captured, difference.reason, difference.detail) if difference.reason else None


def _check(start: SnapshotPosition, end: SnapshotPosition, now: SnapshotPosition) -> None:
    if end.origin != now.origin:
        raise _replaced(end, now.origin)
    if end != start and not end.is_ahead_of(start):
        raise InvalidArgument("a batch leads from a snapshot to a later one")
    if end != now and not now.is_ahead_of(end):
        raise CaptureBusy(
            "transactions of this batch are committed but cannot be seen yet",
            detail="they wait for a standby that has to confirm them",
            hint="try again",
        )


def _check_origin(position: SnapshotPosition, server: Server) -> None:
    if position.origin != server.origin:
        raise _replaced(position, server.origin)


def _replaced(position: SnapshotPosition, origin: str) -> SourceReplaced:
    return SourceReplaced(
        "the database has another history than the one that was captured",
        detail=f"it was {position.origin} and is {origin}: a failover, a restore, or another server",
        hint="copy its tables anew",
    )
