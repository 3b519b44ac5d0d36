"""What a scheduler looks at in every tick: few columns, one query; and of the graph only what has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Select, select

from freshlake.catalog.database import Database
from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.graph_version import changed_since, graph_version
from freshlake.catalog.leases import is_live
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.catalog.rows import fetch, fetch_in_order
from freshlake.catalog.tables import dependencies, leases, reads, stream_tables

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
    "created_at",
    "quarantined_at",
    "generation",
    "version",
    "published_generation",
    "published_version",
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
    created_at: datetime
    quarantined_at: datetime | None
    generation: int
    version: int
    published_generation: int
    published_version: int
    owner: str | None
    acquired_at: datetime | None
    expires_at: datetime | None
    wanted_at: datetime | None
    last_read_at: datetime | None
    reads_per_minute: float | None

    @property
    def full_name(self) -> str:
        return str(TableName(self.schema, self.name))

    @property
    def is_published(self) -> bool:
        return (self.generation, self.version) == (self.published_generation, self.published_version)

    @property
    def is_wanted(self) -> bool:
        """Whether a reader waits for contents that are newer than those there are."""
        return self.wanted_at is not None and (self.data_timestamp is None or self.data_timestamp < self.wanted_at)

    def is_leased(self, now: datetime) -> bool:
        return self.expires_at is not None and is_live(self.owner, self.expires_at, now)

    def is_left(self, now: datetime) -> bool:
        """Whether somebody worked on it, is gone, and has not given the lease back."""
        return self.owner is not None and not self.is_leased(now)


@dataclass(frozen=True)
class Reader:
    """A stream table in the graph, and what it reads."""

    id: int
    name: str
    edges: tuple[Dependency, ...]


@dataclass(frozen=True)
class GraphChange:
    """What became of the graph: `tables` are those that were made or changed, `gone` may have been dropped."""

    version: int
    tables: tuple[Reader, ...]
    gone: frozenset[int] = frozenset()
    is_whole: bool = False
    """Whether these are all tables there are."""


class Watching(Database):
    """Read what ticks need."""

    def look(self) -> tuple[Looked, ...]:
        """All stream tables with their leases and readers."""
        columns = [stream_tables.c[name] for name in _LOOKED_AT]
        lease = [leases.c.owner, leases.c.acquired_at, leases.c.expires_at]
        asked = [reads.c.wanted_at, reads.c.last_read_at, reads.c.reads_per_minute]
        held = stream_tables.outerjoin(leases, leases.c.stream_table_id == stream_tables.c.id)
        held = held.outerjoin(reads, reads.c.stream_table_id == stream_tables.c.id)
        query = select(*columns, *lease, *asked).select_from(held)
        with self._read() as connection:
            return fetch_in_order(connection, query, Looked)

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

    def graph_version(self) -> int:
        """Another number whenever a stream table, what it reads, or what is published together was changed."""
        with self._read() as connection:
            return graph_version(connection)

    def graph_since(self, version: int | None) -> GraphChange:
        """How the graph differs from what it was at a version; all of it when that was too long ago, or is None."""
        with self._read() as connection:
            known = graph_version(connection)
            if known == version:
                return GraphChange(known, ())
            # a version that is still to come is of a catalog that was restored since
            changed = None if version is None or version > known else changed_since(connection, version)
            if changed is None:
                return GraphChange(known, _readers(connection, None), is_whole=True)
            found = _readers(connection, changed)
            return GraphChange(known, found, frozenset(changed) - {reader.id for reader in found})


def _readers(connection: Connection, ids: Collection[int] | None) -> tuple[Reader, ...]:
    tables = select(stream_tables.c.id, stream_tables.c.schema, stream_tables.c.name)
    names = connection.execute(_among(tables, stream_tables.c.id, ids)).all()
    edges = select(dependencies).order_by(dependencies.c.stream_table_id, dependencies.c.source_key)
    found: dict[int, list[Dependency]] = {row.id: [] for row in names}
    for owner, edge in fetch(connection, _among(edges, dependencies.c.stream_table_id, ids), owned):
        found[owner].append(edge)
    return tuple(Reader(row.id, str(TableName(row.schema, row.name)), tuple(found[row.id])) for row in names)


def _among(
    query: Select[tuple[object, ...]], column: object, ids: Collection[int] | None
) -> Select[tuple[object, ...]]:
    return query if ids is None else query.where(column.in_(tuple(ids)))  # type: ignore[attr-defined]


def owned(stream_table_id: int, **columns: object) -> tuple[int, Dependency]:
    """An edge with the id of the stream table that reads."""
    return stream_table_id, Dependency(**columns)  # type: ignore[arg-type]
