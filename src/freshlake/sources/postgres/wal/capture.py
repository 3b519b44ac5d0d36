"""Reading the log through a slot: pulled when wanted, and confirmed when it is durable.

The server decodes what was committed after the slot's confirmed place, each time from there. A batch takes of it the
transactions whose commits lie from `start` to before `end`, so reading again, or reading what was landed but not
confirmed, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from os import getpid
from typing import TYPE_CHECKING, Any

from freshlake.errors import InvalidArgument, SourceHistoryLost, SourceReplaced
from freshlake.sources.postgres.capture import CopyPoint, Mode
from freshlake.sources.postgres.compare import compare
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.copying import PIECE_BYTES
from freshlake.sources.postgres.describe import describe_oids
from freshlake.sources.postgres.events import Event, Resync
from freshlake.sources.postgres.flushing import heartbeat
from freshlake.sources.postgres.naming import Names, literal
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import LsnPosition, Position
from freshlake.sources.postgres.server import Server, look
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.wal import slot
from freshlake.sources.postgres.wal.assemble import Assembler
from freshlake.sources.postgres.wal.pgoutput import Message, parse
from freshlake.sources.postgres.wal.publication import missing, touch

if TYPE_CHECKING:
    import psycopg

SLOT_SECONDS = 300.0
_PROTOCOLS = (1, 2)
_COPIES = count(1)
_PLACES = "SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"


class WalCapture:
    """The captured tables of one database, from its log; positions are places in the log."""

    mode = Mode.WAL

    def __init__(self, pool: Pool, names: Names, *, piece_bytes: int = PIECE_BYTES, protocol: int = 1) -> None:
        if protocol not in _PROTOCOLS:
            raise InvalidArgument(f"pgoutput's protocol {protocol} is not known here", hint="use 1 or 2")
        self._pool = pool
        self._names = names
        self._piece_bytes = piece_bytes
        self._protocol = protocol

    def head(self) -> LsnPosition:
        """The end of the log, after making sure that all of it is on disk and can be decoded."""
        with self._pool.take() as connection:
            with transaction(connection, read_only=True) as cursor:
                origin = look(cursor).origin
                text, is_flushed = cursor.execute(_PLACES).fetchone() or ("", True)
            if not is_flushed:
                heartbeat(connection)
        return LsnPosition.parse(origin, text)

    @contextmanager
    def create_slot(self, tables: Sequence[Captured], *, slot_seconds: float = SLOT_SECONDS) -> Iterator[CopyPoint]:
        """Make the slot, and hold the point at which it begins for the first copy of the tables.

        It waits for each transaction that is running, at most so long. A slot that an earlier try left is dropped.
        """
        self.drop_slot()
        with self._pool.take() as connection, transaction(connection, read_only=True, keep=_places(tables)) as cursor:
            server = look(cursor)
            name = self._names.slot(server.database_oid)
            with slot.created(self._pool.reference, name, server.origin, seconds=slot_seconds) as point:
                self._refresh_catalog()
                yield point

    def _refresh_catalog(self) -> None:
        """Commit a change of the catalog, after which the server decodes by its newest state.

        PostgreSQL does not see tables that were truncated or created while the slot was being made, until the next
        such commit (pgsql-hackers, November 2025). The captured tables are kept from that by their locks; others of the
        database would stop decoding with an error.
        """
        with self._pool.take() as connection, transaction(connection) as cursor:
            touch(cursor, self._names)

    @contextmanager
    def copy_point(self, tables: Sequence[Captured]) -> Iterator[CopyPoint]:
        """A slot that lives as long as the block gives a place in the log and the snapshot that belongs to it."""
        with self._pool.take() as connection, transaction(connection, read_only=True, keep=_places(tables)) as cursor:
            server = look(cursor)
            name = f"{self._names.slot(server.database_oid)}_copy_{getpid()}_{next(_COPIES)}"
            with slot.created(self._pool.reference, name, server.origin, temporary=True, seconds=SLOT_SECONDS) as point:
                yield point

    def read(self, start: Position, end: Position, tables: Sequence[Captured]) -> Iterator[Event]:
        if not isinstance(start, LsnPosition) or not isinstance(end, LsnPosition):
            raise InvalidArgument("the log is read between two of its places, not snapshots")
        with self._pool.take() as connection:
            with transaction(connection, read_only=True) as cursor:
                server = look(cursor)
                name = self._slot(cursor, server, start, end)
                yield from self._decoded(cursor, name, start, end, tables)
            # after decoding, so that all DDL of the batch can be seen
            with transaction(connection, read_only=True) as cursor:
                yield from self._interruptions(cursor, server, tables)

    def confirm(self, upto: Position) -> None:
        if not isinstance(upto, LsnPosition):
            raise InvalidArgument("the log is confirmed up to one of its places")
        with self._pool.take() as connection, transaction(connection) as cursor:
            server = look(cursor)
            _check_origin(server, upto)
            name = self._names.slot(server.database_oid)
            if upto.is_ahead_of(slot.required(cursor, name, server.origin)):
                cursor.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [name, upto.text])

    def drop_slot(self) -> None:
        """Let the server forget its log; no error if it has."""
        with self._pool.take() as connection, transaction(connection) as cursor:
            slot.drop(cursor, self._names.slot(look(cursor).database_oid))

    def slot_state(self) -> slot.SlotState | None:
        """The slot as the server shows it."""
        with self._pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return slot.state(cursor, self._names.slot(look(cursor).database_oid))

    def _slot(self, cursor: psycopg.Cursor[Any], server: Server, start: LsnPosition, end: LsnPosition) -> str:
        """The name of the slot, which must reach back to the batch's start."""
        _check_origin(server, start, end)
        self._check_end(cursor, start)
        if start.is_ahead_of(end):
            raise InvalidArgument("a batch leads from a place in the log to a later one")
        name = self._names.slot(server.database_oid)
        confirmed = slot.required(cursor, name, server.origin)
        if confirmed.is_ahead_of(start):
            raise SourceHistoryLost(
                f"replication slot {name} begins after the changes that are wanted",
                detail=f"it was confirmed up to {confirmed.text}, and {start.text} is wanted",
                hint="copy the tables anew",
            )
        return name

    def _check_end(self, cursor: psycopg.Cursor[Any], start: LsnPosition) -> None:
        (text, _) = cursor.execute(_PLACES).fetchone() or ("", True)
        if start.is_ahead_of(LsnPosition.parse(start.origin, text)):
            raise SourceReplaced(
                "the database was put back to an older state",
                detail=f"its log ends at {text}, and {start.text} was read before",
                hint="copy its tables anew",
            )

    def _decoded(
        self,
        cursor: psycopg.Cursor[Any],
        name: str,
        start: LsnPosition,
        end: LsnPosition,
        tables: Sequence[Captured],
    ) -> Iterator[Event]:
        if start == end:
            return
        options = {"proto_version": str(self._protocol), "publication_names": self._names.publication}
        words = ", ".join(literal(word) for pair in options.items() for word in pair)
        changes = f"pg_logical_slot_peek_binary_changes({literal(name)}, '{end.text}', NULL, {words})"
        assembler = Assembler(tables, start.lsn, end.lsn, self._piece_bytes)
        yield from assembler.events(_messages(cursor, f"SELECT data FROM {changes}"))

    def _interruptions(
        self, cursor: psycopg.Cursor[Any], server: Server, tables: Sequence[Captured]
    ) -> Iterator[Resync]:
        now = describe_oids(cursor, server, [t.oid for t in tables])
        absent = missing(cursor, self._names, tables)
        for captured in tables:
            difference = compare(captured, now.get(captured.oid))
            if difference.reason is not None:
                yield Resync(captured, difference.reason, difference.detail)
            elif captured.oid in absent:
                yield absent[captured.oid]


def _messages(cursor: psycopg.Cursor[Any], query: str) -> Iterator[Message]:
    """Row by row: the server keeps a large result on its disk, and we keep nothing of it."""
    with cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as copy:
        copy.set_types(["bytea"])
        for (data,) in copy.rows():
            yield parse(data)


def _places(tables: Sequence[Captured]) -> list[str]:
    return [captured.table.quoted_name for captured in tables]


def _check_origin(server: Server, *positions: LsnPosition) -> None:
    for position in positions:
        if position.origin != server.origin:
            raise SourceReplaced(
                "the database has another history than the one that was captured",
                detail=f"it was {position.origin} and is {server.origin}: a failover, a restore, or another server",
                hint="copy its tables anew",
            )
