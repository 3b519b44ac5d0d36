"""What stream tables read, who reads a source, and how far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select

from freshlake.catalog.database import Database
from freshlake.catalog.enums import SourceType
from freshlake.catalog.graph_version import graph_changed, graph_version
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Consumer, Dependency, Json, StreamTable, TrackedSource
from freshlake.catalog.records import stream_table_key as key_of
from freshlake.catalog.rows import fetch
from freshlake.catalog.stream_tables import remove, require
from freshlake.catalog.tables import change_tracking, dependencies, stream_tables
from freshlake.catalog.upsert import upsert
from freshlake.catalog.watching import owned

_READ_BY = (
    select(*(column for column in dependencies.c if column.name != "stream_table_id"))
    .where(dependencies.c.stream_table_id == bindparam("id"))
    .order_by(dependencies.c.source_key)
)


class Dependencies(Database):
    """Edges of the graph; sources without readers are forgotten."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._edges: dict[int, tuple[int, tuple[Dependency, ...]]] = {}

    def dependencies(self, stream_table_id: int) -> tuple[Dependency, ...]:
        """What a stream table reads, by source key; read again only when the graph has changed."""
        with self._read() as connection:
            version = graph_version(connection)
            known = self._edges.get(stream_table_id)
            if known is not None and known[0] == version:
                return known[1]
            found = fetch(connection, _READ_BY, Dependency, id=stream_table_id)
        # what an open transaction sees may be taken back, and its number given to another change
        if not self.in_transaction:
            self._edges[stream_table_id] = (version, found)
        return found

    def all_dependencies(self) -> Mapping[int, tuple[Dependency, ...]]:
        """What every stream table reads, by its id; also tables that read nothing."""
        query = select(dependencies).order_by(dependencies.c.stream_table_id, dependencies.c.source_key)
        with self._read() as connection:
            edges = fetch(connection, query, owned)
            ids = connection.execute(select(stream_tables.c.id)).scalars().all()
        found: dict[int, list[Dependency]] = {stream_table_id: [] for stream_table_id in ids}
        for owner, edge in edges:
            found[owner].append(edge)
        return {owner: tuple(edges) for owner, edges in found.items()}

    def replace_dependencies(self, stream_table_id: int, edges: Iterable[Dependency]) -> None:
        """Set what a stream table reads, and keep the list of tracked sources in step."""
        with self._write() as connection:
            require(connection, stream_table_id)
            connection.execute(delete(dependencies).where(dependencies.c.stream_table_id == stream_table_id))
            for edge in edges:
                connection.execute(insert(dependencies).values(stream_table_id=stream_table_id, **asdict(edge)))
                self._track(connection, edge)
            _forget_unread(connection)
            graph_changed(connection, stream_table_id)

    def delete(self, stream_table_id: int) -> None:
        """Drop a stream table with its dependencies, history, folds and lease; raises NotFound."""
        with self._write() as connection:
            require(connection, stream_table_id)
            remove(connection, stream_table_id)
            _forget_unread(connection)
            graph_changed(connection, stream_table_id)

    def dependents(self, source_key: str) -> tuple[StreamTable, ...]:
        """The stream tables that read a source directly, by name."""
        with self._read() as connection:
            return fetch(connection, _readers_of(source_key), StreamTable)

    def tracked_sources(self) -> tuple[TrackedSource, ...]:
        """All sources whose changes are consumed, each with its readers and their positions."""
        with self._read() as connection:
            sources = fetch(connection, select(change_tracking).order_by(change_tracking.c.source_key), TrackedSource)
            return tuple(replace(source, consumers=_consumers(connection, source.source_key)) for source in sources)

    def minimum_consumer_version(self, stream_table_id: int, generation: int) -> int | None:
        """The lowest version of a generation that a reader has consumed; None when no reader stands in it.

        Readers that were never filled hold nothing back: their first refresh is a full one.
        """
        table = f"{key_of(stream_table_id)}:{generation}"
        with self._read() as connection:
            consumers = _consumers(connection, key_of(stream_table_id))
        positions = [consumer.position for consumer in consumers if consumer.position is not None]
        return min((int(position["version"]) for position in positions if position["table_id"] == table), default=None)

    def _track(self, connection: Connection, edge: Dependency) -> None:
        if edge.source_type in (SourceType.VIEW, SourceType.TIME):
            return
        values = {
            "source_type": edge.source_type,
            "source_name": edge.source_name,
            "location": edge.location,
            "capture_mode": edge.cdc_mode,
            "capture_name": edge.slot_name,
        }
        statement = upsert(connection, change_tracking).values(
            source_key=edge.source_key, registered_at=self._clock.now(), **values
        )
        connection.execute(statement.on_conflict_do_update(index_elements=["source_key"], set_=values))


def _forget_unread(connection: Connection) -> None:
    read = select(dependencies.c.source_key)
    connection.execute(delete(change_tracking).where(change_tracking.c.source_key.not_in(read)))


def _readers_of(source_key: str) -> Select[tuple[object, ...]]:
    return (
        select(stream_tables)
        .join(dependencies, dependencies.c.stream_table_id == stream_tables.c.id)
        .where(dependencies.c.source_key == source_key)
        .order_by(stream_tables.c.schema, stream_tables.c.name)
    )


def _consumers(connection: Connection, source_key: str) -> tuple[Consumer, ...]:
    readers = fetch(connection, _readers_of(source_key), StreamTable)
    return tuple(
        Consumer(reader.id, TableName(reader.schema, reader.name), _position(reader, source_key)) for reader in readers
    )


def _position(reader: StreamTable, source_key: str) -> Json | None:
    found: Json | None = (reader.frontier or {}).get("sources", {}).get(source_key)
    return found
