"""Deliveries: which stream table is kept in which table of a database, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, func, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.history import storable
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.tables import deliveries, stream_tables
from freshlake.errors import AlreadyExists, NotFound


@dataclass(frozen=True)
class Delivery:
    """A stream table and the table (`schema.table`) of a database that holds its rows, as far as is known here."""

    database: str
    target: str
    stream_table_id: int
    generation: int | None
    version: int | None
    rows: int | None
    """How many were sent last: changes, or all of them."""
    reason: str | None
    """Why all rows were sent; None for changes."""
    delivered_at: datetime | None
    attempts: int
    """Failures since the last success."""
    error: str | None
    created_at: datetime

    @property
    def full_target(self) -> str:
        return f"{self.database}.{self.target}"


class Deliveries(Database):
    """Add, move and end deliveries."""

    def insert_delivery(self, stream_table_id: int, database: str, target: str) -> Delivery:
        """Add a delivery; raises AlreadyExists."""
        values = {"database": database, "target": target, "stream_table_id": stream_table_id, "attempts": 0}
        with self._write() as connection:
            if self.find_delivery(database, target) is not None:
                raise AlreadyExists(
                    f"{database}.{target} holds another stream table already", hint="choose another table"
                )
            connection.execute(insert(deliveries).values(**values, created_at=self._clock.now()))
            return self.delivery(database, target)

    def find_delivery(self, database: str, target: str) -> Delivery | None:
        """The delivery into a table, or None."""
        with self._read() as connection:
            return fetch_one(connection, select(deliveries).where(_is(database, target)), Delivery)

    def delivery(self, database: str, target: str) -> Delivery:
        """The delivery into a table; raises NotFound."""
        found = self.find_delivery(database, target)
        if found is None:
            raise NotFound(
                f"nothing is delivered into {database}.{target}", hint="fl.deliveries() shows those that there are"
            )
        return found

    def deliveries(self, stream_table_id: int | None = None) -> tuple[Delivery, ...]:
        """All deliveries, or those of one stream table, by their targets."""
        query = select(deliveries).order_by(deliveries.c.database, deliveries.c.target)
        if stream_table_id is not None:
            query = query.where(deliveries.c.stream_table_id == stream_table_id)
        with self._read() as connection:
            return fetch(connection, query, Delivery)

    def delivered(self, known: Delivery, *, generation: int, version: int, rows: int, reason: str | None) -> None:
        """Say which version a table holds now."""
        values = {"generation": generation, "version": version, "rows": rows, "reason": reason}
        succeeded = {"attempts": 0, "error": None, "delivered_at": self._clock.now()}
        self._alter(known, {**values, **succeeded})

    def delivery_failed(self, known: Delivery, error: str) -> None:
        """Remember that an attempt failed, and why."""
        self._alter(known, {"attempts": deliveries.c.attempts + 1, "error": storable(error)})

    def delete_delivery(self, known: Delivery) -> None:
        """Forget a delivery."""
        with self._write() as connection:
            connection.execute(delete(deliveries).where(_is(known.database, known.target)))

    def late_deliveries(self) -> tuple[Delivery, ...]:
        """Those whose table does not hold the published version, as far as is known here."""
        table = stream_tables.c
        current = and_(
            deliveries.c.generation == table.published_generation, deliveries.c.version == table.published_version
        )
        query = (
            select(deliveries)
            .join(stream_tables, table.id == deliveries.c.stream_table_id)
            .where(table.is_populated, func.coalesce(current, False).is_(False))
            .order_by(deliveries.c.database, deliveries.c.target)
        )
        with self._read() as connection:
            return fetch(connection, query, Delivery)

    def minimum_delivered_version(self, stream_table_id: int) -> int | None:
        """The lowest version of the published generation that a table holds; None when none does."""
        table = stream_tables.c
        query = (
            select(func.min(deliveries.c.version))
            .join(stream_tables, table.id == deliveries.c.stream_table_id)
            .where(table.id == stream_table_id, deliveries.c.generation == table.published_generation)
        )
        with self._read() as connection:
            found: int | None = connection.execute(query).scalar()
            return found

    def _alter(self, known: Delivery, values: dict[str, object]) -> None:
        with self._write() as connection:
            connection.execute(update(deliveries).where(_is(known.database, known.target)).values(**values))


def _is(database: str, target: str) -> ColumnElement[bool]:
    return and_(deliveries.c.database == database, deliveries.c.target == target)
