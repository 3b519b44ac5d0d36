"""From one kind of capture to the other while mirrors go on.

A transition is *begun* (others see that, and leave it alone), *stored* with a position of the new kind, *crossed* by
each mirror with its next refresh, and *settled* when all have: only then the old way is removed. Until it is stored
nothing has happened but installing; until it is settled the way back is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from freshlake.catalog.store import Catalog
from freshlake.errors import CaptureBusy
from freshlake.sources.captured.database import CapturedDatabase
from freshlake.sources.captured.positions import newest, place_of
from freshlake.sources.captured.state import CaptureState
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.flushing import flush
from freshlake.sources.postgres.handover import Handover, to_triggers, to_wal
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.position import Position
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.install import uninstall
from freshlake.sources.postgres.wal.publication import unpublish

_ATTEMPTS = 5
"""Others pin positions meanwhile; rarely in the moment between a hand-over and its being stored."""

_SETTLE_SECONDS = 1.0
"""What is in nobody's way need not be removed at once: writers are not kept waiting for it."""


@dataclass
class Transition:
    """One attempt; the moment at which it was begun tells it from others."""

    database: CapturedDatabase
    catalog: Catalog
    now: Callable[[], datetime]
    _begun: datetime | None = None

    def begin(self, *, instead: bool = False) -> bool:
        """Whether it is ours: nobody else is on the way to the other kind, or we go `instead` of him."""
        with self.catalog.transaction():
            state = self.database.state()
            if state.since is not None and not instead:
                return False
            self._begun = self.now()
            self._put(replace(state, since=self._begun))
            return True

    def to_wal(self, slot_seconds: float) -> None:
        """Make a slot and hand over to it, after waiting so long for each transaction that is running."""
        database = self.database
        try:
            if self._without_tables(Mode.WAL):
                return
            for _ in range(_ATTEMPTS):
                with to_wal(database.pool, database.names, self._tables(), slot_seconds=slot_seconds) as (found, _):
                    if self._store(found):
                        return
        except BaseException:
            self.take_back()
            raise
        self.take_back()
        raise self._busy()

    def to_triggers(self) -> None:
        """Back to triggers: those that are still there if no mirror has gone on without them, or new ones."""
        database = self.database
        if database.state().mode is Mode.TRIGGER or self._without_tables(Mode.TRIGGER) or self._withdraw():
            self.take_back()
            return
        try:
            for _ in range(_ATTEMPTS):
                if self._store(to_triggers(database.pool, database.names, self._tables())):
                    return
        except BaseException:
            self._give_up()
            raise
        self._give_up()
        raise self._busy()

    def settle(self) -> bool:
        """Remove the old way if every mirror has come past the hand-over; whether it did."""
        state = self.database.state()
        if not state.crossings or self._behind(state.crossings[-1].version):
            return False
        if state.mode is Mode.WAL:
            with self.database.pool.take() as connection:
                uninstall(connection, self.database.names, lock_seconds=_SETTLE_SECONDS)
        else:
            self._remove_log(_SETTLE_SECONDS)
        with self.catalog.transaction():
            if self.database.state() != state:
                return False
            self._put(state.settled())
        return True

    def take_back(self) -> None:
        """End what was begun and not stored, after removing what a way to the log has installed."""
        state = self.database.state()
        if not state.crossings and state.since == self._begun:
            if state.mode is Mode.TRIGGER:
                self._remove_log()
            self._give_up()

    # Steps -----------------------------------------------------------------------------------------------------------

    def _tables(self) -> list[Captured]:
        return [mine.captured for mine in self.database.mirrored()]

    def _without_tables(self, mode: Mode) -> bool:
        """Nothing is captured yet: the next table will be captured the other way."""
        with self.catalog.transaction():
            if self.database.mirrored():
                return False
            self._put(CaptureState(mode))
            return True

    def _store(self, handover: Handover) -> bool:
        """Whether positions are of the other kind now; not if one was pinned beyond the hand-over, or tables or columns
        came, or somebody goes instead of us."""
        catalog, database = self.catalog, self.database
        with catalog.transaction():
            seen = catalog.database(database.name)
            known = newest(seen)
            mirrors = {mine.captured.oid: mine for mine in database.mirrored()}
            if CaptureState.from_json(seen.capture).since != self._begun:
                return False
            if {t.oid: t.names for t in handover.tables} != {oid: m.captured.names for oid, m in mirrors.items()}:
                return False
            if known is not None and not _reaches(handover.before, place_of(known)):
                return False
            pinned = catalog.pin_position(seen, handover.after.to_json())
            assert pinned is not None
            state = CaptureState.from_json(seen.capture).crossed(pinned.version, handover)
            for captured in handover.tables:
                mine = mirrors[captured.oid]
                database.put(mine.mirror, replace(captured, held=mine.captured.held), state)
            self._put(state)
            return True

    def _withdraw(self) -> bool:
        """Forget a hand-over to the log that no mirror has crossed: the triggers have never stopped."""
        place = self.database.ways[Mode.TRIGGER].head()
        with self.database.pool.take() as connection:
            flush(connection)
        with self.catalog.transaction():
            seen, state = self.catalog.database(self.database.name), self.database.state()
            if not state.crossings or self._beyond(state.crossings[-1].version):
                return False
            self.catalog.pin_position(seen, place.to_json())
            self._put(replace(state, mode=Mode.TRIGGER, crossings=state.crossings[:-1]))
            return True

    def _give_up(self) -> None:
        """End what was begun and not stored; somebody who goes instead of us is left alone."""
        with self.catalog.transaction():
            state = self.database.state()
            if not state.crossings and state.since == self._begun:
                self._put(state.settled())

    def _remove_log(self, lock_seconds: float = LOCK_SECONDS) -> None:
        database = self.database
        database.log.drop_slot()
        with database.pool.take() as connection:
            unpublish(connection, database.names, lock_seconds=lock_seconds)

    def _put(self, state: CaptureState) -> None:
        self.catalog.put_capture(self.database.name, state.to_json(), state.word)

    def _behind(self, version: int) -> bool:
        return any(at.version < version for at in self.database.standing())

    def _beyond(self, version: int) -> bool:
        return any(at.version >= version for at in self.database.standing())

    def _busy(self) -> CaptureBusy:
        return CaptureBusy(f"other processes move source {self.database.name} all the time", hint="try again")


def _reaches(before: Position, known: Position) -> bool:
    """Whether a hand-over lies at or behind what was pinned last; a history that is lost does not stand in the way."""
    return known.origin != before.origin or before == known or before.is_ahead_of(known)
