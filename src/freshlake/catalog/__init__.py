"""The catalog: what stream tables there are and where each of them stands."""

from freshlake.catalog.audits import Audit, NewAudit
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
from freshlake.catalog.history import new_refresh_id
from freshlake.catalog.names import DEFAULT_SCHEMA, TableName
from freshlake.catalog.owner import Owner
from freshlake.catalog.records import (
    AlertRecord,
    Commit,
    Consumer,
    Dependency,
    Fold,
    Lease,
    NewStreamTable,
    NodeState,
    Refresh,
    RefreshGroup,
    RegisteredSchema,
    RegisteredTable,
    StreamTable,
    TrackedSource,
    stream_table_key,
)
from freshlake.catalog.store import Catalog

__all__ = [
    "DEFAULT_SCHEMA",
    "Action",
    "AlertRecord",
    "Audit",
    "AuditOutcome",
    "Catalog",
    "Commit",
    "Consumer",
    "DefinitionKind",
    "Dependency",
    "Fold",
    "FoldPolicy",
    "Lease",
    "NewAudit",
    "NewStreamTable",
    "NodeState",
    "Owner",
    "Refresh",
    "RefreshGroup",
    "RefreshMode",
    "RefreshStatus",
    "RegisteredSchema",
    "RegisteredTable",
    "SourceType",
    "Status",
    "StreamTable",
    "TableKind",
    "TableName",
    "TrackedSource",
    "new_refresh_id",
    "stream_table_key",
]
