"""Source databases: where each of them stands, what is captured there, and what is still to be removed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import CdcMode
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Json
from freshlake.catalog.records import stream_table_key as key_of
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.source_records import CapturedTable, Removal, SourceDatabase
from freshlake.catalog.tables import captured_tables, dependencies, removals, source_databases, stream_tables
from freshlake.catalog.upsert import upsert
from freshlake.errors import AlreadyExists, NotFound


class SourceDatabases(Database):
    """Add, move and remove source databases and captured tables."""

    def insert_database(
        self,
        name: str,
        connection: str,
        *,
        schemas: tuple[str, ...] | None = None,
        tables: tuple[str, ...] | None = None,
        as_text: tuple[str, ...] = (),
        cdc_mode: str = CdcMode.AUTO,
        capture: Json | None = None,
    ) -> SourceDatabase:
        """Add a source database; raises AlreadyExists."""
        limits = {"schemas": schemas, "tables": tables, "as_text": as_text}
        chosen = {"connection": connection, **limits, "cdc_mode": cdc_mode}
        with self._write() as current:
            if _find(current, name) is not None:
                raise AlreadyExists(f"source {name} already exists", hint="drop it first, or choose another name")
            started = {"version": 0, "position": None, "capture": dict(capture or {}), "created_at": self._clock.now()}
            current.execute(insert(source_databases).values(name=name, **chosen, **started))
            return _require(current, name)

    def find_database(self, name: str) -> SourceDatabase | None:
        """The source database of this name, or None."""
        with self._read() as current:
            return _find(current, name)

    def database(self, name: str) -> SourceDatabase:
        """The source database of this name; raises NotFound."""
        with self._read() as current:
            return _require(current, name)

    def databases(self) -> tuple[SourceDatabase, ...]:
        """All source databases, by name."""
        with self._read() as current:
            return fetch(current, select(source_databases).order_by(source_databases.c.name), SourceDatabase)

    def update_database(self, name: str, **changes: Any) -> SourceDatabase:
        """Change columns of a source database; raises NotFound."""
        with self._write() as current:
            _require(current, name)
            current.execute(update(source_databases).where(source_databases.c.name == name).values(**changes))
            return _require(current, name)

    def pin_position(self, seen: SourceDatabase, position: Json) -> SourceDatabase | None:
        """Make a position the newest, under the next number; None if another one was pinned since `seen` was read.

        Who reads a database looks at the catalog first and at the database afterwards, so positions that are numbered
        one after the other were taken in that order.
        """
        known = (source_databases.c.name == seen.name) & (source_databases.c.version == seen.version)
        moved = update(source_databases).where(known).values(version=seen.version + 1, position=position)
        with self._write() as current:
            return _require(current, seen.name) if current.execute(moved).rowcount else None

    def put_capture(self, name: str, capture: Json, mode: str) -> None:
        """Say how a database is captured, and in a word how each of its tables is."""
        with self._write() as current:
            _require(current, name)
            current.execute(update(source_databases).where(source_databases.c.name == name).values(capture=capture))
            current.execute(update(captured_tables).where(captured_tables.c.database == name).values(mode=mode))

    def delete_database(self, name: str) -> None:
        """Forget a source database; its mirrors have to be gone."""
        with self._write() as current:
            current.execute(delete(source_databases).where(source_databases.c.name == name))

    def asked_modes(self, database: str) -> list[tuple[TableName, CdcMode]]:
        """How stream tables over a database ask for it to be captured, by their names."""
        column, mirrors = stream_tables.c, [key_of(table.stream_table_id) for table in self.captured_tables(database)]
        query = (
            select(column.schema, column.name, column.requested_cdc_mode)
            .join(dependencies, dependencies.c.stream_table_id == column.id)
            .where(column.requested_cdc_mode.is_not(None) & dependencies.c.source_key.in_(mirrors))
        )
        with self._read() as current:
            found = {(TableName(schema, name), CdcMode(mode)) for schema, name, mode in current.execute(query)}
        return sorted(found)

    # Captured tables -------------------------------------------------------------------------------------------------

    def put_captured(
        self, stream_table_id: int, *, database: str, table: str, captured: Json, mode: str
    ) -> CapturedTable:
        """Say which table of a database a mirror holds, and how it is captured."""
        values = {"database": database, "table": table, "captured": captured, "mode": mode}
        with self._write() as current:
            statement = upsert(current, captured_tables).values(
                stream_table_id=stream_table_id, created_at=self._clock.now(), **values
            )
            current.execute(statement.on_conflict_do_update(index_elements=["stream_table_id"], set_=values))
            found = select(captured_tables).where(captured_tables.c.stream_table_id == stream_table_id)
            return fetch(current, found, CapturedTable)[0]

    def mark_resync(self, stream_table_id: int, resync: str | None) -> None:
        """Remember that a table has to be copied anew, and why; None when it is."""
        marked = update(captured_tables).where(captured_tables.c.stream_table_id == stream_table_id)
        with self._write() as current:
            current.execute(marked.values(resync=resync))

    def captured_tables(self, database: str | None = None) -> tuple[CapturedTable, ...]:
        """All captured tables, or those of one database, by name."""
        query = select(captured_tables).order_by(captured_tables.c.database, captured_tables.c.table)
        if database is not None:
            query = query.where(captured_tables.c.database == database)
        with self._read() as current:
            return fetch(current, query, CapturedTable)

    def captured_table(self, stream_table_id: int) -> CapturedTable | None:
        """The captured table that a mirror holds; None if it is no mirror."""
        query = select(captured_tables).where(captured_tables.c.stream_table_id == stream_table_id)
        with self._read() as current:
            return fetch_one(current, query, CapturedTable)

    # What is still to be removed -------------------------------------------------------------------------------------

    def add_removal(self, database: str, connection: str, what: Json) -> Removal:
        """Remember something that has to be removed from a source database."""
        with self._write() as current:
            values = {"database": database, "connection": connection, "what": what, "since": self._clock.now()}
            added = insert(removals).values(**values, attempts=0).returning(removals.c.id)
            number = current.execute(added).scalar_one()
            return fetch(current, select(removals).where(removals.c.id == number), Removal)[0]

    def removals(self) -> tuple[Removal, ...]:
        """What is still to be removed, oldest first."""
        with self._read() as current:
            return fetch(current, select(removals).order_by(removals.c.id), Removal)

    def removal_failed(self, removal: Removal, error: str) -> None:
        """Remember that an attempt failed, and why."""
        values = {"attempts": removals.c.attempts + 1, "tried_at": self._clock.now(), "error": error}
        with self._write() as current:
            current.execute(update(removals).where(removals.c.id == removal.id).values(**values))

    def removal_done(self, removal: Removal) -> None:
        """Forget what was removed."""
        with self._write() as current:
            current.execute(delete(removals).where(removals.c.id == removal.id))


def _find(current: Connection, name: str) -> SourceDatabase | None:
    return fetch_one(current, select(source_databases).where(source_databases.c.name == name), SourceDatabase)


def _require(current: Connection, name: str) -> SourceDatabase:
    found = _find(current, name)
    if found is None:
        raise NotFound(f"there is no source {name}", hint="fl.list_sources() shows those that there are")
    return found
