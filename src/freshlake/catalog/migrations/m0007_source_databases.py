"""Source databases, the tables that are captured there, and what is still to be removed from them."""

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


def upgrade(connection: Connection) -> None:
    metadata = MetaData()
    Table("fl_stream_tables", metadata, Column("id", Integer, primary_key=True))
    metadata.create_all(connection, _tables(metadata), checkfirst=False)


def _tables(metadata: MetaData) -> list[Table]:
    return [
        Table(
            "fl_source_databases",
            metadata,
            Column("name", String(64), primary_key=True),
            Column("connection", Text, nullable=False),
            Column("schemas", JSON),
            Column("tables", JSON),
            Column("as_text", JSON, nullable=False),
            Column("cdc_mode", String(16), nullable=False),
            Column("version", BigInteger, nullable=False),
            Column("position", JSON),
            Column("capture", JSON, nullable=False),
            Column("created_at", DateTime, nullable=False),
        ),
        Table(
            "fl_captured_tables",
            metadata,
            Column(
                "stream_table_id",
                Integer,
                ForeignKey("fl_stream_tables.id", ondelete="CASCADE"),
                primary_key=True,
                nullable=False,
                autoincrement=False,
            ),
            Column("database", String(64), nullable=False),
            Column("table", Text, nullable=False),
            Column("captured", JSON, nullable=False),
            Column("mode", String(16), nullable=False),
            Column("resync", Text),
            Column("created_at", DateTime, nullable=False),
            Index("fl_captured_tables_database", "database"),
        ),
        Table(
            "fl_removals",
            metadata,
            Column("id", Integer, primary_key=True),
            Column("database", String(64), nullable=False),
            Column("connection", Text, nullable=False),
            Column("what", JSON, nullable=False),
            Column("since", DateTime, nullable=False),
            Column("tried_at", DateTime),
            Column("attempts", Integer, nullable=False),
            Column("error", Text),
            sqlite_autoincrement=True,
        ),
    ]
