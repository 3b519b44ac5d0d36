"""How long a stream table may be recomputed by itself."""

from __future__ import annotations

from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE fl_stream_tables ADD COLUMN max_full_seconds INTEGER")
