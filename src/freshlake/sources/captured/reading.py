"""What happened between two positions of a database, each part of the way read as it was captured."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from uuid import uuid4

from freshlake.errors import (
    CaptureBusy,
    SourceHistoryLost,
    SourceUnreadable,
    StreamMalformed,
)
from freshlake.sources.captured.batch import Batch, TableChange, gather
from freshlake.sources.captured.positions import place_of
from freshlake.sources.captured.spool import clear
from freshlake.sources.captured.state import CaptureState, mode_of
from freshlake.sources.postgres.capture import Capture, Mode
from freshlake.sources.postgres.events import Event
from freshlake.sources.postgres.position import Position as Place
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.protocol import Position

_KEPT = 2
_OF_THE_LOG = (SourceUnreadable, StreamMalformed)
"""Errors that triggers may not have; a database that does not answer, or a slot that others read, is none of them."""


class Batches:
    """Batches of one database, each read once and kept until it is landed; any thread may use them."""

    def __init__(
        self, name: str, ways: Mapping[Mode, Capture], state: Callable[[], CaptureState], staging: Path
    ) -> None:
        self._name, self._ways, self._state, self._staging = name, ways, state, staging
        self._kept: OrderedDict[tuple[str, str], Batch] = OrderedDict()
        self._lock = RLock()
        self.failures = 0
        """How often in a row the log could not be read, though the database answered."""

    @property
    def is_busy(self) -> bool:
        """Whether another thread reads a batch, which may take long."""
        if not self._lock.acquire(blocking=False):
            return True
        self._lock.release()
        return False

    def folder(self) -> Path:
        """A new place for rows that are too many to be kept in memory."""
        return self._staging / uuid4().hex

    def between(self, start: Position, end: Position, tables: Callable[[], Sequence[Captured]]) -> Batch:
        """What happened to tables from one position to another; those are asked for only if it was not read yet."""
        key = (start.fingerprint, end.fingerprint)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._read(start, end, tables())
                while len(self._kept) > _KEPT:
                    clear(self._kept.popitem(last=False)[1].folder)
            self._check(start, end)
            return self._kept[key]

    def change(
        self, captured: Captured, start: Position, end: Position, tables: Callable[[], Sequence[Captured]]
    ) -> TableChange:
        """What happened to one table, read with the others or alone."""
        with self._lock:
            batch = self.between(start, end, tables)
            if captured.oid not in batch.changes:
                batch = self._read(start, end, [captured])
            return batch.changes[captured.oid]

    def since(self, captured: Captured, start: Position, end: Place) -> TableChange:
        """What happened to one table up to a place without a number, which is newer than all that have one."""
        events = self._events(start, end, None, [captured])
        change = gather(events, [captured], self.folder()).changes[captured.oid]
        self._check(start)
        return change

    def forget(self) -> None:
        """What was read is not needed any more."""
        with self._lock:
            while self._kept:
                clear(self._kept.popitem()[1].folder)

    def _read(self, start: Position, end: Position, tables: Sequence[Captured]) -> Batch:
        events = self._events(start, place_of(end), end.version, tables) if start != end else iter(())
        try:
            batch = gather(events, tables, self.folder())
        except _OF_THE_LOG:
            self.failures += mode_of(place_of(end)) is Mode.WAL
            raise
        self.failures = 0
        return batch

    def _events(self, start: Position, end: Place, upto: int | None, tables: Sequence[Captured]) -> Iterator[Event]:
        """What leads from one position to another, by way of the hand-overs between their numbers."""
        place = place_of(start)
        for crossing in self._state().between(start.version, upto):
            yield from self._way(place, crossing.before).read(place, crossing.before, tables)
            place = crossing.after
        yield from self._way(place, end).read(place, end, tables)

    def _check(self, start: Position, end: Position | None = None) -> None:
        """Raise if changes may be added up across one of the positions.

        Looked at when they are read: who adds them up says so before.
        """
        compacted = self._state().compacted
        if not compacted.has_state(start.version):
            raise SourceHistoryLost(
                f"changes of source {self._name} were added up across position {start.version}", hint="copy it anew"
            )
        if end is not None and not compacted.has_state(end.version):
            raise CaptureBusy(
                f"changes of source {self._name} were added up across position {end.version}",
                hint="try again: a refresh that begins now goes to a newer one",
            )

    def _way(self, start: Place, end: Place) -> Capture:
        if mode_of(start) is mode_of(end):
            return self._ways[mode_of(start)]
        if mode_of(start) is Mode.WAL:
            raise SourceHistoryLost(f"the log of source {self._name} is not captured any more", hint="copy it anew")
        raise CaptureBusy(f"source {self._name} has gone back to triggers in this moment", hint="try again")
