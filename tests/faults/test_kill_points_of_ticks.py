"""A daemon dies in the middle of a tick: readers never see a mix, and the next tick of another one goes on by itself.

One tick refreshes a diamond and a declared group. The default run kills it before a group becomes visible, `make slow`
after every effect that it has, and so a daemon that takes over from a dead one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshlake.clock import ManualClock
from freshlake.lake import Freshlake
from tests.faults.processes import Order, consistent, kill, lake_for_victims, moment, plain_tables, points
from tests.integration.lakes import bag, rows

pytestmark = pytest.mark.timeout(3600)

TOTALS = "SELECT region, sum(amount) AS total FROM {orders} GROUP BY region"
COUNTS = "SELECT region, count(*) AS n FROM {orders} GROUP BY region"
PLAIN = {
    "totals": TOTALS,
    "counts": COUNTS,
    "summary": f"SELECT t.region, total, n FROM ({TOTALS}) t JOIN ({COUNTS}) c ON t.region <=> c.region",
    "big": "SELECT id, amount FROM {orders} WHERE amount > 5",
    "stock": "SELECT region, max(amount) AS most FROM {items} GROUP BY region",
}
"""The queries over plain tables; `summary` itself reads the other two."""
GROUPS = (("counts", "totals", "summary"), ("big", "stock"))
SETTINGS = {"differential_max_change_ratio": 0.0, "min_schedule_seconds": 1, "lease_seconds": 60}
SCHEDULE = 10


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[Freshlake]:
    for lake in lake_for_victims(spark, tmp_path_factory.mktemp("lake"), SETTINGS, clock):
        plain_tables(lake, "orders", "items")
        plain = {"orders": "orders", "items": "items"}
        for name, query in PLAIN.items():
            own = "SELECT t.region, total, n FROM totals t JOIN counts c ON t.region <=> c.region"
            text = own if name == "summary" else query.format(**plain)
            lake.create_stream_table(name, text, schedule=f"{SCHEDULE}s", fold_policy="manual")
        lake.create_refresh_group("shop", ["big", "stock"])
        lake._scheduler.tick()
        yield lake


def change(fl: Freshlake, clock: ManualClock, number: int) -> None:
    """Something new for every table, and all of them due."""
    for name in ("orders", "items"):
        fl.sql(f"INSERT INTO {name} VALUES ({100 + number}, 'r{number}', {number}), (0, 'north', 9), (0, 'north', 9)")
    fl.sql(f"DELETE FROM orders WHERE id = {98 + number}")
    clock.advance(SCHEDULE + 1)


def tick(clock: ManualClock, at: int | str, **more: Any) -> Order:
    settings = {**SETTINGS}
    return Order("_scheduler.tick", at=at, steps=isinstance(at, str), now=moment(clock), settings=settings, **more)


# Looking --------------------------------------------------------------------------------------------------------------


def published_together(fl: Freshlake) -> None:
    """Readers see all members of a group as of one tick: each equals its query over the sources of that moment."""
    catalog = fl._engine.catalog
    for group in GROUPS:
        tables = {name: catalog.get(name) for name in group}
        seen = {
            name: {p.at: p.roots for p in catalog.points(t.id) if (p.generation, p.version) == _published(t)}
            for name, t in tables.items()
        }
        common = set.intersection(*(set(known) for known in seen.values()))
        assert common, {name: sorted(map(str, known)) for name, known in seen.items()}
        for name, table in tables.items():
            state = fl._reading.state_at(table, *_published(table))
            at = _positions(fl, seen[name][max(common)])
            assert bag(map(tuple, state.collect())) == rows(fl, PLAIN[name].format(**at)), name


def _published(table: Any) -> tuple[int, int]:
    return table.published_generation, table.published_version


def _positions(fl: Freshlake, roots: dict[str, Any]) -> dict[str, str]:
    """The plain tables as queries over their versions; those that are not among the roots as they are."""
    found = {}
    for name in ("orders", "items"):
        at = next((position["version"] for key, position in roots.items() if key.endswith(f"/{name}")), None)
        found[name] = name if at is None else f"(SELECT * FROM {name} VERSION AS OF {at})"
    return found


def goes_on(fl: Freshlake) -> None:
    """One tick at the same moment finishes everything, and the next one has nothing to do."""
    fl._scheduler.tick()
    for name, query in PLAIN.items():
        assert rows(fl, name) == rows(fl, query.format(orders="orders", items="items")), name
        consistent(fl, name)
    published_together(fl)
    assert fl._scheduler.tick().units == ()


def left(fl: Freshlake, clock: ManualClock) -> list[str]:
    return sorted(row.name for row in fl._engine.catalog.look() if row.is_left(clock.now()))


# The tests ------------------------------------------------------------------------------------------------------------


def check(fl: Freshlake, clock: ManualClock, effect: object) -> None:
    """A daemon has just died: another one says so, and goes on."""
    published_together(fl)
    before, work = len(fl.alerts(event="daemon_took_over")), left(fl, clock)
    goes_on(fl)
    told = fl.alerts(event="daemon_took_over")
    assert len(told) == before + 1, effect
    assert told[0].table is None
    assert told[0].payload["tables"] == work, effect
    assert fl._engine.catalog.daemons() == ()


def test_a_tick(fl: Freshlake, clock: ManualClock) -> None:
    """All of a group is committed, nothing of it is published."""
    change(fl, clock, 1)
    assert kill(fl, tick(clock, "publish", daemon=True)) == "publish"
    check(fl, clock, "publish")


@pytest.mark.slow
def test_every_point_of_a_tick(fl: Freshlake, clock: ManualClock) -> None:
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, clock, 10 + at), lambda at: tick(clock, at, daemon=True)):
        check(fl, clock, seen)
    counted = {effect: seen.count(effect) for effect in ("acquire_lease", "commit", "_commit", "publish")}
    assert counted == {"acquire_lease": 5, "commit": 5, "_commit": 5, "publish": 2}, seen
    goes_on(fl)
    assert all(fl.verify(name).equal for name in PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["appended", "publish"])
def test_every_point_of_a_takeover(fl: Freshlake, clock: ManualClock, first: str) -> None:
    """The one that takes over dies, too; of the first one nobody here knows more than that its leases ran out."""

    def die(number: int) -> None:
        change(fl, clock, 200 + number)
        assert kill(fl, tick(clock, first, daemon=True, elsewhere=True)) == first
        assert fl._scheduler.tick().units != (), "what it did not work on"
        work = left(fl, clock)
        assert work == [], "until its leases run out"
        published_together(fl)
        clock.advance(SETTINGS["lease_seconds"])

    seen: list[str] = []
    for seen in points(fl, die, lambda at: tick(clock, at, daemon=True)):
        published_together(fl)
        goes_on(fl)
        assert fl._engine.catalog.daemons() == (), seen
    assert {"close_base", "close_to", "publish"} <= set(seen), seen
    goes_on(fl)
    assert all(fl.verify(name).equal for name in PLAIN)
