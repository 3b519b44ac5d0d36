"""The tables of the catalog as the current version of the code uses them; migrations bring a file to this shape."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
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

from freshlake.catalog.enums import (
    Action,
    AuditOutcome,
    DefinitionKind,
    FoldPolicy,
    RefreshMode,
    RefreshStatus,
    SourceType,
    Status,
    TableKind,
)
from freshlake.catalog.types import Items, Moment, Nodes, Word

metadata = MetaData()


def _owned_by_stream_table(*, primary_key: bool) -> Column[int]:
    return Column(
        "stream_table_id",
        Integer,
        ForeignKey("fl_stream_tables.id", ondelete="CASCADE"),
        primary_key=primary_key,
        nullable=False,
        autoincrement=False,
    )


def _json(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, JSON(none_as_null=True), nullable=nullable)


meta = Table(
    "fl_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

stream_tables = Table(
    "fl_stream_tables",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("storage_id", String(64), nullable=False, unique=True),
    Column("schema", String(128), nullable=False),
    Column("name", String(128), nullable=False),
    Column("original_query", Text, nullable=False),
    Column("defining_query", Text, nullable=False),
    Column("definition_kind", Word(DefinitionKind), nullable=False),
    Column("definition_reference", Text),
    Column("fingerprint", String(128)),
    Column("schedule", String(128)),
    Column("effective_schedule", String(128)),
    Column("refresh_mode", Word(RefreshMode), nullable=False),
    Column("status", Word(Status), nullable=False),
    Column("is_populated", Boolean, nullable=False),
    Column("needs_reinit", Boolean, nullable=False),
    Column("data_timestamp", Moment),
    _json("frontier"),
    Column("last_refresh_at", Moment),
    Column("consecutive_errors", Integer, nullable=False),
    Column("requested_cdc_mode", String(32)),
    Column("topk_limit", BigInteger),
    Column("topk_order_by", Text),
    Column("topk_offset", BigInteger),
    Column("diamond_consistency", String(32), nullable=False),
    Column("diamond_schedule_policy", String(32), nullable=False),
    Column("tier", String(32)),
    Column("append_only", Boolean, nullable=False),
    Column("partition_by", Items, nullable=False),
    _json("session_settings", nullable=False),
    _json("output_schema"),
    Column("reasons", Items, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("published_generation", Integer, nullable=False),
    Column("published_version", BigInteger, nullable=False),
    Column("row_count", BigInteger),
    Column("fold_policy", Word(FoldPolicy), nullable=False),
    Column("fold_base_version", BigInteger),
    Column("folded_version", BigInteger),
    Column("nodes", Nodes, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("dialect", String(32), nullable=False, server_default="spark"),
    Column("fuse_rows", BigInteger),
    Column("fuse_state", String(16)),
    Column("never_full", Boolean, nullable=False, server_default=text("FALSE")),
    Column("max_full_rows", BigInteger),
    Column("retries", Integer, nullable=False, server_default=text("0")),
    Column("retry_at", Moment),
    Column("quarantined_at", Moment),
    Column("max_full_seconds", Integer),
    UniqueConstraint("schema", "name", name="fl_stream_tables_name"),
    CheckConstraint("status IN ('INITIALIZING', 'ACTIVE', 'SUSPENDED', 'ERROR')", name="fl_stream_tables_known_status"),
    Index("fl_stream_tables_status", "status"),
    # ids name storage folders and source keys, so the id of a dropped table is never given out again
    sqlite_autoincrement=True,
)

dependencies = Table(
    "fl_dependencies",
    metadata,
    _owned_by_stream_table(primary_key=True),
    Column("source_key", Text, primary_key=True),
    Column("source_type", Word(SourceType), nullable=False),
    Column("source_name", Text, nullable=False),
    Column("location", Text),
    Column("columns_used", Items),
    Column("cdc_mode", String(32)),
    Column("slot_name", String(128)),
    Column("decoder_confirmed_lsn", String(32)),
    Column("transition_started_at", Moment),
    Index("fl_dependencies_source", "source_key"),
)

refresh_history = Table(
    "fl_refresh_history",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("refresh_id", String(64), nullable=False, unique=True),
    _owned_by_stream_table(primary_key=False),
    Column("status", Word(RefreshStatus), nullable=False),
    Column("action", Word(Action)),
    Column("data_timestamp", Moment),
    Column("start_time", Moment, nullable=False),
    Column("end_time", Moment),
    Column("rows_inserted", BigInteger, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    Column("duration_ms", BigInteger),
    Column("source_changes", BigInteger),
    Column("fallback_reason", Text),
    Column("error_code", String(64)),
    Column("error_message", Text),
    Column("generation", Integer),
    Column("version", BigInteger),
    _json("decision"),
    Column("owner", Text),
    Column("epoch", BigInteger),
    Column("rows_updated", BigInteger),
    Index("fl_refresh_history_data_timestamp", "stream_table_id", "data_timestamp"),
    Index("fl_refresh_history_newest", "stream_table_id", "sequence"),
    sqlite_autoincrement=True,
)
# after a crash the few RUNNING rows are found without reading the history
_running = refresh_history.c.status == RefreshStatus.RUNNING
Index("fl_refresh_history_running", refresh_history.c.status, sqlite_where=_running, postgresql_where=_running)

change_tracking = Table(
    "fl_change_tracking",
    metadata,
    Column("source_key", Text, primary_key=True),
    Column("source_type", Word(SourceType), nullable=False),
    Column("source_name", Text, nullable=False),
    Column("location", Text),
    Column("capture_mode", String(32)),
    Column("capture_name", String(128)),
    Column("registered_at", Moment, nullable=False),
)

refresh_groups = Table(
    "fl_refresh_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    sqlite_autoincrement=True,
)

refresh_group_members = Table(
    "fl_refresh_group_members",
    metadata,
    Column("group_id", Integer, ForeignKey("fl_refresh_groups.id", ondelete="CASCADE"), primary_key=True),
    _owned_by_stream_table(primary_key=True),
)

leases = Table(
    "fl_leases",
    metadata,
    _owned_by_stream_table(primary_key=True),
    # NULL after a release; the row stays, because the epoch must go on counting
    Column("owner", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("acquired_at", Moment, nullable=False),
    Column("heartbeat_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
)

registered_schemas = Table(
    "fl_schemas",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("location", Text),
    Column("created_at", Moment, nullable=False),
)

registered_tables = Table(
    "fl_tables",
    metadata,
    Column("schema", String(128), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("kind", Word(TableKind), nullable=False),
    Column("provider", String(32)),
    Column("location", Text),
    Column("view_text", Text),
    Column("created_at", Moment, nullable=False),
)

folds = Table(
    "fl_folds",
    metadata,
    _owned_by_stream_table(primary_key=True),
    Column("node", String(128), primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("folded_version", BigInteger, primary_key=True, autoincrement=False),
    Column("base_version", BigInteger, nullable=False),
    Column("at", Moment, nullable=False),
)

points = Table(
    "fl_points",
    metadata,
    Column("id", Integer, primary_key=True),
    _owned_by_stream_table(primary_key=False),
    Column("generation", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    _json("roots", nullable=False),
    Column("at", Moment, nullable=False),
    Index("fl_points_newest", "stream_table_id", "id"),
    sqlite_autoincrement=True,
)

daemons = Table(
    "fl_daemons",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("started_at", Moment, nullable=False),
    Column("heartbeat_at", Moment, nullable=False),
    Column("last_tick_at", Moment),
    Column("ended_at", Moment),
    Column("interval_ms", Integer, nullable=False),
    Column("workers", Integer, nullable=False),
    Column("running", Integer, nullable=False, server_default=text("0")),
    Column("waiting", Integer, nullable=False, server_default=text("0")),
    Column("quota", Integer, nullable=False, server_default=text("0")),
    Column("version", String(32)),
    Column("jobs", Items),
)

reads = Table(
    "fl_reads",
    metadata,
    _owned_by_stream_table(primary_key=True),
    Column("wanted_at", Moment),
    Column("last_read_at", Moment),
    Column("reads_per_minute", Float, nullable=False),
)

source_databases = Table(
    "fl_source_databases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("connection", Text, nullable=False),
    Column("schemas", Items),
    Column("tables", Items),
    Column("as_text", Items, nullable=False),
    Column("cdc_mode", String(16), nullable=False),
    Column("version", BigInteger, nullable=False),
    _json("position"),
    _json("capture", nullable=False),
    Column("created_at", Moment, nullable=False),
)

captured_tables = Table(
    "fl_captured_tables",
    metadata,
    _owned_by_stream_table(primary_key=True),
    Column("database", String(64), nullable=False),
    Column("table", Text, nullable=False),
    _json("captured", nullable=False),
    Column("mode", String(16), nullable=False),
    Column("resync", Text),
    Column("created_at", Moment, nullable=False),
    Index("fl_captured_tables_database", "database"),
)

# a database may be gone from the catalog while something of ours is still in it, so these have no foreign key
removals = Table(
    "fl_removals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("database", String(64), nullable=False),
    Column("connection", Text, nullable=False),
    _json("what", nullable=False),
    Column("since", Moment, nullable=False),
    Column("tried_at", Moment),
    Column("attempts", Integer, nullable=False),
    Column("error", Text),
    sqlite_autoincrement=True,
)

alerts = Table(
    "fl_alerts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("event", String(64), nullable=False),
    Column("stream_table", Text),
    _json("payload", nullable=False),
    Index("fl_alerts_event", "event", "id"),
    sqlite_autoincrement=True,
)

audits = Table(
    "fl_audits",
    metadata,
    Column("id", Integer, primary_key=True),
    _owned_by_stream_table(primary_key=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
    Column("outcome", Word(AuditOutcome), nullable=False),
    Column("asked_by", String(32), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("checks", Items, nullable=False),
    Column("missing", BigInteger, nullable=False),
    Column("unexpected", BigInteger, nullable=False),
    Column("compared_rows", BigInteger, nullable=False),
    _json("evidence"),
    Column("detail", Text),
    Column("refresh_id", String(64)),
    Index("fl_audits_newest", "stream_table_id", "id"),
    sqlite_autoincrement=True,
)

deliveries = Table(
    "fl_deliveries",
    metadata,
    Column("database", String(64), primary_key=True),
    Column("target", Text, primary_key=True),
    _owned_by_stream_table(primary_key=False),
    Column("generation", Integer),
    Column("version", BigInteger),
    Column("rows", BigInteger),
    Column("reason", Text),
    Column("delivered_at", Moment),
    Column("attempts", Integer, nullable=False),
    Column("error", Text),
    Column("created_at", Moment, nullable=False),
    Index("fl_deliveries_stream_table", "stream_table_id"),
)
