"""What a scheduler keeps: root positions of every state, daemons, alerts, and the fuse and bounds of a stream table."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

_COLUMNS = (
    "fuse_rows BIGINT",
    "fuse_state VARCHAR(16)",
    "never_full BOOLEAN NOT NULL DEFAULT FALSE",
    "max_full_rows BIGINT",
    "retries INTEGER NOT NULL DEFAULT 0",
    "retry_at {moment}",
)


def upgrade(connection: Connection) -> None:
    moment = DateTime().compile(connection.dialect)
    for column in _COLUMNS:
        connection.exec_driver_sql(f"ALTER TABLE fl_stream_tables ADD COLUMN {column.format(moment=moment)}")
    metadata = MetaData()
    Table("fl_stream_tables", metadata, Column("id", Integer, primary_key=True))
    metadata.create_all(connection, _tables(metadata), checkfirst=False)


def _tables(metadata: MetaData) -> list[Table]:
    return [
        Table(
            "fl_points",
            metadata,
            Column("id", Integer, primary_key=True),
            Column(
                "stream_table_id",
                Integer,
                ForeignKey("fl_stream_tables.id", ondelete="CASCADE"),
                nullable=False,
                autoincrement=False,
            ),
            Column("generation", Integer, nullable=False),
            Column("version", BigInteger, nullable=False),
            Column("roots", JSON, nullable=False),
            Column("at", DateTime, nullable=False),
            Index("fl_points_newest", "stream_table_id", "id"),
            sqlite_autoincrement=True,
        ),
        Table(
            "fl_daemons",
            metadata,
            Column("owner", Text, primary_key=True),
            Column("started_at", DateTime, nullable=False),
            Column("heartbeat_at", DateTime, nullable=False),
            Column("last_tick_at", DateTime),
            Column("ended_at", DateTime),
            Column("interval_ms", Integer, nullable=False),
            Column("workers", Integer, nullable=False),
        ),
        Table(
            "fl_alerts",
            metadata,
            Column("id", Integer, primary_key=True),
            Column("at", DateTime, nullable=False),
            Column("event", String(64), nullable=False),
            Column("stream_table", Text),
            Column("payload", JSON, nullable=False),
            Index("fl_alerts_event", "event", "id"),
            sqlite_autoincrement=True,
        ),
    ]
