"""Refresh groups: stream tables that are published together."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from freshlake.catalog.database import Database
from freshlake.catalog.graph_version import graph_changed
from freshlake.catalog.names import TableName
from freshlake.catalog.records import RefreshGroup
from freshlake.catalog.stream_tables import require
from freshlake.catalog.tables import refresh_group_members, refresh_groups, stream_tables
from freshlake.errors import AlreadyExists


class Groups(Database):
    """Declare, list and remove groups."""

    def insert_group(self, name: str, members: Iterable[int]) -> RefreshGroup:
        """Declare a group of stream tables by their ids; raises AlreadyExists or NotFound."""
        now = self._clock.now()
        with self._write() as connection:
            taken = select(refresh_groups.c.id).where(refresh_groups.c.name == name)
            if connection.execute(taken).first() is not None:
                raise AlreadyExists(f"a refresh group {name} already exists", hint="choose another name")
            added = insert(refresh_groups).values(name=name, created_at=now).returning(refresh_groups.c.id)
            group_id = connection.execute(added).scalar_one()
            for member in dict.fromkeys(members):
                require(connection, member)
                connection.execute(insert(refresh_group_members).values(group_id=group_id, stream_table_id=member))
            graph_changed(connection)
            return RefreshGroup(name, _members(connection, group_id), now)

    def groups(self) -> tuple[RefreshGroup, ...]:
        """All groups, by name."""
        with self._read() as connection:
            rows = connection.execute(select(refresh_groups).order_by(refresh_groups.c.name)).all()
            return tuple(RefreshGroup(row.name, _members(connection, row.id), row.created_at) for row in rows)

    def remove_group(self, name: str) -> bool:
        """Remove a group, not its members; False when it was not known."""
        with self._write() as connection:
            graph_changed(connection)
            return connection.execute(delete(refresh_groups).where(refresh_groups.c.name == name)).rowcount > 0


def _members(connection: Connection, group_id: int) -> tuple[TableName, ...]:
    query = (
        select(stream_tables.c.schema, stream_tables.c.name)
        .join(refresh_group_members, refresh_group_members.c.stream_table_id == stream_tables.c.id)
        .where(refresh_group_members.c.group_id == group_id)
        .order_by(stream_tables.c.schema, stream_tables.c.name)
    )
    return tuple(TableName(row.schema, row.name) for row in connection.execute(query))
