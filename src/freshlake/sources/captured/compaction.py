"""Changes that wait for long are added up, never across a position that a batch may begin or end at.

Which positions these are is said in the catalog *before* anything is added up: those that mirrors stand at, and all
from the newest one on. It is said only while no mirror is refreshed, so none of them is on its way to another position;
a round that has pinned one goes to a newer position instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from freshlake.catalog.store import Catalog
from freshlake.sources.captured.database import CapturedDatabase, Mirrored
from freshlake.sources.captured.positions import place_of
from freshlake.sources.captured.state import CaptureState, Compacted
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.position import SnapshotPosition
from freshlake.sources.postgres.trigger.buffers import compact, lengths
from freshlake.sources.protocol import Position


@dataclass(frozen=True)
class Span:
    """Changes that may be added up: those before `upto`, not across `bounds`."""

    bounds: tuple[SnapshotPosition, ...]
    upto: SnapshotPosition


@dataclass
class Compaction:
    database: CapturedDatabase
    catalog: Catalog

    def long(self, least: int) -> dict[int, int]:
        """The buffers of more than so many rows, by the numbers of their tables."""
        if not _is_settled(self.database.state()):
            return {}
        with self.database.pool.take() as connection:
            return lengths(connection, self.database.names, least)

    def claim(self) -> Span | None:
        """What may be added up from now on; None if nothing waits, or this is not the time for it."""
        database = self.database
        newest = database.head()
        upto = place_of(newest)
        with self.catalog.transaction():
            state, mirrored = database.state(), database.mirrored()
            if not isinstance(upto, SnapshotPosition) or not _is_settled(state) or self._is_moving(mirrored):
                return None
            kept = {at.version: at for at in database.standing() if at.version < newest.version}
            if not kept or not all(map(state.compacted.has_state, (newest.version, *kept))):
                return None
            state = replace(state, compacted=Compacted(newest.version, tuple(sorted(kept))))
            self.catalog.put_capture(database.name, state.to_json(), state.word)
        return Span(_snapshots(list(kept.values())), upto)

    def run(self, oid: int, span: Span) -> int:
        """Add up the changes of one table; how many fewer there are."""
        with self.database.pool.take() as connection:
            return compact(connection, self.database.names, oid, span.bounds, upto=span.upto)

    def _is_moving(self, mirrored: Sequence[Mirrored]) -> bool:
        """Whether a mirror is refreshed or waits for its copy.

        A lease that a dead process has left counts: what it has committed is found by the next refresh.
        """
        return any(
            mine.stands_at(self.database.key) is None or self.catalog.lease(mine.mirror.id) is not None
            for mine in mirrored
        )


def _is_settled(state: CaptureState) -> bool:
    """Whether triggers capture all of it, and nothing else is on its way."""
    return state.mode is Mode.TRIGGER and state.since is None and not state.crossings


def _snapshots(positions: Sequence[Position]) -> tuple[SnapshotPosition, ...]:
    return tuple(place for place in map(place_of, positions) if isinstance(place, SnapshotPosition))
