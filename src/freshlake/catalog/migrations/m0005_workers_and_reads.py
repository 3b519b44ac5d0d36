"""What daemons run and would like to run, and what readers wait for and how often they read."""

from __future__ import annotations

from sqlalchemy import Column, Connection, DateTime, Float, ForeignKey, Integer, MetaData, Table

_OF_DAEMONS = (
    "running INTEGER NOT NULL DEFAULT 0",
    "waiting INTEGER NOT NULL DEFAULT 0",
    "quota INTEGER NOT NULL DEFAULT 0",
    "version VARCHAR(32)",
    "jobs JSON",
)


def upgrade(connection: Connection) -> None:
    for column in _OF_DAEMONS:
        connection.exec_driver_sql(f"ALTER TABLE fl_daemons ADD COLUMN {column}")
    metadata = MetaData()
    Table("fl_stream_tables", metadata, Column("id", Integer, primary_key=True))
    metadata.create_all(connection, [_reads(metadata)], checkfirst=False)


def _reads(metadata: MetaData) -> Table:
    return Table(
        "fl_reads",
        metadata,
        Column(
            "stream_table_id",
            Integer,
            ForeignKey("fl_stream_tables.id", ondelete="CASCADE"),
            primary_key=True,
            nullable=False,
            autoincrement=False,
        ),
        Column("wanted_at", DateTime),
        Column("last_read_at", DateTime),
        Column("reads_per_minute", Float, nullable=False),
    )
