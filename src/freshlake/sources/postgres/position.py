"""Points in a database's history: a snapshot or a place in the log, each within one origin.

Snapshots and places in the log are two orders that do not agree: a transaction may be in the log and not yet visible.
So positions of one kind are never compared with those of the other; only a hand-over says that two of them are the
same point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from freshlake.errors import InvalidArgument

_SNAPSHOT = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


@dataclass(frozen=True)
class SnapshotPosition:
    """All transactions that a snapshot sees: those below `until`, except those that were `running`.

    Kept in its shortest form, so that two positions are equal exactly when they see the same transactions.
    """

    origin: str
    until: int
    running: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        until, running = self.until, {xid for xid in self.running if xid < self.until}
        while until - 1 in running:
            until -= 1
            running.discard(until)
        object.__setattr__(self, "until", until)
        object.__setattr__(self, "running", frozenset(running))

    @classmethod
    def parse(cls, origin: str, text: str) -> Self:
        """From PostgreSQL's pg_snapshot."""
        match = _SNAPSHOT.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"{text!r} is not a snapshot")
        return cls(origin, int(match[2]), frozenset(int(xid) for xid in match[3].split(",") if xid))

    @property
    def text(self) -> str:
        """As PostgreSQL's pg_snapshot."""
        xids = sorted(self.running)
        return f"{xids[0] if xids else self.until}:{self.until}:{','.join(map(str, xids))}"

    def sees(self, xid: int) -> bool:
        """Whether a transaction had ended here."""
        return xid < self.until and xid not in self.running

    def is_ahead_of(self, other: Position) -> bool:
        """Whether this sees all that the other sees, and more."""
        if not isinstance(other, SnapshotPosition) or other.origin != self.origin or other == self:
            return False
        if other.until - self.until > len(other.running):
            return False
        unseen = {xid for xid in self.running if xid < other.until} | set(range(self.until, other.until))
        return unseen <= other.running

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "snapshot", "origin": self.origin, "snapshot": self.text}


@dataclass(frozen=True)
class LsnPosition:
    """All transactions whose commit is in the log before `lsn`."""

    origin: str
    lsn: int

    @classmethod
    def parse(cls, origin: str, text: str) -> Self:
        """From PostgreSQL's pg_lsn."""
        match = _LSN.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"{text!r} is not a place in the log")
        return cls(origin, int(match[1], 16) << 32 | int(match[2], 16))

    @property
    def text(self) -> str:
        """As PostgreSQL's pg_lsn."""
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"

    def is_ahead_of(self, other: Position) -> bool:
        """Whether this is further in the same log."""
        return isinstance(other, LsnPosition) and other.origin == self.origin and self.lsn > other.lsn

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "lsn", "origin": self.origin, "lsn": self.text}


Position = SnapshotPosition | LsnPosition


def position_from_json(data: Mapping[str, Any]) -> Position:
    """The inverse of `to_json`."""
    if data["kind"] == "snapshot":
        return SnapshotPosition.parse(data["origin"], data["snapshot"])
    if data["kind"] == "lsn":
        return LsnPosition.parse(data["origin"], data["lsn"])
    raise InvalidArgument(f"{data['kind']!r} is not a kind of position")
