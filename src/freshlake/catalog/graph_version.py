"""A number that says when the graph of stream tables, or how they belong together, has changed."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from freshlake.catalog.tables import meta

_GRAPH = "dag_version"


def graph_changed(connection: Connection) -> None:
    """Say inside a transaction that the graph is another one now."""
    number = str(graph_version(connection) + 1)
    done = connection.execute(update(meta).where(meta.c.key == _GRAPH).values(value=number))
    if not done.rowcount:
        connection.execute(insert(meta).values(key=_GRAPH, value=number))


def graph_version(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.value).where(meta.c.key == _GRAPH)).scalar() or 0)
