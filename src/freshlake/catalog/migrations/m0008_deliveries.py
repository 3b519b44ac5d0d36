"""Stream tables that are kept in tables of a database, too."""

from __future__ import annotations

from sqlalchemy import (
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
    owner = ForeignKey("fl_stream_tables.id", ondelete="CASCADE")
    made = Table(
        "fl_deliveries",
        metadata,
        Column("database", String(64), primary_key=True),
        Column("target", Text, primary_key=True),
        Column("stream_table_id", Integer, owner, nullable=False),
        Column("generation", Integer),
        Column("version", BigInteger),
        Column("rows", BigInteger),
        Column("reason", Text),
        Column("delivered_at", DateTime),
        Column("attempts", Integer, nullable=False),
        Column("error", Text),
        Column("created_at", DateTime, nullable=False),
        Index("fl_deliveries_stream_table", "stream_table_id"),
    )
    metadata.create_all(connection, [made], checkfirst=False)
