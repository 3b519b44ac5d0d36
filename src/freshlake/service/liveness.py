"""Whether somebody keeps the lake fresh: gone, stuck, or never there; a function of what the catalog says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from freshlake.catalog.daemons import Daemon, is_awake
from freshlake.catalog.owner import describe, is_dead
from freshlake.service.report import Finding, Severity

_NAME = "scheduler"
_NAMED = 3
_PATIENCE_SECONDS = 60.0
"""A refresh may take its time."""


def liveness(
    daemons: Sequence[Daemon],
    scheduled: Sequence[str],
    shortest_seconds: float | None,
    newest_refresh: datetime | None,
    now: datetime,
) -> list[Finding]:
    """A lake without daemons is refreshed by hand, which is no finding unless tables have schedules of their own.

    These are `scheduled`. `shortest_seconds` is the shortest schedule of all tables that are to be refreshed by
    themselves; None: there is no such table.
    """
    awake = [daemon for daemon in daemons if is_awake(daemon, now)]
    if not awake:
        return list(_gone(daemons)) or list(_nobody(scheduled))
    if shortest_seconds is None or newest_refresh is None:
        return []
    since = max(newest_refresh, min(daemon.started_at for daemon in awake))
    if (now - since).total_seconds() <= 2 * shortest_seconds + _PATIENCE_SECONDS:
        return []
    message = f"daemons are awake, but nothing was refreshed since {since:%Y-%m-%d %H:%M:%S} UTC"
    hint = "look at their logs and at `freshlake workers`; start them again if a refresh hangs"
    return [Finding(Severity.WARNING, "scheduler-stuck", _NAME, message, hint)]


def _gone(daemons: Sequence[Daemon]) -> Iterable[Finding]:
    left = [daemon for daemon in daemons if daemon.ended_at is None]
    if left:
        last = max(left, key=lambda daemon: daemon.heartbeat_at)
        how = "ended" if is_dead(last.owner) else f"was last heard of at {last.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC"
        message = f"{describe(last.owner)} kept the lake fresh and {how}; nobody does so now"
        yield Finding(Severity.WARNING, "scheduler-gone", _NAME, message, "start a daemon again: freshlake run")


def _nobody(scheduled: Sequence[str]) -> Iterable[Finding]:
    if scheduled:
        others = f" and {len(scheduled) - _NAMED} others" if len(scheduled) > _NAMED else ""
        message = f"no daemon is alive that would keep the schedules of {', '.join(scheduled[:_NAMED])}{others}"
        hint = "start one: freshlake run, or fl.start_scheduler()"
        yield Finding(Severity.WARNING, "no-daemon", _NAME, message, hint)
