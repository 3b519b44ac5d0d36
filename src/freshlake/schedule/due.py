"""When a stream table is due: its contents are as old as its effective schedule, or a cron moment has passed since.

Age is counted from the data timestamp, the moment whose sources the contents show, not from the end of the refresh.
"""

from __future__ import annotations

from datetime import UTC, datetime

from freshlake.schedule.effective import Effective
from freshlake.schedule.state import Tier, Watched

SHORTEST_PERIOD = 48


def next_due(
    table: Watched, effective: Effective, now: datetime, *, newest_upstream: datetime | None = None
) -> datetime | None:
    """The moment from which a table is due, which may have passed; None: nothing makes it due but an event.

    `newest_upstream` is the latest data timestamp of the stream tables that it reads; only an IMMEDIATE table, which
    has no schedule, asks for it: it is due when one of them is ahead.
    """
    if not table.is_active or table.is_blown:
        return None
    moment = _moment(table, effective, now, newest_upstream)
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


def canonical_timestamp(effective: Effective, now: datetime) -> datetime:
    """`now` rounded down to the canonical period of an interval, so that tables of different schedules share moments.

    A moment of a longer period is one of every shorter period too. For crons, on demand and below 96 seconds it is
    `now` itself.
    """
    period = None if effective.seconds is None or effective.firings else canonical_period(effective.seconds)
    if period is None:
        return now
    return datetime.fromtimestamp(now.timestamp() // period * period, UTC)
