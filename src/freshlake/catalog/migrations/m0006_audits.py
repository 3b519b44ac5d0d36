"""Audits, and since when a stream table is in quarantine."""

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
    moment = DateTime().compile(connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE fl_stream_tables ADD COLUMN quarantined_at {moment}")
    metadata = MetaData()
    Table("fl_stream_tables", metadata, Column("id", Integer, primary_key=True))
    owner = ForeignKey("fl_stream_tables.id", ondelete="CASCADE")
    audits = Table(
        "fl_audits",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("stream_table_id", Integer, owner, nullable=False, autoincrement=False),
        Column("started_at", DateTime, nullable=False),
        Column("ended_at", DateTime, nullable=False),
        Column("outcome", String(32), nullable=False),
        Column("asked_by", String(32), nullable=False),
        Column("generation", Integer, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("checks", JSON, nullable=False),
        Column("missing", BigInteger, nullable=False),
        Column("unexpected", BigInteger, nullable=False),
        Column("compared_rows", BigInteger, nullable=False),
        Column("evidence", JSON),
        Column("detail", Text),
        Column("refresh_id", String(64)),
        Index("fl_audits_newest", "stream_table_id", "id"),
        sqlite_autoincrement=True,
    )
    metadata.create_all(connection, [audits], checkfirst=False)
