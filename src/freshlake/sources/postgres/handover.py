"""From one kind of capture to the other, at a point that both know: a snapshot and a place in the log.

To the log: a new slot exports a snapshot that sees exactly the transactions which the slot will not send. So what the
triggers wrote is read up to that snapshot, and the log from the slot's beginning. The triggers stay until the caller
removes them, and go on capturing: leaving the block with an error drops the slot, and nothing has happened.

To triggers: they are installed while locks keep every writer of the tables away. Whoever wrote before has committed,
so is in the log before this place and visible in this snapshot; whoever writes later meets the triggers. So the log is
read up to that place, and the triggers' buffers from that snapshot on. The slot stays until the caller drops it.

Both hold for the captured tables only, and for all of them at once. A hand-over is stored before anything is landed;
one that was not stored never was: what it installed is removed or used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from freshlake.sources.postgres.capture import CopyPoint, Mode
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import LsnPosition, Position, SnapshotPosition, position_from_json
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.capture import seen
from freshlake.sources.postgres.trigger.install import install_within
from freshlake.sources.postgres.wal.capture import SLOT_SECONDS, WalCapture
from freshlake.sources.postgres.wal.publication import publish


@dataclass(frozen=True)
class Handover:
    """Two positions that are the same point of the captured tables: read up to `before` the old way, and from `after`
    on the new way."""

    before: Position
    after: Position
    tables: tuple[Captured, ...]

    @property
    def mode(self) -> Mode:
        """The new way."""
        return Mode.WAL if isinstance(self.after, LsnPosition) else Mode.TRIGGER

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        positions = {"before": self.before.to_json(), "after": self.after.to_json()}
        return {**positions, "tables": [table.to_json() for table in self.tables]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Handover:
        """The inverse of `to_json`."""
        tables = tuple(Captured.from_json(table) for table in data["tables"])
        return cls(position_from_json(data["before"]), position_from_json(data["after"]), tables)


@contextmanager
def to_wal(
    pool: Pool,
    names: Names,
    tables: Sequence[Captured],
    *,
    lock_seconds: float = LOCK_SECONDS,
    slot_seconds: float = SLOT_SECONDS,
) -> Iterator[tuple[Handover, str]]:
    """From triggers to the log; gives the hand-over, and the snapshot to read the last batch of the triggers under.

    That snapshot sees transactions that are in the log and that nobody else may see yet. Read later, the batch is the
    same, but may have to be tried again until they can be seen.
    """
    with pool.take() as connection:
        published = publish(connection, names, tables, lock_seconds=lock_seconds)
    capture = WalCapture(pool, names)
    with capture.create_slot(published, slot_seconds=slot_seconds) as point:
        try:
            yield Handover(_snapshot(pool, point), point.position, published), point.snapshot
        except BaseException:
            capture.drop_slot()
            raise


def _snapshot(pool: Pool, point: CopyPoint) -> SnapshotPosition:
    with pool.take() as connection, transaction(connection, read_only=True, snapshot=point.snapshot) as cursor:
        return seen(cursor, point.position.origin)


def to_triggers(
    pool: Pool, names: Names, tables: Sequence[Captured], *, lock_seconds: float = LOCK_SECONDS
) -> Handover:
    """From the log to triggers."""
    with pool.take() as connection, transaction(connection) as cursor:
        # all that lies before the place in the log is on disk when this has committed
        cursor.execute("SET LOCAL synchronous_commit TO local")
        installed = install_within(cursor, names, tables, lock_seconds)
        origin = look(cursor).origin
        (place,) = cursor.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        before, after = LsnPosition.parse(origin, place), seen(cursor, origin)
    return Handover(before, after, tuple(made.captured for made in installed))
