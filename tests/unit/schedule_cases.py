"""Stream tables and moments for the tests of the scheduler, in few words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from freshlake.schedule import Graph, parse_schedule
from freshlake.schedule.state import Limits, State, Watched

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def table(name: str, schedule: str | None = "60s", *, age: float | None = 0, **other: Any) -> Watched:
    """A table refreshed `age` seconds ago; None: never loaded."""
    timestamp = None if age is None else ago(age)
    return Watched(name, parse_schedule(schedule), data_timestamp=timestamp, **other)


def graph(text: str) -> Graph:
    """From lines or words like `d:b,c`: a table and what it reads."""
    lines = (word.partition(":") for word in text.split())
    return Graph.of({name: [read for read in reads.split(",") if read] for name, _, reads in lines})


def state(*tables: Watched, groups: tuple[frozenset[str], ...] = (), **limits: Any) -> State:
    return State({t.name: t for t in tables}, groups, Limits(**limits))


def random_graph(random: Random, most: int = 8) -> Graph:
    """Up to `most` tables over three sources; names say nothing about the order."""
    names = [f"t{i}" for i in range(random.randint(0, most))]
    random.shuffle(names)
    pool = ["o", "p", "q"]
    reads: dict[str, list[str]] = {}
    for name in names:
        reads[name] = random.sample(pool, random.choice([0, 1, 1, 2, 2, 3]))
        pool.append(name)
    return Graph.of(reads)


def ways(reads: Graph, name: str) -> Iterator[tuple[str, ...]]:
    """Every way from a node up to something that reads nothing."""
    for upstream in reads.reads.get(name, ()):
        yield from ((name, *way) for way in ways(reads, upstream))
    if not reads.reads.get(name):
        yield (name,)
