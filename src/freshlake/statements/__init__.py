"""The SQL face: CREATE STREAM TABLE and its relatives."""

from freshlake.statements.parse import parse_statement
from freshlake.statements.values import (
    CreateStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    FoldStreamTable,
    RefreshAllStreamTables,
    RefreshStreamTable,
    ResumeStreamTable,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    ShowHealth,
    ShowHistory,
    ShowStreamTables,
    Statement,
    SuspendStreamTable,
    VerifyStreamTable,
)

__all__ = [
    "CreateStreamTable",
    "DropStreamTable",
    "ExplainStreamTable",
    "FoldStreamTable",
    "RefreshAllStreamTables",
    "RefreshStreamTable",
    "ResumeStreamTable",
    "SetOptions",
    "SetQuery",
    "SetRefreshMode",
    "SetSchedule",
    "ShowHealth",
    "ShowHistory",
    "ShowStreamTables",
    "Statement",
    "SuspendStreamTable",
    "VerifyStreamTable",
    "parse_statement",
]
