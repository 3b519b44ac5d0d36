"""What a scheduler looks at in every tick: few columns, one query, and a number that says when the graph changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.leases import is_live
from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.catalog.rows import fetch
from freshlake.catalog.tables import leases, meta, stream_tables

_GRAPH = "dag_version"
_LOOKED_AT = (
    "id",
    "schema",
    "name",
    "schedule",
    "refresh_mode",
    "status",
    "tier",
    "data_timestamp",
    "retry_at",
    "fuse_state",
    "diamond_consistency",
    "diamond_schedule_policy",
    "quarantined_at",
)


@dataclass(frozen=True)
class Looked:
    """A stream table as a tick reads it."""

    id: int
    schema: str
    name: str
    schedule: str | None
    refresh_mode: RefreshMode
    status: Status
    tier: str | None
    data_timestamp: datetime | None
    retry_at: datetime | None
    fuse_state: str | None
    diamond_consistency: str
    diamond_schedule_policy: str
    quarantined_at: datetime | None
    owner: str | None
    expires_at: datetime | None

    @property
    def full_name(self) -> str:
        return str(TableName(self.schema, self.name))

    def is_leased(self, now: datetime) -> bool:
        return self.expires_at is not None and is_live(self.owner, self.expires_at, now)


class Watching(Database):
    """Read what ticks need."""

    def look(self) -> tuple[Looked, ...]:
        """All stream tables with their leases."""
        columns = [stream_tables.c[name] for name in _LOOKED_AT]
        held = stream_tables.outerjoin(leases, leases.c.stream_table_id == stream_tables.c.id)
        query = select(*columns, leases.c.owner, leases.c.expires_at).select_from(held)
        with self._read() as connection:
            return fetch(connection, query, Looked)

    def has_mode(self, mode: RefreshMode) -> bool:
        """Whether any stream table is refreshed so."""
        query = select(stream_tables.c.id).where(stream_tables.c.refresh_mode == mode).limit(1)
        with self._read() as connection:
            return connection.execute(query).first() is not None

    def stream_tables_by_id(self, ids: Iterable[int]) -> Mapping[int, StreamTable]:
        """Several stream tables; those that were dropped are missing."""
        query = select(stream_tables).where(stream_tables.c.id.in_(tuple(ids)))
        with self._read() as connection:
            return {table.id: table for table in fetch(connection, query, StreamTable)}

    def ids_of(self, names: Collection[str]) -> Mapping[str, int]:
        """The ids of stream tables by full name; those that were dropped are missing."""
        query = select(stream_tables.c.id, stream_tables.c.schema, stream_tables.c.name)
        with self._read() as connection:
            found = {str(TableName(row.schema, row.name)): row.id for row in connection.execute(query)}
        return {name: found[name] for name in names if name in found}

    def graph_version(self) -> int:
        """Another number whenever a stream table, what it reads, or a group was made, changed or dropped."""
        with self._read() as connection:
            return _graph_version(connection)


def graph_changed(connection: Connection) -> None:
    """Say inside a transaction that the graph is another one now."""
    number = str(_graph_version(connection) + 1)
    done = connection.execute(update(meta).where(meta.c.key == _GRAPH).values(value=number))
    if not done.rowcount:
        connection.execute(insert(meta).values(key=_GRAPH, value=number))


def _graph_version(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.value).where(meta.c.key == _GRAPH)).scalar() or 0)
