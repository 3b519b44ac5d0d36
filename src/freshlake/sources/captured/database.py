"""One source database in this process: where it stands, what happened in it, and the point at which tables are copied.

All its captured tables are read between the same two positions, and a position is in the catalog before anything is
read up to it. So every mirror that stands at a position holds the same state of the database, also after a crash.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import SparkSession

from freshlake.catalog.enums import Status
from freshlake.catalog.records import StreamTable
from freshlake.catalog.source_records import SourceDatabase
from freshlake.catalog.store import Catalog
from freshlake.errors import CaptureBusy, SourceHistoryLost
from freshlake.sources.captured.batch import Batch, TableChange, gather
from freshlake.sources.captured.copying import CopyLimits, TableCopy
from freshlake.sources.captured.positions import newest, numbered, place_of
from freshlake.sources.captured.spool import Spooled, clear
from freshlake.sources.postgres.capture import Capture, CopyPoint
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import Position as Place
from freshlake.sources.postgres.position import SnapshotPosition
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.capture import TriggerCapture
from freshlake.sources.postgres.watching import gaps, has_changes, signature
from freshlake.sources.protocol import Position

if TYPE_CHECKING:
    import psycopg

_ATTEMPTS = 5
"""Others may pin a position at the same time; they do not do so all the time."""
_KEPT_BATCHES = 2


@dataclass(frozen=True)
class Mirrored:
    """A captured table with its mirror; `resync` says why the table has to be copied anew."""

    mirror: StreamTable
    captured: Captured
    resync: str | None = None

    def stands_at(self, key: str) -> Position | None:
        """How far the mirror has come; None if what it holds leads nowhere."""
        known = (self.mirror.frontier or {}).get("sources", {}).get(key)
        return Position.from_json(known) if known and self.mirror.is_populated and self.resync is None else None


@dataclass
class Held:
    """A point that is held for copies, and what was copied there."""

    point: CopyPoint
    folder: Path
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
    ) -> None:
        self.name, self.key = record.name, record.source_key
        self.names = Names(project_of(catalog.lake_id, record.name))
        self.pool = Pool(ConnectionReference.parse(record.connection))
        self.capture: Capture = TriggerCapture(self.pool, self.names)
        self._catalog, self._spark, self._limits = catalog, spark, limits or CopyLimits()
        self._staging = staging / uuid4().hex
        self._held: dict[Position, Held] = {}
        self._batches: OrderedDict[tuple[str, str], Batch] = OrderedDict()
        self._sound: str | None = None
        self._released: Position | None = None
        self._lock = RLock()

    def mirrored(self) -> list[Mirrored]:
        """The captured tables, as the catalog has them now."""
        records = self._catalog.captured_tables(self.name)
        mirrors = self._catalog.stream_tables_by_id([record.stream_table_id for record in records])
        return [
            Mirrored(mirrors[r.stream_table_id], Captured.from_json(r.captured), r.resync)
            for r in records
            if r.stream_table_id in mirrors
        ]

    # Positions -------------------------------------------------------------------------------------------------------

    def head(self) -> Position:
        """The newest position; the last one again as long as no captured table changed."""
        for _ in range(_ATTEMPTS):
            seen = self._catalog.database(self.name)
            place = self.capture.head()
            known = newest(seen)
            if known is not None and (place == place_of(known) or not self._has_moved(place_of(known), place)):
                return known
            pinned = self._catalog.pin_position(seen, place.to_json())
            if pinned is not None:
                return numbered(pinned.version, place)
        raise self._busy()

    def _has_moved(self, start: Place, end: Place) -> bool:
        """Whether a mirror has something to do: rows, DDL, or a copy that is due."""
        active = [m for m in self.mirrored() if m.mirror.status is not Status.ERROR]
        if any(m.stands_at(self.key) is None for m in active) or start.origin != end.origin:
            return True
        tables = [m.captured for m in active]
        assert isinstance(start, SnapshotPosition)
        assert isinstance(end, SnapshotPosition)
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return bool(self._gaps(cursor, tables)) or has_changes(cursor, self.names, tables, start, end)

    def gaps(self) -> dict[int, Resync]:
        """The tables that were altered, or whose capture was, so that their changes cannot be followed."""
        tables = [m.captured for m in self.mirrored() if m.stands_at(self.key) is not None]
        if not tables:
            return {}
        with self.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            return self._gaps(cursor, tables)

    def _gaps(self, cursor: psycopg.Cursor[Any], tables: Sequence[Captured]) -> dict[int, Resync]:
        """Looked for only if something is not as it was when nothing was found."""
        sign = signature(cursor, self.names, tables)
        found = {} if sign == self._sound else gaps(cursor, look(cursor), self.names, tables)
        if not found:
            self._sound = sign
        return found

    @contextmanager
    def copying(self, tables: Sequence[Captured]) -> Iterator[Position]:
        """A new position at which these tables may be copied, for as long as the block runs."""
        with ExitStack() as held:
            position, point = self._copy_point(held, tables)
            self._held[position] = Held(point, self._folder())
            held.callback(self._let_go, position)
            yield position

    def _copy_point(self, held: ExitStack, tables: Sequence[Captured]) -> tuple[Position, CopyPoint]:
        for _ in range(_ATTEMPTS):
            seen = self._catalog.database(self.name)
            with ExitStack() as attempt:
                point = attempt.enter_context(self.capture.copy_point(tables))
                pinned = self._catalog.pin_position(seen, point.position.to_json())
                if pinned is not None:
                    held.enter_context(attempt.pop_all())
                    return numbered(pinned.version, point.position), point
        raise self._busy()

    def _let_go(self, position: Position) -> None:
        clear(self._held.pop(position).folder)

    def _busy(self) -> CaptureBusy:
        return CaptureBusy(f"other processes move source {self.name} all the time", hint="try again")

    # Reading ---------------------------------------------------------------------------------------------------------

    def change(self, captured: Captured, start: Position, end: Position) -> TableChange:
        """What happened to one table; all tables that stand at the same position are read with it."""
        with self._lock:
            batch = self._batch(start, end)
            if captured.oid not in batch.changes:
                batch = self._read(start, end, [captured])
            return batch.changes[captured.oid]

    def resyncs(self, start: Position, end: Position) -> dict[int, Resync]:
        """The tables whose changes cannot be followed from one position to the other."""
        with self._lock:
            return self._batch(start, end).resyncs

    def _batch(self, start: Position, end: Position) -> Batch:
        key = (start.fingerprint, end.fingerprint)
        if key not in self._batches:
            tables = [m.captured for m in self.mirrored() if m.stands_at(self.key) == start]
            self._batches[key] = self._read(start, end, tables)
            while len(self._batches) > _KEPT_BATCHES:
                clear(self._batches.popitem(last=False)[1].folder)
        return self._batches[key]

    def _read(self, start: Position, end: Position, tables: Sequence[Captured]) -> Batch:
        events = self.capture.read(place_of(start), place_of(end), tables) if start != end else iter(())
        return gather(events, tables, self._folder())

    def _folder(self) -> Path:
        return self._staging / uuid4().hex

    def forget(self) -> None:
        """What was read is not needed any more."""
        with self._lock:
            while self._batches:
                clear(self._batches.popitem()[1].folder)

    def copy(self, captured: Captured, at: Position) -> Spooled | None:
        """All rows of a table at a position that is held; None if it is not."""
        held = self._held.get(at)
        if held is None:
            return None
        if captured.oid not in held.copied:
            copy = TableCopy(self.pool, captured, held.point.snapshot, held.folder, self._limits)
            held.copied[captured.oid] = copy.rows(self._spark)
        return held.copied[captured.oid]

    def since(self, captured: Captured, at: Position) -> tuple[Spooled, TableChange]:
        """All rows of a table as they are now, and what has happened to it since a position."""
        with self.capture.copy_point([captured]) as point:
            if at.table_id != point.position.origin:
                raise SourceHistoryLost(f"source {self.name} has another history than at position {at.version}")
            rows = TableCopy(self.pool, captured, point.snapshot, self._folder(), self._limits).rows(self._spark)
            events = self.capture.read(place_of(at), point.position, [captured])
            return rows, gather(events, [captured], self._folder()).changes[captured.oid]

    # Forgetting ------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Let the database forget what every mirror has landed."""
        standing = [m.stands_at(self.key) for m in self.mirrored()]
        reached = [position for position in standing if position is not None]
        slowest = min(reached, key=lambda position: position.version, default=None)
        if slowest is not None and slowest != self._released:
            self.capture.confirm(place_of(slowest))
            self._released = slowest

    def close(self) -> None:
        self.forget()
        clear(self._staging)
        self.pool.close()


def project_of(lake_id: str, database: str) -> str:
    """A short id for what a lake installs in a database; two sources may lead to the same one."""
    return hashlib.sha256(f"{lake_id}/{database}".encode()).hexdigest()[:12]
