"""What the scheduler looks at and what it decides, as plain values: no clock, no database, no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from freshlake.schedule.expression import Schedule


class Tier(StrEnum):
    """How often a stream table is worth refreshing."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    FROZEN = "frozen"


class Consistency(StrEnum):
    """Whether the paths of a diamond are refreshed and published together."""

    ATOMIC = "atomic"
    NONE = "none"


class Policy(StrEnum):
    """When an atomic group is due: with its first member, or with its last."""

    FASTEST = "fastest"
    SLOWEST = "slowest"


@dataclass(frozen=True)
class Watched:
    """One stream table as a tick sees it."""

    name: str
    schedule: Schedule
    """As declared; a calculated one follows its readers."""
    is_active: bool = True
    is_failed: bool = False
    """Not active because of failures or wrong rows, and not because a person wants it so."""
    is_immediate: bool = False
    """Refreshed by the writes of its sources; on schedule only to catch up with foreign writers."""
    tier: Tier = Tier.HOT
    data_timestamp: datetime | None = None
    """None: never loaded."""
    is_leased: bool = False
    """Being written now, by this process or another, or waiting for that in a unit that has not ended."""
    leased_at: datetime | None = None
    """Since when, if that is known."""
    is_unpublished: bool = False
    """Readers do not see yet what was committed last: a member of its group failed, or the process died before."""
    retry_at: datetime | None = None
    """After a failure that may pass: not before this moment."""
    is_blown: bool = False
    """Its fuse has blown: a person decides."""
    is_quarantined: bool = False
    """Its rows are known to be wrong: it is not active, and who reads it waits."""
    is_wanted: bool = False
    """A reader waits for it, whatever its schedule says."""
    consistency: Consistency = Consistency.ATOMIC
    policy: Policy = Policy.FASTEST
    typical_seconds: float | None = None
    """How long its refreshes took lately."""


@dataclass(frozen=True)
class Limits:
    """Settings that a tick follows."""

    floor_seconds: int = 60
    auto_backoff: bool = False
    enabled: bool = True
    aligned: bool = False
    """Whether intervals begin at canonical moments, which tables of different schedules share."""


@dataclass(frozen=True)
class State:
    """Everything that changes between two ticks."""

    tables: Mapping[str, Watched]
    groups: tuple[frozenset[str], ...] = ()
    """Refresh groups as users declared them."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Unit:
    """Stream tables that one worker refreshes one after the other, upstreams first."""

    tables: tuple[str, ...]
    is_atomic: bool
    """Published together, when all of them are committed."""
    priority: int
    """Lower runs first when workers are short."""
    after: tuple[int, ...] = ()
    """Positions of units of the same tick that must have ended."""
    publishes: bool = True
    """False: readers see it later, with a table of its group that a failure holds back now."""
    beside: tuple[str, ...] = ()
    """The other tables of its groups, which are left out."""


@dataclass(frozen=True)
class Skipped:
    """A stream table that is due and not refreshed in this tick."""

    table: str
    reason: str
    detail: str | None = None
    because_of: str | None = None
    """The table that holds it back, when it is not the table itself."""


@dataclass(frozen=True)
class Late:
    """A stream table whose refreshes do not keep its schedule."""

    table: str
    staleness_seconds: float
    schedule_seconds: float


@dataclass(frozen=True)
class Tick:
    """What to do now."""

    units: tuple[Unit, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    stale: tuple[Late, ...] = ()
    """Older than twice their schedule."""
    falling_behind: tuple[Late, ...] = ()
    """Refreshes take longer than the time between two of them."""
    next_due: datetime | None = None
    """Nothing becomes due before this moment unless something changes."""
    moments: Mapping[str, datetime] = field(default_factory=dict)
    """When each table is due, which may have passed; without those that only an event makes due."""
