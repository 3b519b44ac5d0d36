"""What the soak measures: how fresh tables are, how long refreshes take, and how much of the machine is used."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import freshlake
from freshlake.catalog.owner import Owner
from freshlake.catalog.records import Refresh
from freshlake.schedule.tick import tick
from tests.soak.dag import Defined

_CATCH_UP = 120.0


@dataclass
class Looks:
    """How many tables keep their schedules, looked at again and again.

    A table is within its schedule unless it is stale in the scheduler's own sense: due twice since the moment that its
    rows show. Making the tables took minutes, so looks count from when all have been caught up with for the first time.
    """

    fl: freshlake.Freshlake
    kinds: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)
    caught_up: float | None = None
    looked: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, float] = field(default_factory=dict)
    behind: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        now = datetime.now(UTC)
        scheduler = self.fl._scheduler
        dag, looked = scheduler._known.current(), self.fl._engine.catalog.look()
        left = frozenset(row.full_name for row in looked if row.is_left(now))
        state = scheduler._state(looked, dag, left, now)
        decided = tick(dag.graph, state, now)
        stale = {late.table.removeprefix("default."): late.staleness_seconds for late in decided.stale}
        stale |= self._immediate({name for name, table in state.tables.items() if table.is_wanted})
        since = time.monotonic() - self.began
        if self.caught_up is None:
            if stale and since < _CATCH_UP:
                return
            self.caught_up = since
        self.looked.update(self.kinds.keys())
        self.stale.update(stale.keys())
        for name, seconds in stale.items():
            self.oldest[name] = max(seconds, self.oldest.get(name, 0.0))

    def _immediate(self, behind: set[str]) -> dict[str, float]:
        """A table in mode IMMEDIATE has a few seconds to follow a foreign writer."""
        now = time.monotonic()
        self.behind = {name: self.behind.get(name, now) for name in behind}
        waited = {name.removeprefix("default."): now - since for name, since in self.behind.items()}
        return {name: seconds for name, seconds in waited.items() if seconds > 15}

    @property
    def share(self) -> float:
        return 1 - sum(self.stale.values()) / max(1, sum(self.looked.values()))

    def lines(self) -> Iterator[str]:
        yield f"caught up with all tables for the first time after {self.caught_up or 0:.0f} s"
        yield f"within the schedule: {100 * self.share:.1f} % of {sum(self.looked.values())} looks"
        by_kind: dict[str, list[str]] = defaultdict(list)
        for name, kind in self.kinds.items():
            by_kind[kind].append(name)
        for kind, names in sorted(by_kind.items()):
            looked, stale = sum(self.looked[n] for n in names), sum(self.stale[n] for n in names)
            worst = max((self.oldest.get(n, 0.0), n) for n in names)
            late = f"; oldest {worst[1]}, {worst[0]:.0f} s" if worst[0] else ""
            yield f"  {kind:10} {100 * (1 - stale / max(1, looked)):5.1f} % of {len(names)} tables{late}"


def refreshes(history: Sequence[Refresh]) -> Iterator[str]:
    """How refreshes ended, and how long they took."""
    ended = Counter(_ending(refresh) for refresh in history)
    yield f"{len(history)} refreshes: {', '.join(f'{n} {word}' for word, n in ended.most_common())}"
    for action in ("DIFFERENTIAL", "FULL", "REINITIALIZE"):
        took = [r.duration_ms for r in history if str(r.action) == action and r.duration_ms is not None]
        if len(took) > 1:
            yield f"  {action:13} {_spread(took)}"


def failures(history: Iterable[Refresh]) -> list[str]:
    """Refreshes that failed although nobody killed their process."""
    failed = (r for r in history if str(r.status) == "FAILED" and "interrupted" not in (r.error_message or ""))
    return [f"a refresh failed: {r.error_code}: {r.error_message}" for r in failed]


def starts(history: Iterable[Refresh], started: Mapping[int, float]) -> Iterator[str]:
    """How long a daemon needs until its first refresh has ended."""
    first: dict[int, float] = {}
    for refresh in history:
        owner = Owner.parse(refresh.owner or "")
        if (
            owner is not None
            and owner.pid in started
            and refresh.end_time is not None
            and str(refresh.action) != "SKIPPED"
        ):
            ended = refresh.end_time.timestamp()
            first[owner.pid] = min(ended, first.get(owner.pid, ended))
    needed = [1000 * (ended - started[pid]) for pid, ended in first.items()]
    if len(needed) > 1:
        yield f"from the start of a daemon to the end of its first refresh: {_spread(needed)}"
    if len(first) < len(started):
        yield f"  {len(started) - len(first)} daemons were killed before that"


def load(written: int, history: Iterable[Refresh], began: datetime, elapsed: float, used: float) -> str:
    """What the daemons had to do, and what that cost."""
    until = began + timedelta(seconds=elapsed)
    done = sum(r.start_time < until and str(r.status) == "COMPLETED" and str(r.action) != "NO_DATA" for r in history)
    return (
        f"load: {60 * written / elapsed:.0f} commits to sources and {60 * done / elapsed:.0f} refreshes with changes "
        f"a minute, {used / max(1, done):.1f} processor seconds of daemons for each, their starts included"
    )


def machine(daemons: float, own: float, elapsed: float) -> str:
    """Whether the load fits."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    others = f"load average {os.getloadavg()[0]:.1f}"
    return (
        f"of {cores} processors over {elapsed:.0f} s daemons used {100 * daemons / (cores * elapsed):.0f} %, "
        f"this process {100 * own / (cores * elapsed):.0f} %; {others}"
    )


def kinds(defined: Iterable[Defined]) -> dict[str, str]:
    return {table.name: table.kind for table in defined}


def _ending(refresh: Refresh) -> str:
    if str(refresh.status) == "SKIPPED":
        return f"SKIPPED ({refresh.fallback_reason})"
    return str(refresh.status) if str(refresh.status) != "COMPLETED" else str(refresh.action)


def _spread(ms: Sequence[float]) -> str:
    cuts = statistics.quantiles(ms, n=20, method="inclusive")
    return f"half within {statistics.median(ms) / 1000:.1f} s, 95 % within {cuts[-1] / 1000:.1f} s ({len(ms)})"
