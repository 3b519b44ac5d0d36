"""What becomes of the tables of a unit, and of the tables beside them that are not refreshed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError, RefreshInProgress, StreamTableQuarantined, StreamTableSuspended
from freshlake.refresh.failing import ELSEWHERE
from freshlake.refresh.result import RefreshResult
from freshlake.service.moment import Round

_log = logging.getLogger("freshlake")

RESTING = (Status.SUSPENDED, Status.ERROR, Status.QUARANTINED)
"""Tables in these states are not refreshed unless a person asks for it."""
STOPPED = (Status.SUSPENDED, Status.QUARANTINED)
"""Tables in these states are not refreshed even then."""


@dataclass
class Outcome:
    """What became of each table of a unit, in order."""

    results: list[RefreshResult] = field(default_factory=list)
    failed: dict[str, FreshlakeError] = field(default_factory=dict)
    published: bool = True


def check_asked(table: StreamTable) -> None:
    """Who is stopped is not refreshed even when a person asks for it by name."""
    name = table.full_name.short
    if table.status is Status.SUSPENDED:
        raise StreamTableSuspended(f"stream table {name} is suspended", hint=f'fl.resume("{name}")')
    if table.is_quarantined:
        raise StreamTableQuarantined(
            f"stream table {name} is in quarantine: its rows are not those of its query",
            hint=f'look at fl.audits("{name}"); then repair it: fl.repair("{name}")',
        )


def is_brought(table: StreamTable, *, asked: bool) -> bool:
    """Who only comes along is not woken up for it, and not loaded for the first time if it has to follow writes."""
    if asked:
        return table.shown_status not in STOPPED
    is_loaded = table.is_populated or table.refresh_mode is not RefreshMode.IMMEDIATE
    return is_loaded and table.shown_status not in RESTING


def holds_back(table: StreamTable) -> bool:
    """Whether what is published with a table waits for it; a person's suspension and a lost mirror are left out."""
    is_failed = table.shown_status in (Status.ERROR, Status.QUARANTINED) and table.status is not Status.SUSPENDED
    return is_failed and not table.is_mirror


def not_shown(outcome: Outcome, waits_for: Sequence[StreamTable]) -> Outcome:
    words = ", ".join(f"{table.full_name.short}, which is in {table.shown_status}" for table in waits_for)
    for result in outcome.results:
        _log.warning("%s is not published without its group: it waits for %s", result.table, words)
    return unpublished(outcome, f"its group waits for {words}")


def unpublished(outcome: Outcome, why: str) -> Outcome:
    return Outcome([_unpublished(result, why) for result in outcome.results], outcome.failed, published=False)


def _unpublished(result: RefreshResult, why: str) -> RefreshResult:
    """What a refresh has done is no less than that readers do not see it; one that was left out says why by itself."""
    if result.action is Action.SKIPPED and result.detail:
        return result
    told = f"not published: {why}"
    return replace(result, detail=f"{result.detail}; {told}" if result.detail else told)


def not_of_one_moment(tables: Sequence[StreamTable], torn: str) -> RefreshInProgress:
    names = ", ".join(table.full_name.short for table in tables)
    return RefreshInProgress(
        f"what {names} read was refreshed by others meanwhile, so they do not show one moment yet",
        detail=torn,
        hint="refresh again; a scheduler does so by itself",
    )


def none_published(
    tables: Sequence[StreamTable], moment: Round, error: FreshlakeError, results: list[RefreshResult]
) -> Outcome:
    every = dict.fromkeys((str(table.full_name) for table in tables), error)
    moment.failed.update(every)
    told = _told(error)
    outcome = Outcome([replace(result, error=result.error or told) for result in results], every)
    return unpublished(outcome, error.message)


def failed_result(table: StreamTable, error: FreshlakeError) -> RefreshResult:
    return replace(not_done(table, error.code, error.message), error=_told(error))


def _told(error: FreshlakeError) -> dict[str, object] | None:
    """Nothing has failed where a table is only in other hands."""
    return None if isinstance(error, ELSEWHERE) else error.to_dict()


def not_done(table: StreamTable, reason: str, detail: str | None) -> RefreshResult:
    frontier = dict(table.frontier or {})
    return RefreshResult(str(table.full_name), Action.SKIPPED, reason, 0, 0, 0.0, frontier, table.version, detail)
