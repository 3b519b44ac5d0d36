"""What the catalog keeps, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from freshlake.catalog.enums import (
    Action,
    DefinitionKind,
    FoldPolicy,
    RefreshMode,
    RefreshStatus,
    SourceType,
    Status,
    TableKind,
)
from freshlake.catalog.names import TableName

Json = Mapping[str, Any]
DATABASE, STREAM_TABLE = "pg:", "st:"
"""What the keys of sources begin with that are not plain tables."""
USES = "freshlake.uses"
"""Kept beside the pinned settings of a stream table: the views and functions that its query used when it was loaded."""


@dataclass(frozen=True)
class NodeState:
    """Where one internal node stands: its folder, its log version, and the fold that its base holds."""

    path: str
    version: int
    base_version: int | None = None
    folded_version: int | None = None


@dataclass(frozen=True)
class NewStreamTable:
    """A stream table as it is created; everything else starts empty."""

    name: TableName
    storage_id: str
    original_query: str
    defining_query: str
    definition_kind: DefinitionKind = DefinitionKind.SQL
    definition_reference: str | None = None
    fingerprint: str | None = None
    schedule: str | None = None
    effective_schedule: str | None = None
    refresh_mode: RefreshMode = RefreshMode.AUTO
    fold_policy: FoldPolicy = FoldPolicy.AUTO
    append_only: bool = False
    partition_by: tuple[str, ...] = ()
    session_settings: Json = field(default_factory=dict)
    output_schema: Json | None = None
    reasons: tuple[Json, ...] = ()
    requested_cdc_mode: str | None = None
    topk_limit: int | None = None
    topk_order_by: str | None = None
    topk_offset: int | None = None
    diamond_consistency: str = "atomic"
    diamond_schedule_policy: str = "fastest"
    tier: str = "hot"
    dialect: str = "spark"
    fuse_rows: int | None = None
    never_full: bool = False
    max_full_rows: int | None = None
    max_full_seconds: int | None = None


@dataclass(frozen=True)
class StreamTable:
    """A stream table: definition, policy and where it stands.

    `original_query` is what the user wrote, in `dialect`; `defining_query` is what Spark runs.

    `generation` and `version` are committed; readers see the published ones. The frontier has the form
    `{"sources": {source_key: position}, …}`, keyed as the dependencies are.
    """

    id: int
    storage_id: str
    schema: str
    name: str
    original_query: str
    defining_query: str
    definition_kind: DefinitionKind
    definition_reference: str | None
    fingerprint: str | None
    schedule: str | None
    effective_schedule: str | None
    refresh_mode: RefreshMode
    status: Status
    is_populated: bool
    needs_reinit: bool
    data_timestamp: datetime | None
    frontier: Json | None
    last_refresh_at: datetime | None
    consecutive_errors: int
    requested_cdc_mode: str | None
    topk_limit: int | None
    topk_order_by: str | None
    topk_offset: int | None
    diamond_consistency: str
    diamond_schedule_policy: str
    tier: str | None
    append_only: bool
    partition_by: tuple[str, ...]
    session_settings: Json
    output_schema: Json | None
    reasons: tuple[Json, ...]
    generation: int
    version: int
    published_generation: int
    published_version: int
    row_count: int | None
    fold_policy: FoldPolicy
    fold_base_version: int | None
    folded_version: int | None
    nodes: Mapping[str, NodeState]
    created_at: datetime
    updated_at: datetime
    dialect: str
    fuse_rows: int | None
    fuse_state: str | None
    never_full: bool
    max_full_rows: int | None
    retries: int
    retry_at: datetime | None
    quarantined_at: datetime | None
    """Since when its rows are known to be wrong: it is read, and neither refreshed nor followed by its readers."""
    max_full_seconds: int | None

    @property
    def full_name(self) -> TableName:
        return TableName(self.schema, self.name)

    @property
    def uses(self) -> Mapping[str, str]:
        """The views and functions that its query used when it was loaded, each with a digest of what it was."""
        uses: Mapping[str, str] = self.session_settings.get(USES, {})
        return uses

    @property
    def is_mirror(self) -> bool:
        """Whether it holds what a captured table of a source database holds."""
        return self.definition_kind is DefinitionKind.CAPTURE

    @property
    def is_quarantined(self) -> bool:
        return self.quarantined_at is not None

    @property
    def is_published(self) -> bool:
        """Whether readers see what was committed last."""
        return (self.generation, self.version) == (self.published_generation, self.published_version)

    @property
    def shown_status(self) -> Status:
        """What people are told: a quarantine goes before the status that comes back after it."""
        return Status.QUARANTINED if self.is_quarantined else self.status

    @property
    def source_key(self) -> str:
        """How dependencies and frontiers of its readers name this table."""
        return stream_table_key(self.id)


@dataclass(frozen=True)
class Dependency:
    """One thing a stream table reads; `columns_used` None means all columns."""

    source_key: str
    source_type: SourceType
    source_name: str
    location: str | None = None
    columns_used: tuple[str, ...] | None = None
    cdc_mode: str | None = None
    slot_name: str | None = None
    decoder_confirmed_lsn: str | None = None
    transition_started_at: datetime | None = None

    @property
    def stream_table_id(self) -> int | None:
        """The id of the upstream stream table, when the source is one."""
        return int(self.source_key.removeprefix(STREAM_TABLE)) if self.source_type is SourceType.STREAM_TABLE else None


@dataclass(frozen=True)
class Refresh:
    """One row of the refresh history; `decision` holds the inputs of the choice that was made.

    `rows_updated` counts pairs of a deleted and an inserted row with one key, which are counted as such too; None where
    rows have no key, or were too many to look at.
    """

    refresh_id: str
    stream_table_id: int
    status: RefreshStatus
    action: Action | None
    data_timestamp: datetime | None
    start_time: datetime
    end_time: datetime | None
    rows_inserted: int
    rows_deleted: int
    rows_updated: int | None
    duration_ms: int | None
    source_changes: int | None
    fallback_reason: str | None
    error_code: str | None
    error_message: str | None
    generation: int | None
    version: int | None
    decision: Json | None
    owner: str | None
    epoch: int | None


@dataclass(frozen=True)
class Commit:
    """What a finished refresh moves in the catalog, all of it or nothing.

    `nodes` None leaves the internal nodes as they are. `changes` are further columns of the stream table, for a
    refresh that carries a new definition. Without `publish` readers stay at the published version.
    """

    refresh_id: str
    action: Action
    generation: int
    version: int
    frontier: Json
    data_timestamp: datetime
    rows_inserted: int = 0
    rows_deleted: int = 0
    rows_updated: int | None = None
    row_count: int | None = None
    nodes: Mapping[str, NodeState] | None = None
    fold_base_version: int | None = None
    folded_version: int | None = None
    source_changes: int | None = None
    fallback_reason: str | None = None
    decision: Json | None = None
    publish: bool = True
    changes: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Lease:
    """The right of one worker to write a stream table; a higher epoch has taken it over."""

    stream_table_id: int
    owner: str
    epoch: int
    acquired_at: datetime
    heartbeat_at: datetime
    expires_at: datetime
    taken_from: str | None = field(default=None, compare=False)
    """Who held it before and did not give it back: dead, or still there and late."""


@dataclass(frozen=True)
class Consumer:
    """A stream table that reads a source, and how far it has read it."""

    stream_table_id: int
    name: TableName
    position: Json | None


@dataclass(frozen=True)
class TrackedSource:
    """A source whose changes are consumed, with its readers."""

    source_key: str
    source_type: SourceType
    source_name: str
    location: str | None
    capture_mode: str | None
    capture_name: str | None
    registered_at: datetime
    consumers: tuple[Consumer, ...] = ()


@dataclass(frozen=True)
class RefreshGroup:
    """Stream tables that are published together."""

    name: str
    members: tuple[TableName, ...]
    created_at: datetime


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema made through `fl.sql`."""

    name: str
    location: str | None
    created_at: datetime


