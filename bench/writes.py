"""Writes that stream tables in mode IMMEDIATE follow, against the same write alone."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from bench.grid import say
from bench.meter import Meter
from freshlake import Freshlake

_PLAIN = "plain"
_QUERIES = (
    "SELECT region, sum(amount) AS amount FROM {t} GROUP BY region",
    "SELECT id, amount FROM {t} WHERE amount > 500",
    "SELECT count(*) AS n, max(amount) AS most FROM {t}",
    "SELECT region, id FROM {t} WHERE id % 7 = 0",
    "SELECT id % 100 AS bucket, sum(amount) AS amount FROM {t} GROUP BY id % 100",
)


@dataclass
class Written:
    """Seconds per round of the write with so many dependants, and of the plain write in the same round."""

    dependants: int
    seconds: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(own / plain for own, plain in zip(self.seconds, self.plain, strict=True))


def measure(fl: Freshlake, meter: Meter, rows: int, dependants: tuple[int, ...], rounds: int) -> list[Written]:
    """Each number of dependants has a table of its own; they are written in turn, round by round."""
    fl.sql("CREATE SCHEMA writes")
    found = {count: Written(count) for count in dependants}
    for name in (_PLAIN, *map(str, dependants)):
        _make(fl, f"writes.t_{name}")
    for count in dependants:
        for number in range(count):
            say(f"writes: loading dependant {number + 1} of {count}")
            query = _QUERIES[number % len(_QUERIES)].format(t=f"writes.t_{count}")
            fl.create_stream_table(f"writes.d_{count}_{number}", query, refresh_mode="IMMEDIATE")
    for number in range(-2, rounds):
        say(f"writes: round {number + 1} of {rounds}, 0 and before are not counted")
        first = 1_000_000 + rows * (number + 2)
        with meter.measured() as plain:
            fl.spark.sql(_insert(_PLAIN, first, rows))
        for count, written in found.items():
            with meter.measured() as cost:
                fl.sql(_insert(str(count), first, rows))
            if number >= 0:
                written.seconds.append(cost.seconds)
                written.plain.append(plain.seconds)
                written.jobs.append(cost.jobs)
    return list(found.values())


def _make(fl: Freshlake, name: str) -> None:
    fl.sql(f"CREATE TABLE {name} (id BIGINT, region STRING, amount BIGINT) USING delta")
    fl.sql(f"INSERT INTO {name} SELECT id, concat('r', id % 20), id % 1000 FROM range(100000)")


def _insert(name: str, first: int, rows: int) -> str:
    row = "id, concat('r', id % 20), id % 1000"
    return f"INSERT INTO writes.t_{name} SELECT {row} FROM range({first}, {first + rows}, 1, 1)"
