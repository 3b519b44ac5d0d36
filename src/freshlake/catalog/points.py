"""Points: which roots every state of a stream table was equal to its query at."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from freshlake.catalog.database import Database
from freshlake.catalog.records import Json, StatePoint
from freshlake.catalog.retention import PORTION
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.tables import points


class Points(Database):
    """Look up and forget points; commits add them."""

    def points(self, stream_table_id: int, limit: int | None = None) -> tuple[StatePoint, ...]:
        """Newest first."""
        query = select(points).where(points.c.stream_table_id == stream_table_id).order_by(points.c.id.desc())
        with self._read() as connection:
            return fetch(connection, query if limit is None else query.limit(limit), StatePoint)

    def published_points(
        self,
        stream_table_id: int,
        generation: int,
        upto: int,
        *,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[StatePoint, ...]:
        """Those of one generation up to a version, whose data is not later than a moment; newest first."""
        query = select(points).where(
            points.c.stream_table_id == stream_table_id, points.c.generation == generation, points.c.version <= upto
        )
        query = query if until is None else query.where(points.c.at <= until)
        with self._read() as connection:
            return fetch(connection, query.order_by(points.c.id.desc()).limit(limit), StatePoint)

    def point_at(self, stream_table_id: int, generation: int, version: int) -> StatePoint | None:
        """The newest point of one state."""
        query = select(points).where(
            points.c.stream_table_id == stream_table_id,
            points.c.generation == generation,
            points.c.version == version,
        )
        with self._read() as connection:
            return fetch_one(connection, query.order_by(points.c.id.desc()).limit(1), StatePoint)

    def forget_points(
        self, stream_table_id: int, *, before: datetime, generation: int, version: int, portion: int = PORTION
    ) -> int:
        """Forget points from before a time that say nothing more; returns how many.

        Those of states earlier than this generation and version, which can no longer be read; and of the points of one
        state all but the first, which says from when on it was right, and the last.
        """
        mine = points.c.stream_table_id == stream_table_id
        with self._read() as connection:
            # rows are in the order of time, so this reads only what is old
            young = select(points.c.id).where(mine, points.c.at >= before).order_by(points.c.id).limit(1)
            first = connection.execute(young).scalar()
            old = select(points.c.id, points.c.generation, points.c.version).where(mine).order_by(points.c.id)
            old = old if first is None else old.where(points.c.id < first)
            rows = [(i, (g, v)) for i, g, v in connection.execute(old.limit(portion))]
        opens, closes = {state: i for i, state in reversed(rows)}, {state: i for i, state in rows}
        kept = {*opens.values(), *closes.values()}
        gone = [i for i, state in rows if state < (generation, version) or i not in kept]
        if not gone:
            return 0
        with self._write() as connection:
            return connection.execute(delete(points).where(points.c.id.in_(gone))).rowcount

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
