"""INSERT … ON CONFLICT in the dialect of the connection."""

from __future__ import annotations

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can say what to do with a row that is already there; both dialects spell it the same way."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
