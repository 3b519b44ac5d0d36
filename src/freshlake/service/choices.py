"""Choices: what the next refresh of a table would do, and past decisions made again from their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshlake.catalog.enums import Status
from freshlake.catalog.records import Refresh, StreamTable
from freshlake.errors import StreamTableQuarantined, StreamTableSuspended
from freshlake.refresh.choose import choose
from freshlake.refresh.engine import Engine
from freshlake.refresh.situation import situation_of

_STOPPED = {Status.SUSPENDED: StreamTableSuspended.code, Status.QUARANTINED: StreamTableQuarantined.code}


@dataclass(frozen=True)
class Choice:
    """`by` is `rule` where there was nothing to choose, `ratio` for the share of changed rows, `cost` for times."""

    table: str
    action: str
    reason: str | None
    detail: str | None
    error: str | None
    """The code with which the refresh would be refused."""
    by: str
    changed_rows: int | None
    differential_ms: float | None
    full_ms: float | None
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class PastChoice:
    """`action`, `reason` and `error` as they were chosen then; a refresh that failed may have been done in full."""

    table: str
    refresh_id: str
    started: datetime
    action: str
    reason: str | None
    error: str | None
    by: str
    again: str
    """The action that follows from the same inputs now."""
    same: bool
    """Whether action, reason and error do."""
    inputs: Mapping[str, Any]


def next_choice(engine: Engine, table: StreamTable) -> Choice:
    """As the sources stand now; stream tables that it reads are taken as they are."""
    decision = engine.next_choice(table)
    inputs, refusal = decision.inputs, decision.refusal
    costs = inputs["costs"] or {}
    rows = [source["changed_rows"] for source in inputs["sources"].values()]
    stopped = _STOPPED.get(table.shown_status)
    return Choice(
        table=table.full_name.short,
        action=str(decision.action),
        reason=decision.reason,
        detail=refusal.detail if refusal else decision.detail,
        error=stopped or (refusal.code if refusal else None),
        by=inputs["chosen"]["by"],
        changed_rows=None if None in rows else sum(rows),
        differential_ms=costs["differential"]["ms"] if costs else None,
        full_ms=costs["full"]["ms"] if costs else None,
        inputs=inputs,
    )


def past_choices(engine: Engine, table: StreamTable, limit: int) -> list[PastChoice]:
    """Refreshes for which nothing was chosen are left out: no source had a new commit, or the query was altered."""
    rows = engine.catalog.history(table.id, limit)
    return [_again(table.full_name.short, row) for row in rows if row.decision and "chosen" in row.decision]


def _again(name: str, row: Refresh) -> PastChoice:
    assert row.decision is not None
    chosen = row.decision["chosen"]
    again = choose(situation_of(row.decision)).inputs["chosen"]
    return PastChoice(
        table=name,
        refresh_id=row.refresh_id,
        started=row.start_time,
        action=chosen["action"],
        reason=chosen["reason"],
        error=chosen["refused"],
        by=chosen["by"],
        again=again["action"],
        same=again == chosen,
        inputs=row.decision,
    )
