"""Stream tables, dependencies, history, sources, groups, leases, registry and folds."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
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
    UniqueConstraint,
    text,
)


def upgrade(connection: Connection) -> None:
    metadata = MetaData()
    _meta_and_registry(metadata)
    _stream_tables(metadata)
    _sources(metadata)
    _history(metadata)
    _groups(metadata)
    _leases_and_folds(metadata)
    metadata.create_all(connection, checkfirst=False)


def _owner(*, primary_key: bool) -> Column[int]:
    return Column(
        "stream_table_id",
        Integer,
        ForeignKey("fl_stream_tables.id", ondelete="CASCADE"),
        primary_key=primary_key,
        nullable=False,
        autoincrement=False,
    )


def _meta_and_registry(metadata: MetaData) -> None:
    Table(
        "fl_meta",
        metadata,
        Column("key", String(64), primary_key=True),
        Column("value", Text, nullable=False),
    )
    Table(
        "fl_schemas",
        metadata,
        Column("name", String(128), primary_key=True),
        Column("location", Text),
        Column("created_at", DateTime, nullable=False),
    )
    Table(
        "fl_tables",
        metadata,
        Column("schema", String(128), primary_key=True),
        Column("name", String(128), primary_key=True),
        Column("kind", String(32), nullable=False),
        Column("provider", String(32)),
        Column("location", Text),
        Column("view_text", Text),
        Column("created_at", DateTime, nullable=False),
    )


def _stream_tables(metadata: MetaData) -> None:
    Table(
        "fl_stream_tables",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("storage_id", String(64), nullable=False, unique=True),
        Column("schema", String(128), nullable=False),
        Column("name", String(128), nullable=False),
        Column("original_query", Text, nullable=False),
        Column("defining_query", Text, nullable=False),
        Column("definition_kind", String(32), nullable=False),
        Column("definition_reference", Text),
        Column("fingerprint", String(128)),
        Column("schedule", String(128)),
        Column("effective_schedule", String(128)),
        Column("refresh_mode", String(32), nullable=False),
        Column("status", String(32), nullable=False),
        Column("is_populated", Boolean, nullable=False),
        Column("needs_reinit", Boolean, nullable=False),
        Column("data_timestamp", DateTime),
        Column("frontier", JSON),
        Column("last_refresh_at", DateTime),
        Column("consecutive_errors", Integer, nullable=False),
        Column("requested_cdc_mode", String(32)),
        Column("topk_limit", BigInteger),
        Column("topk_order_by", Text),
        Column("topk_offset", BigInteger),
        Column("diamond_consistency", String(32), nullable=False),
        Column("diamond_schedule_policy", String(32), nullable=False),
        Column("tier", String(32)),
        Column("append_only", Boolean, nullable=False),
        Column("partition_by", JSON, nullable=False),
        Column("session_settings", JSON, nullable=False),
        Column("output_schema", JSON),
        Column("reasons", JSON, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("published_generation", Integer, nullable=False),
        Column("published_version", BigInteger, nullable=False),
        Column("row_count", BigInteger),
        Column("fold_policy", String(32), nullable=False),
        Column("fold_base_version", BigInteger),
        Column("folded_version", BigInteger),
        Column("nodes", JSON, nullable=False),
        Column("created_at", DateTime, nullable=False),
        Column("updated_at", DateTime, nullable=False),
        UniqueConstraint("schema", "name", name="fl_stream_tables_name"),
        CheckConstraint(
            "status IN ('INITIALIZING', 'ACTIVE', 'SUSPENDED', 'ERROR')", name="fl_stream_tables_known_status"
        ),
        Index("fl_stream_tables_status", "status"),
        sqlite_autoincrement=True,
    )


def _sources(metadata: MetaData) -> None:
    Table(
        "fl_dependencies",
        metadata,
        _owner(primary_key=True),
        Column("source_key", Text, primary_key=True),
        Column("source_type", String(32), nullable=False),
        Column("source_name", Text, nullable=False),
        Column("location", Text),
        Column("columns_used", JSON),
        Column("cdc_mode", String(32)),
        Column("slot_name", String(128)),
        Column("decoder_confirmed_lsn", String(32)),
        Column("transition_started_at", DateTime),
        Index("fl_dependencies_source", "source_key"),
    )
    Table(
        "fl_change_tracking",
        metadata,
        Column("source_key", Text, primary_key=True),
        Column("source_type", String(32), nullable=False),
        Column("source_name", Text, nullable=False),
        Column("location", Text),
        Column("capture_mode", String(32)),
        Column("capture_name", String(128)),
        Column("registered_at", DateTime, nullable=False),
    )


def _history(metadata: MetaData) -> None:
    history = Table(
        "fl_refresh_history",
        metadata,
        Column("sequence", Integer, primary_key=True),
        Column("refresh_id", String(64), nullable=False, unique=True),
        _owner(primary_key=False),
        Column("status", String(32), nullable=False),
        Column("action", String(32)),
        Column("data_timestamp", DateTime),
        Column("start_time", DateTime, nullable=False),
        Column("end_time", DateTime),
        Column("rows_inserted", BigInteger, nullable=False),
        Column("rows_deleted", BigInteger, nullable=False),
        Column("rows_updated", BigInteger, nullable=False),
        Column("duration_ms", BigInteger),
        Column("source_changes", BigInteger),
        Column("fallback_reason", Text),
        Column("error_code", String(64)),
        Column("error_message", Text),
        Column("generation", Integer),
        Column("version", BigInteger),
        Column("decision", JSON),
        Column("owner", Text),
        Column("epoch", BigInteger),
        Index("fl_refresh_history_data_timestamp", "stream_table_id", "data_timestamp"),
        Index("fl_refresh_history_newest", "stream_table_id", "sequence"),
        sqlite_autoincrement=True,
    )
    running = text("status = 'RUNNING'")
    Index("fl_refresh_history_running", history.c.status, sqlite_where=running, postgresql_where=running)


def _groups(metadata: MetaData) -> None:
    Table(
        "fl_refresh_groups",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("name", String(128), nullable=False, unique=True),
        Column("created_at", DateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    Table(
        "fl_refresh_group_members",
        metadata,
        Column("group_id", Integer, ForeignKey("fl_refresh_groups.id", ondelete="CASCADE"), primary_key=True),
        _owner(primary_key=True),
    )


def _leases_and_folds(metadata: MetaData) -> None:
    Table(
        "fl_leases",
        metadata,
        _owner(primary_key=True),
        Column("owner", Text),
        Column("epoch", BigInteger, nullable=False),
        Column("acquired_at", DateTime, nullable=False),
        Column("heartbeat_at", DateTime, nullable=False),
        Column("expires_at", DateTime, nullable=False),
    )
    Table(
        "fl_folds",
        metadata,
        _owner(primary_key=True),
        Column("node", String(128), primary_key=True),
        Column("generation", Integer, primary_key=True, autoincrement=False),
        Column("folded_version", BigInteger, primary_key=True, autoincrement=False),
        Column("base_version", BigInteger, nullable=False),
        Column("at", DateTime, nullable=False),
    )
