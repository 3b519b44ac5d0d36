"""Effective schedules: what readers, tier and usual duration make of a declared schedule.

A calculated schedule is the tightest need of the tables that read it: of several intervals the shortest remains, and
every cron stays. Readers that are stopped do not count beside others; where all of them are, the table goes on as they
would need it, but not more often than one that nobody reads. Readers come after what they read, so one pass against the
order of the graph is enough. Then comes the tier (warm: twice as long; cold and frozen: on demand), and, with
auto_backoff, a stretch by 2, 4 or 8 until a usual refresh fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from freshlake.schedule.expression import Calculated, Cron, Every
from freshlake.schedule.graph import Graph
from freshlake.schedule.state import Limits, Tier, Watched

LONGEST_STRETCH = 8


@dataclass(frozen=True, order=True)
class Firings:
    """Every n-th moment of a cron expression."""

    expression: str
    every: int = 1

    @property
    def shortest_seconds(self) -> int:
        return self.every * Cron(self.expression).shortest_seconds

    def __str__(self) -> str:
        return self.expression if self.every == 1 else f"{self.every} × {self.expression}"


@dataclass(frozen=True)
class Effective:
    """When a stream table is to be refreshed: after an interval, at moments, both (whichever is first) or on demand."""

    seconds: int | None = None
    firings: tuple[Firings, ...] = ()
    is_immediate: bool = False
    """Refreshed by writes; the rest says what its readers need, for the tables that it reads."""
    has_readers: bool = True
    """False: it would follow its readers, and has none, so it follows the shortest allowed schedule."""
    stretch: int = 1
    """How many times longer than its schedule, because its refreshes take longer than that."""

    @property
    def is_on_demand(self) -> bool:
        return self.seconds is None and not self.firings

    @property
    def shortest_seconds(self) -> int | None:
        """The shortest time between two refreshes that it asks for."""
        every = [] if self.seconds is None else [self.seconds]
        return min((*every, *(f.shortest_seconds for f in self.firings)), default=None)

    @property
    def note(self) -> str | None:
        """What a reader of the schedule would wonder about."""
        if not self.has_readers and not self.is_immediate:
            return "calculated, and no stream table reads it"
        if self.stretch > 1:
            return f"stretched {self.stretch} times: its refreshes take longer than its schedule"
        return None

    def moment_after(self, moment: datetime, count: int = 1) -> datetime | None:
        """When it is due for the count-th time after a moment, if nothing is done before."""
        if not self.firings:
            return None if self.seconds is None else moment + timedelta(seconds=count * self.seconds)
        found = [_firing(f.expression, moment, count * f.every) for f in self.firings]
        if self.seconds is not None:
            found.append(moment + timedelta(seconds=count * self.seconds))
        return min(found)

    def times(self, factor: int) -> Effective:
        """Less often by a factor."""
        if factor == 1:
            return self
        seconds = None if self.seconds is None else self.seconds * factor
        return replace(self, seconds=seconds, firings=tuple(replace(f, every=f.every * factor) for f in self.firings))

    def at_most_every(self, seconds: int) -> Effective:
        """Not more often than after so many seconds."""
        return self if self.seconds is None else replace(self, seconds=max(self.seconds, seconds))

    def __str__(self) -> str:
        if self.is_immediate:
            return "immediate"
        every = [] if self.seconds is None else [str(Every(self.seconds))]
        return " or ".join((*every, *map(str, self.firings))) or "on demand"


def effective_schedules(graph: Graph, tables: Mapping[str, Watched], limits: Limits) -> dict[str, Effective]:
    """The effective schedule of every table of the graph that is known, by name."""
    found: dict[str, Effective] = {}
    for name in reversed(graph.order()):
        if name in tables:
            found[name] = _effective(tables[name], _readers(graph, tables, found, name, limits), limits)
    return found


def _readers(
    graph: Graph, tables: Mapping[str, Watched], found: Mapping[str, Effective], name: str, limits: Limits
) -> tuple[Effective, ...]:
    """What the readers of a table need of it."""
    readers = [reader for reader in graph.readers(name) if reader in found]
    going = tuple(found[reader] for reader in readers if tables[reader].is_active and not tables[reader].is_blown)
    # a failure or a suspension makes nothing run more often
    return going or tuple(found[reader].at_most_every(limits.floor_seconds) for reader in readers)


def _effective(table: Watched, readers: Iterable[Effective], limits: Limits) -> Effective:
    needed = _needed(table, readers, limits)
    if table.tier in (Tier.COLD, Tier.FROZEN):
        return replace(needed, seconds=None, firings=())
    if table.is_immediate:
        return needed
    wanted = needed.times(2) if table.tier is Tier.WARM else needed
    if not limits.auto_backoff or table.typical_seconds is None:
        return wanted
    factor = _stretch(wanted.shortest_seconds, table.typical_seconds)
    return wanted if factor == 1 else replace(wanted.times(factor), stretch=factor)


def _needed(table: Watched, readers: Iterable[Effective], limits: Limits) -> Effective:
    match table.schedule:
        case Every(seconds) if not table.is_immediate:
            return _every(seconds)
        case Cron(expression) if not table.is_immediate:
            return _cron(expression)
        case Every() | Cron() | Calculated():
            return _tightest(tuple(readers), limits.floor_seconds, is_immediate=table.is_immediate)


def _tightest(readers: tuple[Effective, ...], floor_seconds: int, *, is_immediate: bool) -> Effective:
    if not readers:
        return Effective(floor_seconds, is_immediate=is_immediate, has_readers=False)
    seconds = min((r.seconds for r in readers if r.seconds is not None), default=None)
    return Effective(seconds, tuple(sorted({f for r in readers for f in r.firings})), is_immediate)


def _stretch(seconds: int | None, typical_seconds: float) -> int:
    factor = 1
    while seconds is not None and factor < LONGEST_STRETCH and factor * seconds < typical_seconds:
        factor *= 2
    return factor


# A tick asks the same of a thousand tables every second, so what depends on few values is kept.
@lru_cache(maxsize=1024)
def _every(seconds: int) -> Effective:
    return Effective(seconds)


@lru_cache(maxsize=1024)
def _cron(expression: str) -> Effective:
    return Effective(firings=(Firings(expression),))


@lru_cache(maxsize=16_384)
def _firing(expression: str, moment: datetime, count: int) -> datetime:
    for _ in range(count):
        moment = Cron(expression).next_after(moment)
    return moment
