"""Tiers by themselves: how often a stream table is read says how often it is worth refreshing."""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum

from freshlake.schedule.state import Tier

_HOT, _WARM = 10.0, 1.0
"""More reads a minute, and at least so many."""
_FROZEN_SECONDS = 3_600.0
_MEMORY_MINUTES = 5.0
"""Reads that long ago count about a third."""


class Declared(StrEnum):
    """What users say about a tier: one of them, or that reads decide."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    FROZEN = "frozen"
    AUTO = "auto"


def tier_of(declared: str | None, reads_per_minute: float | None, last: datetime, now: datetime) -> Tier:
    """The tier of a table; `last` is when it was last read, or else when it was made."""
    if declared is None:
        return Tier.HOT
    if declared != Declared.AUTO:
        return Tier(declared)
    rate = faded(reads_per_minute or 0.0, (now - last).total_seconds())
    if rate > _HOT:
        return Tier.HOT
    if rate >= _WARM:
        return Tier.WARM
    return Tier.FROZEN if (now - last).total_seconds() >= _FROZEN_SECONDS else Tier.COLD


def faded(reads_per_minute: float, seconds: float) -> float:
    """A rate after some time without reads."""
    return reads_per_minute * math.exp(-max(seconds, 0.0) / 60 / _MEMORY_MINUTES)


def with_reads(reads_per_minute: float, seconds: float, reads: int) -> float:
    """A rate after some time in which there were reads."""
    return faded(reads_per_minute, seconds) + reads / _MEMORY_MINUTES
