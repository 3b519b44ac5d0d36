"""The SQL dialect that a definition was written in."""

from __future__ import annotations

from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE fl_stream_tables ADD COLUMN dialect VARCHAR(32) NOT NULL DEFAULT 'spark'")
