"""How a database is captured, as the catalog keeps it: the mode of new positions, and the hand-overs before it.

A hand-over is kept under the number of the position at which the new way begins, until every mirror has come to that
number. So whoever reads from one position to another knows by their numbers where the way changes in between. Changes
that wait may have been added up across positions; which of them still stand for a state is known by their numbers, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.handover import Handover
from freshlake.sources.postgres.position import LsnPosition, Position, position_from_json

TRANSITIONING = "transitioning"


@dataclass(frozen=True)
class Crossing:
    """Two positions that are the same point, of which `after` has a number."""

    version: int
    before: Position
    after: Position

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"version": self.version, "before": self.before.to_json(), "after": self.after.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Crossing:
        """The inverse of `to_json`."""
        return cls(data["version"], position_from_json(data["before"]), position_from_json(data["after"]))


@dataclass(frozen=True)
class Compacted:
    """Changes before the position with this number may be added up, across all but those that are `kept`."""

    upto: int
    kept: tuple[int, ...] = ()

    def has_state(self, version: int) -> bool:
        """Whether a batch may begin or end at a position."""
        return version >= self.upto or version in self.kept


@dataclass(frozen=True)
class CaptureState:
    """`mode` is that of new positions. `since` is the moment at which a transition began that has not ended."""

    mode: Mode = Mode.TRIGGER
    crossings: tuple[Crossing, ...] = ()
    since: datetime | None = None
    compacted: Compacted = Compacted(0)

    @property
    def word(self) -> str:
        """How a table is captured now, in a word."""
        return str(self.mode) if self.since is None else TRANSITIONING

    def between(self, start: int, end: int | None) -> tuple[Crossing, ...]:
        """The hand-overs on the way from one position to another, by their numbers; without an end, to the newest."""
        return tuple(c for c in self.crossings if start < c.version and (end is None or c.version <= end))

    def crossed(self, version: int, handover: Handover) -> CaptureState:
        """New positions are of the other kind from this number on."""
        added = Crossing(version, handover.before, handover.after)
        return replace(self, mode=handover.mode, crossings=(*self.crossings, added))

    def settled(self) -> CaptureState:
        """All mirrors have come past the last hand-over."""
        return replace(self, crossings=(), since=None)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "mode": str(self.mode),
            "crossings": [crossing.to_json() for crossing in self.crossings],
            "since": None if self.since is None else self.since.isoformat(),
            "compacted": {"upto": self.compacted.upto, "kept": list(self.compacted.kept)},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaptureState:
        """The inverse of `to_json`; what was never written is capture by triggers."""
        since, compacted = data.get("since"), data.get("compacted", {"upto": 0, "kept": ()})
        return cls(
            Mode(data.get("mode", Mode.TRIGGER)),
            tuple(map(Crossing.from_json, data.get("crossings", ()))),
            None if since is None else datetime.fromisoformat(since),
            Compacted(compacted["upto"], tuple(compacted["kept"])),
        )


def mode_of(place: Position) -> Mode:
    """The kind of capture that a position belongs to."""
    return Mode.WAL if isinstance(place, LsnPosition) else Mode.TRIGGER
