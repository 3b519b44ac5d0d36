"""What a refresh, a verification and a fold tell their caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from freshlake.catalog.enums import Action

if TYPE_CHECKING:
    from freshlake.refresh.choose import Decision
    from freshlake.refresh.commit import Done


@dataclass(frozen=True)
class RefreshResult:
    table: str
    action: Action
    reason: str | None
    rows_inserted: int
    rows_deleted: int
    duration_ms: float
    frontier: Mapping[str, Any]
    version: int
    detail: str | None = None
    spark_jobs: int = 0
    rows_read: int = 0
    refresh_id: str | None = None
    fold: FoldResult | None = None
    rows_updated: int | None = None
    """Pairs of a deleted and an inserted row with one key, counted there too; None where they are not counted."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds per phase."""
    error: Mapping[str, Any] | None = None
    """The error of its refresh, or of the table that it waits for; None where nothing failed."""


@dataclass(frozen=True)
class FoldResult:
    table: str
    folded_versions: int
    rows: int
    duration_ms: float
    reason: str | None = None
    error: str | None = None
    """Why a fold after a refresh failed; the refresh itself is committed."""


@dataclass(frozen=True)
class Verification:
    """`missing` rows the query has and the table has not; `unexpected` ones the other way round."""

    table: str
    equal: bool
    missing: int
    unexpected: int
    compared_rows: int
    sample: tuple[Mapping[str, Any], ...]
    not_compared: tuple[str, ...]
    frontier: Mapping[str, Any]


def result_of(done: Done, decision: Decision, jobs: int, took: float, timings: Mapping[str, float]) -> RefreshResult:
    return RefreshResult(
        table=str(done.table.full_name),
        action=decision.action,
        reason=decision.reason,
        rows_inserted=done.rows_inserted,
        rows_deleted=done.rows_deleted,
        rows_updated=done.rows_updated,
        duration_ms=took,
        frontier=dict(done.table.frontier or {}),
        version=done.table.version,
        detail=decision.detail,
        spark_jobs=jobs,
        rows_read=done.rows_read,
        refresh_id=done.refresh_id,
        timings=dict(timings),
    )
