"""Points: which roots every state of a stream table was equal to its query at."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from freshlake.catalog.database import Database
from freshlake.catalog.records import Json, StatePoint
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.tables import points


class Points(Database):
    """Look up and forget points; commits add them."""

    def points(self, stream_table_id: int, limit: int | None = None) -> tuple[StatePoint, ...]:
        """Newest first."""
        query = select(points).where(points.c.stream_table_id == stream_table_id).order_by(points.c.id.desc())
        with self._read() as connection:
            return fetch(connection, query if limit is None else query.limit(limit), StatePoint)

    def point_at(self, stream_table_id: int, generation: int, version: int) -> StatePoint | None:
        """The newest point of one state."""
        query = select(points).where(
            points.c.stream_table_id == stream_table_id,
            points.c.generation == generation,
            points.c.version == version,
        )
        with self._read() as connection:
            return fetch_one(connection, query.order_by(points.c.id.desc()).limit(1), StatePoint)

    def prune_points(self, stream_table_id: int, *, generation: int, before: int) -> int:
        """Forget states that can no longer be read; returns how many points that were."""
        old = (points.c.generation < generation) | ((points.c.generation == generation) & (points.c.version < before))
        with self._write() as connection:
            return connection.execute(delete(points).where(points.c.stream_table_id == stream_table_id, old)).rowcount


def put_point(
    connection: Connection, stream_table_id: int, generation: int, version: int, frontier: Json, at: datetime
) -> None:
    """Add a point inside a transaction, if the frontier says its roots and they agree."""
    if frontier.get("roots") is None or frontier.get("mixed"):
        return
    values = {"generation": generation, "version": version, "roots": frontier["roots"], "at": at}
    connection.execute(insert(points).values(stream_table_id=stream_table_id, **values))
