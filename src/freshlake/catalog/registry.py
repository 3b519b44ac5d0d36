"""The registry: schemas, plain tables and views made through `fl.sql`, found again after a restart."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, delete, func, select

from freshlake.catalog.database import Database
from freshlake.catalog.enums import TableKind
from freshlake.catalog.names import TableName
from freshlake.catalog.records import RegisteredSchema, RegisteredTable
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.stream_tables import find
from freshlake.catalog.tables import registered_schemas, registered_tables
from freshlake.catalog.upsert import upsert
from freshlake.errors import AlreadyExists

_STAMP = select(func.count(), func.max(registered_tables.c.created_at))


class Registry(Database):
    """Remember and forget what Spark's own catalog keeps only for a session."""

    def register_table(
        self,
        name: TableName,
        *,
        kind: TableKind = TableKind.TABLE,
        provider: str | None = None,
        location: str | None = None,
        view_text: str | None = None,
    ) -> RegisteredTable:
        """Add or replace a table or view; raises AlreadyExists when a stream table has the name."""
        values = {
            "kind": kind,
            "provider": provider,
            "location": location,
            "view_text": view_text,
            "created_at": self._clock.now(),
        }
        with self._write() as connection:
            if find(connection, name) is not None:
                raise AlreadyExists(f"a stream table {name.short} already exists")
            statement = upsert(connection, registered_tables).values(schema=name.schema, name=name.name, **values)
            connection.execute(statement.on_conflict_do_update(index_elements=["schema", "name"], set_=values))
        return _registered(name.schema, name.name, **values)

    def find_table(self, name: TableName) -> RegisteredTable | None:
        """A registered table or view, or None."""
        with self._read() as connection:
            return fetch_one(connection, select(registered_tables).where(_is(name)), _registered)

    def tables(self) -> tuple[RegisteredTable, ...]:
        """All registered tables, then all views, each in the order they were last made.

        A view may read a view that was replaced after it, so this is not always an order to make them again in.
        """
        column = registered_tables.c
        query = select(registered_tables).order_by(column.kind, column.created_at, column.schema, column.name)
        with self._read() as connection:
            return fetch(connection, query, _registered)

    def names_stamp(self) -> str:
        """Another text whenever a table or view was made, replaced or forgotten, by any process."""
        with self._read() as connection:
            count, newest = connection.execute(_STAMP).one()
        return f"{count} {newest}"

    def remove_table(self, name: TableName) -> bool:
        """Forget a table or view; False when it was not known."""
        with self._write() as connection:
            return connection.execute(delete(registered_tables).where(_is(name))).rowcount > 0

    def register_schema(self, name: str, *, location: str | None = None) -> RegisteredSchema:
        """Add a schema, or change its location."""
        schema = RegisteredSchema(name.lower(), location, self._clock.now())
        values = {"location": location}
        with self._write() as connection:
            statement = upsert(connection, registered_schemas).values(
                name=schema.name, created_at=schema.created_at, **values
            )
            connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))
        return schema

    def schemas(self) -> tuple[RegisteredSchema, ...]:
        """All registered schemas, by name."""
        with self._read() as connection:
            query = select(registered_schemas).order_by(registered_schemas.c.name)
            return fetch(connection, query, RegisteredSchema)

    def remove_schema(self, name: str) -> bool:
        """Forget a schema and the tables and views in it; False when it was not known."""
        with self._write() as connection:
            connection.execute(delete(registered_tables).where(registered_tables.c.schema == name.lower()))
            gone = delete(registered_schemas).where(registered_schemas.c.name == name.lower())
            return connection.execute(gone).rowcount > 0


def _is(name: TableName) -> ColumnElement[bool]:
    return (registered_tables.c.schema == name.schema) & (registered_tables.c.name == name.name)


def _registered(schema: str, name: str, **columns: Any) -> RegisteredTable:
    return RegisteredTable(name=TableName(schema, name), **columns)