@dataclass(frozen=True)
class RegisteredTable:
    """A plain table, view or function made through `fl.sql`, so that it is found again after a restart."""

    name: TableName
    """Of a function with `()` behind it: a table may have the same name."""
    kind: TableKind
    provider: str | None
    location: str | None
    """Of a view or function the schema in which its names are looked up."""
    view_text: str | None
    created_at: datetime

    @property
    def word(self) -> str:
        """How a text mentions it."""
        return self.name.name.removesuffix("()")

    @property
    def has_text(self) -> bool:
        """Whether it stands for a text, whose meaning may change."""
        return self.kind is not TableKind.TABLE


@dataclass(frozen=True)
class Fold:
    """Base version `base_version` of a node ('' is the table itself) holds log versions up to `folded_version`."""

    stream_table_id: int
    node: str
    generation: int
    folded_version: int
    base_version: int
    at: datetime


@dataclass(frozen=True)
class StatePoint:
    """Version `version` of a stream table equals its query when its roots stand at `roots`."""

    id: int
    stream_table_id: int
    generation: int
    version: int
    roots: Json
    at: datetime


@dataclass(frozen=True)
class AlertRecord:
    """An alert that was sent; `event` is the word of an event, `stream_table` the name of what it is about."""

    id: int
    at: datetime
    event: str
    stream_table: str | None
    payload: Json


def database_key(name: str) -> str:
    """The source key of a source database: one for all its tables, since they are read in one state."""
    return f"{DATABASE}{name}"


def stream_table_key(stream_table_id: int) -> str:
    """The source key of a stream table; it never collides with the key of a plain table."""
    return f"{STREAM_TABLE}{stream_table_id}"
