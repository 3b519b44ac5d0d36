"""Stream tables as a tick sees them, from what the catalog says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import lru_cache

from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.watching import Looked
from freshlake.config import Settings
from freshlake.refresh.situation import BLOWN
from freshlake.schedule.expression import Schedule, parse_schedule
from freshlake.schedule.state import Consistency, Limits, Policy, Watched
from freshlake.schedule.tiers import tier_of


def watched(
    row: Looked,
    now: datetime,
    *,
    alive: datetime | None = None,
    busy: Mapping[str, datetime | None] | None = None,
    behind: Collection[str] = (),
    typical: Mapping[str, float] | None = None,
    paused: Mapping[str, datetime] | None = None,
) -> Watched:
    """`alive` is the time by which leases run out; `busy` are being refreshed here, since when; `behind` have missed a
    write; `typical`: how long refreshes take.

    `paused` have failed in a way that the catalog does not know, and are not tried again before a moment.
    """
    name, busy = row.full_name, busy or {}
    return Watched(
        name=name,
        schedule=_schedule(row.schedule),
        is_active=row.status is Status.ACTIVE and row.quarantined_at is None,
        is_failed=row.status is Status.ERROR or (row.quarantined_at is not None and row.status is not Status.SUSPENDED),
        is_quarantined=row.quarantined_at is not None,
        is_immediate=row.refresh_mode is RefreshMode.IMMEDIATE,
        tier=tier_of(row.tier, row.reads_per_minute, row.last_read_at or row.created_at, now),
        data_timestamp=row.data_timestamp,
        is_leased=name in busy or row.is_leased(alive or now),
        leased_at=busy.get(name, row.acquired_at),
        is_unpublished=not row.is_published,
        retry_at=max(filter(None, (row.retry_at, (paused or {}).get(name))), default=None),
        is_blown=row.fuse_state == BLOWN,
        is_wanted=row.is_wanted or name in behind,
        consistency=Consistency(row.diamond_consistency),
        policy=Policy(row.diamond_schedule_policy),
        typical_seconds=(typical or {}).get(name),
    )


def limits(settings: Settings) -> Limits:
    """What settings say about ticks."""
    return Limits(settings.min_schedule_seconds, settings.auto_backoff, settings.enabled, settings.aligned_schedules)


# a tick reads the same few texts again and again
@lru_cache(maxsize=10_000)
def _schedule(text: str | None) -> Schedule:
    return parse_schedule(text)
