"""When a stream table is due: its contents are as old as its effective schedule, or a cron moment has passed since.

Age is counted from the data timestamp, the moment whose sources the contents show, not from the end of the refresh.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from freshlake.schedule.effective import Effective
from freshlake.schedule.state import Tier, Watched

SHORTEST_PERIOD = 48


def next_due(
    table: Watched,
    effective: Effective,
    now: datetime,
    *,
    newest_upstream: datetime | None = None,
    aligned: bool = False,
    floor_seconds: int = 0,
) -> datetime | None:
    """The moment from which a table is due, which may have passed; None: nothing makes it due but an event.

    `newest_upstream` is the latest data timestamp of the stream tables that it reads; only an IMMEDIATE table, which
    has no schedule, asks for it: it is due when one of them is ahead. `aligned`: at canonical moments, where there are.
    What is committed and not published is due after the shortest schedule (`floor_seconds`), however long its own is:
    readers have not seen that refresh.
    """
    if not table.is_active or table.is_blown:
        return None
    moment = _moment(table, effective, now, newest_upstream)
    if aligned and moment is not None and moment > now and table.data_timestamp is not None:
        moment = canonical_moment(effective, table.data_timestamp) or moment
    if table.is_unpublished and table.data_timestamp is not None:
        soon = table.data_timestamp + timedelta(seconds=floor_seconds)
        moment = soon if moment is None else min(moment, soon)
    if moment is None or table.retry_at is None:
        return moment
    return max(moment, table.retry_at)


def _moment(table: Watched, effective: Effective, now: datetime, newest_upstream: datetime | None) -> datetime | None:
    if table.is_wanted:
        return now
    if table.tier in (Tier.COLD, Tier.FROZEN):
        return None
    if table.data_timestamp is None:
        return now
    if table.is_immediate:
        return now if newest_upstream is not None and newest_upstream > table.data_timestamp else None
    return effective.moment_after(table.data_timestamp)


def canonical_period(seconds: int) -> int | None:
    """The largest 48 · 2ⁿ seconds of which two fit into a schedule; None below 96 seconds."""
    if seconds < 2 * SHORTEST_PERIOD:
        return None
    period = SHORTEST_PERIOD
    while 4 * period <= seconds:
        period *= 2
    return period


def canonical_moment(effective: Effective, after: datetime) -> datetime | None:
    """The first moment of an interval's canonical period after another; None for crons and below 96 seconds.

    A moment of a longer period is one of every shorter period too, so tables of different schedules share moments.
    """
    period = None if effective.seconds is None or effective.firings else canonical_period(effective.seconds)
    if period is None:
        return None
    return datetime.fromtimestamp((after.timestamp() // period + 1) * period, UTC)
