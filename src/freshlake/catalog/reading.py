"""What readers wait for, and how often they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from freshlake.catalog.database import Database
from freshlake.catalog.rows import fetch_one
from freshlake.catalog.stream_tables import require
from freshlake.catalog.tables import reads
from freshlake.catalog.upsert import upsert
from freshlake.errors import NotFound


@dataclass(frozen=True)
class Readership:
    """The readers of a stream table."""

    stream_table_id: int
    wanted_at: datetime | None = None
    last_read_at: datetime | None = None
    reads_per_minute: float = 0.0


class Reading(Database):
    """Ask for a refresh, and count reads."""

    def want(self, stream_table_id: int) -> datetime:
        """Somebody waits for the contents of now: whoever keeps the lake fresh refreshes the table next."""
        now = self._clock.now()
        self._put(stream_table_id, wanted_at=now)
        return now

    def add_reads(self, counts: Mapping[int, int], rate: Callable[[float, float, int], float]) -> None:
        """Tables were read so many times; those that were dropped are left out.

        `rate` makes the new reads a minute from the old, the seconds since the last read, and the number of reads.
        """
        now = self._clock.now()
        with self._write():
            for stream_table_id, count in counts.items():
                known = self.readership(stream_table_id)
                since = (now - known.last_read_at).total_seconds() if known.last_read_at else 0.0
                now_and_then = rate(known.reads_per_minute, since, count)
                try:
                    self._put(stream_table_id, last_read_at=now, reads_per_minute=now_and_then)
                except NotFound:
                    continue

    def readership(self, stream_table_id: int) -> Readership:
        """What is known of the readers of a table."""
        query = select(reads).where(reads.c.stream_table_id == stream_table_id)
        with self._read() as connection:
            return fetch_one(connection, query, Readership) or Readership(stream_table_id)

    def _put(self, stream_table_id: int, **values: object) -> None:
        with self._write() as connection:
            require(connection, stream_table_id)
            new = {"stream_table_id": stream_table_id, "reads_per_minute": 0.0, **values}
            statement = upsert(connection, reads).values(**new)
            connection.execute(statement.on_conflict_do_update(index_elements=["stream_table_id"], set_=values))
