"""Rows updated are NULL where they were not counted; until now the column held zeros that meant nothing."""

from __future__ import annotations

from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE fl_refresh_history DROP COLUMN rows_updated")
    connection.exec_driver_sql("ALTER TABLE fl_refresh_history ADD COLUMN rows_updated BIGINT")
