"""The alerts that were sent, for those who look later; a PostgreSQL catalog also tells those who listen."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select

from freshlake.catalog.database import Database
from freshlake.catalog.records import AlertRecord, Json
from freshlake.catalog.rows import fetch
from freshlake.catalog.tables import alerts

CHANNEL = "freshlake_alert"
# PostgreSQL takes payloads of less than 8000 bytes.
NOTIFY_BYTES = 7_999
MOST = 100_000


class AlertLog(Database):
    """Add, list and prune alerts. They are of names, not of tables, and stay when a table is dropped."""

    def add_alert(self, event: str, table: str | None, payload: Json, at: datetime | None = None) -> AlertRecord:
        """Keep an alert; with PostgreSQL everybody who listens to `freshlake_alert` is told by the same transaction."""
        at = at or self._clock.now()
        row = insert(alerts).values(at=at, event=event, stream_table=table, payload=payload).returning(alerts.c.id)
        with self._write() as connection:
            record = AlertRecord(connection.execute(row).scalar_one(), at, event, table, payload)
            _notify(connection, record)
            return record

    def alerts(
        self,
        limit: int | None = 50,
        *,
        event: str | None = None,
        table: str | None = None,
        since_id: int | None = None,
    ) -> tuple[AlertRecord, ...]:
        """Alerts, newest first: of an event, about a table, newer than an id."""
        query = select(alerts).order_by(alerts.c.id.desc())
        for column, value in ((alerts.c.event, event), (alerts.c.stream_table, table)):
            query = query if value is None else query.where(column == value)
        if since_id is not None:
            query = query.where(alerts.c.id > since_id)
        with self._read() as connection:
            return fetch(connection, query if limit is None else query.limit(limit), AlertRecord)

    def prune_alerts(self, before: datetime, most: int = MOST) -> int:
        """Forget alerts from before a time, and the oldest where there are more than `most`; returns how many."""
        with self._write() as connection:
            newest = connection.execute(select(func.max(alerts.c.id))).scalar()
            if newest is None:
                return 0
            # ids follow time, so this reads only what is about to go
            young = select(alerts.c.id).where(alerts.c.at >= before).order_by(alerts.c.id).limit(1)
            first = connection.execute(young).scalar()
            kept = max(newest - most + 1, newest + 1 if first is None else first)
            return connection.execute(delete(alerts).where(alerts.c.id < kept)).rowcount


def _notify(connection: Connection, alert: AlertRecord) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, notification(alert))))


def notification(alert: AlertRecord) -> str:
    """The alert as JSON; one that is too long says so and leaves its payload to a look at the id."""
    told = {"id": alert.id, "event": alert.event, "at": alert.at.isoformat(), "table": alert.stream_table}
    whole = json.dumps({**told, "payload": alert.payload})
    return whole if len(whole) <= NOTIFY_BYTES else json.dumps({**told, "payload": None, "cut": True})
