"""A number that grows when the graph of stream tables, or what is published together, changes; and what changed."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from freshlake.catalog.tables import meta
from freshlake.catalog.upsert import upsert

_GRAPH, _CHANGES = "dag_version", "dag_changes"
_REMEMBERED = 200
"""Changes of the graph that are told one by one; who has missed more reads it anew."""
_NO_TABLE = 0
_VALUE = select(meta.c.value).where(meta.c.key == bindparam("key"))


def graph_changed(connection: Connection, stream_table_id: int = _NO_TABLE) -> None:
    """Say inside a transaction that a stream table was made, changed or dropped, or that groups are other ones now."""
    number = graph_version(connection) + 1
    kept = [*_changes(connection), (number, stream_table_id)][-_REMEMBERED:]
    told = ",".join(f"{version}:{table}" for version, table in kept)
    for key, value in ((_GRAPH, str(number)), (_CHANGES, told)):
        statement = upsert(connection, meta).values(key=key, value=value)
        connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def graph_version(connection: Connection) -> int:
    return int(_meta(connection, _GRAPH) or 0)


def changed_since(connection: Connection, version: int) -> set[int] | None:
    """The stream tables that every single change since a version was about; None when not all are remembered."""
    changes = _changes(connection)
    if not changes or changes[0][0] > version + 1:
        return None
    return {table for number, table in changes if number > version and table != _NO_TABLE}


def _changes(connection: Connection) -> list[tuple[int, int]]:
    told = (word.split(":") for word in (_meta(connection, _CHANGES) or "").split(",") if word)
    return [(int(version), int(table)) for version, table in told]


def _meta(connection: Connection, key: str) -> str | None:
    found: str | None = connection.execute(_VALUE, {"key": key}).scalar()
    return found
