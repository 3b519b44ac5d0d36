"""The stream tables of the catalog."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Status
from freshlake.catalog.graph_version import graph_changed
from freshlake.catalog.names import TableName
from freshlake.catalog.records import NewStreamTable, StreamTable
from freshlake.catalog.rows import fetch, fetch_in_order, fetch_one
from freshlake.catalog.tables import registered_tables, stream_tables
from freshlake.errors import AlreadyExists, InternalError, NotFound

_FIXED = {"id", "created_at", "updated_at"}
_TOGETHER = {"refresh_mode", "diamond_consistency"}
"""What decides which tables are published together."""
_CHANGEABLE = {column.name for column in stream_tables.c} - _FIXED
_BY_ID = select(stream_tables).where(stream_tables.c.id == bindparam("id"))
_NAMES = select(stream_tables.c.schema, stream_tables.c.name).order_by(stream_tables.c.schema, stream_tables.c.name)
_BY_NAME = select(stream_tables).where(
    (stream_tables.c.schema == bindparam("schema")) & (stream_tables.c.name == bindparam("name"))
)


class StreamTables(Database):
    """Create, find, change and drop stream tables."""

    def insert_stream_table(self, new: NewStreamTable) -> StreamTable:
        """Add a stream table in status INITIALIZING; raises AlreadyExists when a table or view has the name."""
        now = self._clock.now()
        values = {field.name: getattr(new, field.name) for field in fields(new) if field.name != "name"}
        with self._write() as connection:
            _check_free(connection, new.name)
            started = {
                "schema": new.name.schema,
                "name": new.name.name,
                "status": Status.INITIALIZING,
                "is_populated": False,
                "needs_reinit": False,
                "consecutive_errors": 0,
                "generation": 0,
                "version": -1,
                "published_generation": 0,
                "published_version": -1,
                "nodes": {},
                "created_at": now,
                "updated_at": now,
            }
            added = insert(stream_tables).values(**values, **started).returning(stream_tables.c.id)
            return require(connection, connection.execute(added).scalar_one())

    def get(self, name: TableName | str) -> StreamTable:
        """The stream table of this name; raises NotFound."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"there is no stream table {_parsed(name).short}")
        return found

    def find(self, name: TableName | str) -> StreamTable | None:
        """The stream table of this name, or None."""
        with self._read() as connection:
            return find(connection, _parsed(name))

    def get_by_id(self, stream_table_id: int) -> StreamTable:
        """The stream table of this id; raises NotFound when it was dropped."""
        with self._read() as connection:
            return require(connection, stream_table_id)

    def stream_tables(self, status: Status | None = None) -> tuple[StreamTable, ...]:
        """All stream tables, or those of one status, by name."""
        query = select(stream_tables).order_by(stream_tables.c.schema, stream_tables.c.name)
        if status is not None:
            query = query.where(stream_tables.c.status == status)
        with self._read() as connection:
            return fetch(connection, query, StreamTable)

    def stream_table_names(self) -> tuple[TableName, ...]:
        """The names of all stream tables; their records cost more, and a text mentions few."""
        with self._read() as connection:
            return fetch_in_order(connection, _NAMES, TableName)

    def stream_tables_among(self, words: Collection[str]) -> tuple[StreamTable, ...]:
        """The stream tables whose name, without its schema, is one of these words."""
        return tuple(t for n in self.stream_table_names() if n.name in words and (t := self.find(n)) is not None)

    def update(self, stream_table_id: int, **changes: Any) -> StreamTable:
        """Change columns of a stream table and return it as it is now."""
        with self._write() as connection:
            if not _TOGETHER.isdisjoint(changes):
                graph_changed(connection, stream_table_id)
            return change(connection, stream_table_id, {**changes, "updated_at": self._clock.now()})


def find(connection: Connection, name: TableName) -> StreamTable | None:
    """The stream table of this name inside a transaction, or None."""
    return fetch_one(connection, _BY_NAME, StreamTable, schema=name.schema, name=name.name)


def require(connection: Connection, stream_table_id: int) -> StreamTable:
    """The stream table of this id inside a transaction; raises NotFound."""
    found = fetch_one(connection, _BY_ID, StreamTable, id=stream_table_id)
    if found is None:
        raise NotFound(f"there is no stream table with id {stream_table_id}", detail="it was dropped")
    return found


def change(connection: Connection, stream_table_id: int, changes: dict[str, Any]) -> StreamTable:
    """Change columns inside a transaction; raises NotFound when the table was dropped."""
    unknown = set(changes) - _CHANGEABLE - {"updated_at"}
    if unknown:
        raise InternalError(f"stream tables have no changeable column {', '.join(sorted(unknown))}")
    connection.execute(update(stream_tables).where(stream_tables.c.id == stream_table_id).values(**changes))
    return require(connection, stream_table_id)


def remove(connection: Connection, stream_table_id: int) -> None:
    """Remove a stream table inside a transaction; what belongs to it goes by cascade."""
    connection.execute(delete(stream_tables).where(stream_tables.c.id == stream_table_id))


def _check_free(connection: Connection, name: TableName) -> None:
    for table, kind in ((stream_tables, "stream table"), (registered_tables, "table or view")):
        taken = select(table.c.name).where(table.c.schema == name.schema, table.c.name == name.name)
        if connection.execute(taken).first() is not None:
            raise AlreadyExists(f"a {kind} {name.short} already exists")


def _parsed(name: TableName | str) -> TableName:
    return name if isinstance(name, TableName) else TableName.parse(name)
