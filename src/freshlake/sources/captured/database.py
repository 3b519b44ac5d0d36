"""One source database in this process: where it stands, what happened in it, and the point at which tables are copied.

All its captured tables are read between the same two positions, and a position is in the catalog before anything is
read up to it. So every mirror that stands at a position holds the same state of the database, also after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import SparkSession

from freshlake.catalog.enums import Status
from freshlake.catalog.records import StreamTable
from freshlake.catalog.source_records import SourceDatabase
from freshlake.catalog.store import Catalog
from freshlake.errors import (
    CaptureBusy,
    FreshlakeError,
    SourceHistoryLost,
    SourceReplaced,
)
from freshlake.sources.captured.batch import TableChange
from freshlake.sources.captured.copying import CopyLimits, TableCopy
from freshlake.sources.captured.gaps import Gaps
from freshlake.sources.captured.positions import newest, numbered, place_of
from freshlake.sources.captured.reading import Batches
from freshlake.sources.captured.spool import Spooled, clear
from freshlake.sources.captured.state import CaptureState, mode_of
from freshlake.sources.postgres.blocking import block, unblock
from freshlake.sources.postgres.capture import Capture, CopyPoint, Mode
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.flushing import flush
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition
from freshlake.sources.postgres.position import Position as Place
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.buffers import published_by
from freshlake.sources.postgres.trigger.capture import TriggerCapture
from freshlake.sources.postgres.trigger.released import note_landed, read_note
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import obstacles
from freshlake.sources.postgres.wal.slot import SlotState
from freshlake.sources.postgres.wal.slot import state as slot_state
from freshlake.sources.postgres.watching import has_changes
from freshlake.sources.protocol import Position

if TYPE_CHECKING:
    import psycopg

_ATTEMPTS = 5
"""Others may pin a position at the same time; they do not do so all the time."""
_LOG_BYTES = 16 * 1024 * 1024
"""So much log without a captured change is not kept for longer: positions move, and it is confirmed."""


@dataclass(frozen=True)
class Mirrored:
    """A captured table with its mirror; `mode` is how it is captured, `resync` why it has to be copied anew."""

    mirror: StreamTable
    captured: Captured
    mode: str
    resync: str | None = None

    def stands_at(self, key: str) -> Position | None:
        """How far the mirror has come; None if what it holds leads nowhere."""
        known = (self.mirror.frontier or {}).get("sources", {}).get(key)
        return Position.from_json(known) if known and self.mirror.is_populated and self.resync is None else None


@dataclass
class Held:
    """A point that is held for copies of some tables, and what was copied there.

    Others may be truncated or altered meanwhile, and would look empty there.
    """

    point: CopyPoint
    folder: Path
    oids: frozenset[int]
    copied: dict[int, Spooled] = field(default_factory=dict)


FAILED = "failed"
"""The reason of a table that could not be captured anew."""


class CapturedDatabase:
    """Any thread may use it."""

    def __init__(
        self,
        catalog: Catalog,
        spark: SparkSession,
        record: SourceDatabase,
        staging: Path,
        limits: CopyLimits | None = None,
        takes_all: Callable[[StreamTable], bool] = lambda _: False,
    ) -> None:
        self.name, self.key = record.name, record.source_key
        self.names = Names(project_of(catalog.lake_id, record.name))
        self.pool = Pool(ConnectionReference.parse(record.connection))
        self.log = WalCapture(self.pool, self.names)
        self.triggers = TriggerCapture(self.pool, self.names)
        self.ways: dict[Mode, Capture] = {Mode.TRIGGER: self.triggers, Mode.WAL: self.log}
        self._catalog, self._spark, self._limits = catalog, spark, limits or CopyLimits()
        self._takes_all = takes_all
        self._staging = staging / uuid4().hex
        self._held: dict[Position, Held] = {}
        self._ddl = Gaps(record.name, self.names, self._is_whole)
        self._landed: Position | None = None
        self._released: Position | None = None
        self.batches = Batches(self.name, self.ways, self.state, self._staging)

    def mirrored(self) -> list[Mirrored]:
        """The captured tables, as the catalog has them now; not those of which nothing is needed yet."""
        records = [record for record in self._catalog.captured_tables(self.name) if record.captured["columns"]]
        mirrors = self._catalog.stream_tables_by_id([record.stream_table_id for record in records])
        return [
            Mirrored(mirrors[r.stream_table_id], Captured.from_json(r.captured), r.mode, r.resync)
            for r in records
            if r.stream_table_id in mirrors
        ]

    def put(self, mirror: StreamTable, captured: Captured, state: CaptureState) -> None:
        """Remember what a mirror holds, and how that is captured."""
        self._catalog.put_captured(
            mirror.id,
            database=self.name,
            table=captured.table.full_name,
            captured=captured.to_json(),
            mode=state.word,
        )

    def amend(self, mirror: StreamTable, before: Captured, after: Captured) -> None:
        """Remember what was found out about a table, unless others have asked for more of it since; raises CaptureBusy.

        Which columns the mirror has values of is not for them to say.
        """
        with self._catalog.transaction():
            now = self.captured(mirror)
            if now is None or now.names not in (before.names, after.names):
                raise CaptureBusy(f"more of table {before.table.full_name} is captured since this moment")
            self.put(mirror, replace(after, held=now.held), self.state())

    def captured(self, mirror: StreamTable) -> Captured | None:
        """What is captured of the table that a mirror holds, as the catalog has it now."""
        record = self._catalog.captured_table(mirror.id)
        return None if record is None else Captured.from_json(record.captured)

    def state(self) -> CaptureState:
        """How the database is captured now."""
        return CaptureState.from_json(self._catalog.database(self.name).capture)

    @property
    def is_settled(self) -> bool:
        """Whether it is captured one way, and on no way to the other."""
        state = self.state()
        return state.since is None and not state.crossings

    # Positions -------------------------------------------------------------------------------------------------------

    def head(self) -> Position:
        """The newest position; the last one again as long as no captured table changed."""
        for _ in range(_ATTEMPTS):
            seen = self._catalog.database(self.name)
            place = self.ways[CaptureState.from_json(seen.capture).mode].head()
            known = newest(seen)
            if known is not None and (place == place_of(known) or not self._has_moved(known, place)):
                return known
            pinned = self._pinned(seen, place)
            if pinned is not None:
                return pinned
        raise self._busy()

    def _pinned(self, seen: SourceDatabase, place: Place) -> Position | None:
        """A place under the next number, once all that it sees will survive a crash; None if others pinned one."""
        if isinstance(place, SnapshotPosition):  # the log is read only as far as it is on disk
            with self.pool.take() as connection:
                flush(connection)
        pinned = self._catalog.pin_position(seen, place.to_json())
        return None if pinned is None else numbered(pinned.version, place)

    def attainable(self, wanted: Position) -> Position:
        """A position that mirrors can be brought to: the newest one if changes may be added up across this one."""
        return wanted if self.state().compacted.has_state(wanted.version) else self.head()

    def _has_moved(self, start: Position, end: Place) -> bool:
        """Whether a mirror has something to do: rows, DDL, or a copy that is due."""
        mirrored = self.mirrored()
        active = [m for m in mirrored if m.mirror.status is not Status.ERROR]
        if any(m.stands_at(self.key) is None for m in active) or start.table_id != end.origin:
            return True
        tables, begin, standing = [m.captured for m in active], place_of(start), self._standing(mirrored)
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            if self._gaps(cursor, tables) or self._lost(cursor, standing):
                return True
            if isinstance(begin, SnapshotPosition) and isinstance(end, SnapshotPosition):
                return has_changes(cursor, self.names, tables, begin, end)
        return self._has_log(start, end, tables)

    def lost(self) -> dict[Position, FreshlakeError]:
        """Where mirrors stand that the database does not lead on from, because it or the lake was put back."""
        standing = self.standing()
        if not standing:
            return {}
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return self._lost(cursor, standing)

    def _lost(self, cursor: psycopg.Cursor[Any], standing: Sequence[Position]) -> dict[Position, FreshlakeError]:
        note, found = read_note(cursor, self.names), dict[Position, FreshlakeError]()
        for position in {*standing}:
            place = place_of(position)
            if isinstance(place, SnapshotPosition):
                try:
                    note.check_known(place)
                    note.check_kept(place)
                except (SourceHistoryLost, SourceReplaced) as error:
                    found[position] = error
        return found

    def _has_log(self, start: Position, end: Place, tables: Sequence[Captured]) -> bool:
        """Whether the log has a change of these tables, or is so long that the database should forget some of it."""
        begin = place_of(start)
        if not isinstance(begin, LsnPosition) or not isinstance(end, LsnPosition) or end.lsn - begin.lsn > _LOG_BYTES:
            return True
        if self.batches.is_busy:
            return True  # a position more costs less than waiting for who reads a long log
        try:
            return not self.batches.between(start, numbered(start.version + 1, end), lambda: tables).is_empty
        except (SourceHistoryLost, SourceReplaced):
            return True  # the mirrors will be copied at a new position

    def gaps(self) -> dict[int, Resync]:
        """The tables that were altered, or whose capture was, so that their changes cannot be followed."""
        tables = [m.captured for m in self.mirrored() if m.stands_at(self.key) is not None]
        if not tables:
            return {}
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return self._gaps(cursor, tables)

    def examined(self) -> tuple[dict[int, Resync], SlotState | None, tuple[str, ...]]:
        """Gaps, the slot where the log is read, and publications that send buffers, in one look at the database."""
        tables = [m.captured for m in self.mirrored() if m.stands_at(self.key) is not None]
        reads_log = self.reads_log
        if not tables and not reads_log:
            return {}, None, ()
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            slot = slot_state(cursor, self.names.slot(look(cursor).database_oid)) if reads_log else None
            return self._gaps(cursor, tables) if tables else {}, slot, published_by(cursor, self.names)

    @property
    def reads_log(self) -> bool:
        """Whether its tables are captured from the log."""
        return self.state().mode is Mode.WAL and bool(self.mirrored())

    def _gaps(self, cursor: psycopg.Cursor[Any], tables: Sequence[Captured]) -> dict[int, Resync]:
        return self._ddl.find(cursor, self.state().mode, tables)

    def _is_whole(self, captured: Captured) -> bool:
        found = (mine.mirror for mine in self.mirrored() if mine.captured.oid == captured.oid)
        return any(map(self._takes_all, found))

    def guard(self, *, blocks: bool) -> None:
        """Refuse DDL on what is captured now, or let all of it pass; raises PrivilegeMissing."""
        tables = [mine.captured for mine in self.mirrored()]
        with self.pool.take() as connection, transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
            if blocks and tables:
                block(cursor, look(cursor), self.names, tables)
            else:
                unblock(cursor, self.names)

    def obstacle(self) -> str | None:
        """Why tables cannot be captured from the log, also those of which nothing is captured yet; None if they can."""
        tables = [Captured.from_json(record.captured) for record in self._catalog.captured_tables(self.name)]
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            server = look(cursor)
            if server.free_slots < 1:
                return "all replication slots of the server are in use"
            found = [f"{t.table.full_name}: {why}" for t in tables for why in obstacles(server, t)]
        return found[0] if found else None

    @contextmanager
    def copying(self, tables: Sequence[Captured]) -> Iterator[Position]:
        """A new position at which these tables may be copied, for as long as the block runs."""
        with ExitStack() as held:
            position, point = self._copy_point(held, tables)
            self._held[position] = Held(point, self.batches.folder(), frozenset(table.oid for table in tables))
            held.callback(self._let_go, position)
            yield position

    def _copy_point(self, held: ExitStack, tables: Sequence[Captured]) -> tuple[Position, CopyPoint]:
        for _ in range(_ATTEMPTS):
            seen = self._catalog.database(self.name)
            with ExitStack() as attempt:
                mode = CaptureState.from_json(seen.capture).mode
                point = attempt.enter_context(self._point(mode, tables))
                pinned = self._pinned(seen, point.position)
                if pinned is not None:
                    held.enter_context(attempt.pop_all())
                    return pinned, point
        raise self._busy()

    def _point(self, mode: Mode, tables: Sequence[Captured]) -> AbstractContextManager[CopyPoint]:
        """A log that is not kept yet, or not any more, is kept from this point on."""
        slot = self.log.slot_state() if mode is Mode.WAL else None
        if mode is Mode.WAL and (slot is None or slot.is_lost):
            return self.log.create_slot(tables)
        return self.ways[mode].copy_point(tables)

    def _let_go(self, position: Position) -> None:
        clear(self._held.pop(position).folder)

    def _busy(self) -> CaptureBusy:
        return CaptureBusy(f"other processes move source {self.name} all the time", hint="try again")

    # Reading ---------------------------------------------------------------------------------------------------------

    def change(self, captured: Captured, start: Position, end: Position) -> TableChange:
        """What happened to one table; all tables that stand at the same position are read with it."""
        return self.batches.change(captured, start, end, lambda: self._standing_at(start))

    def resyncs(self, start: Position, end: Position) -> dict[int, Resync]:
        """The tables whose changes cannot be followed from one position to the other."""
        return self.batches.between(start, end, lambda: self._standing_at(start)).resyncs

    def _standing_at(self, position: Position) -> list[Captured]:
        return [mine.captured for mine in self.mirrored() if mine.stands_at(self.key) == position]

    def copy(self, captured: Captured, at: Position) -> Spooled | None:
        """All rows of a table at a position that is held for it; None if it is not."""
        held = self._held.get(at)
        if held is None or captured.oid not in held.oids:
            return None
        if captured.oid not in held.copied:
            copy = TableCopy(self.pool, captured, held.point.snapshot, held.folder, self._limits)
            held.copied[captured.oid] = copy.rows(self._spark)
        return held.copied[captured.oid]

    def since(self, captured: Captured, at: Position) -> tuple[Spooled, TableChange]:
        """All rows of a table as they are now, and what has happened to it since a position."""
        with self.ways[self.state().mode].copy_point([captured]) as point:
            if at.table_id != point.position.origin:
                raise SourceHistoryLost(f"source {self.name} has another history than at position {at.version}")
            copy = TableCopy(self.pool, captured, point.snapshot, self.batches.folder(), self._limits)
            return copy.rows(self._spark), self.batches.since(captured, at, point.position)

    # Forgetting ------------------------------------------------------------------------------------------------------

    def land(self, upto: Position) -> None:
        """Let the database know how far mirrors go, before any does; see `released`."""
        if upto == self._landed or not self.mirrored():
            return
        if isinstance(place := place_of(upto), SnapshotPosition):
            with self.pool.take() as connection, transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
                note_landed(cursor, self.names, place)
        self._landed = upto

    def release(self) -> None:
        """Let the database forget what every mirror has landed."""
        slowest = min(self.standing(), key=lambda position: position.version, default=None)
        if slowest is not None and slowest != self._released:
            place = place_of(slowest)
            self.ways[mode_of(place)].confirm(place)
            self._released = slowest

    def standing(self) -> list[Position]:
        """How far each mirror has come that can go on from there."""
        return self._standing(self.mirrored())

    def _standing(self, mirrored: Sequence[Mirrored]) -> list[Position]:
        found = (mine.stands_at(self.key) for mine in mirrored)
        return [position for position in found if position is not None]

    def close(self) -> None:
        self.batches.forget()
        clear(self._staging)
        self.pool.close()


def project_of(lake_id: str, database: str) -> str:
    """A short id for what a lake installs in a database; two sources may lead to the same one."""
    return hashlib.sha256(f"{lake_id}/{database}".encode()).hexdigest()[:12]
