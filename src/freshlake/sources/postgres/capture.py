"""What both kinds of capture promise to those who land changes in the lake.

One capture reads all captured tables of one database, and takes them from one position to the next together. The way
of a batch:

1. `end = capture.head()`; store `(start, end)` before anything is landed;
2. land `capture.read(start, end, tables)`; it may be read again, and gives the same changes each time;
3. when all of it is durable, `capture.confirm(end)`: what leads up to there may be forgotten.

A table is copied, for the first time or again, at a `copy_point()`: rows seen under its snapshot are exactly the state
at its position, and `read` goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from freshlake.sources.postgres.events import Event
from freshlake.sources.postgres.position import Position
from freshlake.sources.postgres.tables import Captured


class Mode(StrEnum):
    """How changes are captured."""

    TRIGGER = "trigger"
    WAL = "wal"


@dataclass(frozen=True)
class CopyPoint:
    """A position, and an exported snapshot that sees exactly what has happened up to it.

    Any number of transactions may see it, as long as the point is held: `BEGIN ISOLATION LEVEL REPEATABLE READ; SET
    TRANSACTION SNAPSHOT '…'`, or `transaction(connection, read_only=True, snapshot=…)`.
    """

    position: Position
    snapshot: str


class Capture(Protocol):
    """Changes of the captured tables of one database."""

    @property
    def mode(self) -> Mode:
        """How they are captured."""

    def head(self) -> Position:
        """The newest position that can be read up to."""

    def read(self, start: Position, end: Position, tables: Sequence[Captured]) -> Iterator[Event]:
        """What leads from one position to a later one, in pieces of bounded size.

        Raises SourceHistoryLost or SourceReplaced when the way is lost: then all tables are copied anew. The iterator
        holds a transaction until it is used up or closed.
        """

    def confirm(self, upto: Position) -> None:
        """Forget what leads up to a position; nobody will read from before it."""

    def copy_point(self, tables: Sequence[Captured]) -> AbstractContextManager[CopyPoint]:
        """A position to copy tables at, held for as long as the block runs.

        The tables are not truncated or altered for so long: that would empty them for the snapshot, too.
        """
