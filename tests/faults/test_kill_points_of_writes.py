"""A process dies in the middle of a write that tables in mode IMMEDIATE follow: the next read has caught up.

Killed after every effect: before the source is written, after it, between the tables that follow, before they are
published, and while the write is undone because one of them could not follow. The default run kills at a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshlake.errors import DataError
from freshlake.lake import Freshlake
from tests.faults.processes import Order, consistent, kill, lake_for_victims, plain_tables, points
from tests.integration.lakes import bag, rows

pytestmark = pytest.mark.timeout(3600)

QUERIES = {
    "totals": "SELECT region, sum(amount) AS total FROM orders GROUP BY region",
    "large": "SELECT region FROM totals WHERE total > 20",
    "shares": "SELECT id, 1000 / amount AS share FROM orders",
}
"""A chain of two, and one beside it that cannot follow every write."""
PLAIN = {**QUERIES, "large": f"SELECT region FROM ({QUERIES['totals']}) WHERE total > 20"}


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    for lake in lake_for_victims(spark, tmp_path_factory.mktemp("lake")):
        plain_tables(lake, "orders")
        for name, query in QUERIES.items():
            lake.create_stream_table(name, query, refresh_mode="IMMEDIATE", fold_policy="manual")
        yield lake


def insert(number: int, amount: int, at: int | str) -> Order:
    text = f"INSERT INTO orders VALUES ({number}, 'r{number}', {amount}), (9, 'north', 9), (9, 'north', 9)"
    return Order("sql", (text,), at=at, steps=isinstance(at, str), fails=None if amount else "write-undone")


def is_written(fl: Freshlake, number: int) -> bool:
    return bool(fl.spark.sql(f"SELECT * FROM orders WHERE id = {number}").count())


def published_as_of_their_roots(fl: Freshlake) -> None:
    """Without catching up: every table equals its query over the source where it stands; a chain stands together."""
    catalog = fl._engine.catalog
    stands: dict[str, set[int]] = {}
    for name, query in PLAIN.items():
        table = catalog.get(name)
        mine = (table.published_generation, table.published_version)
        known = [p.roots for p in catalog.points(table.id) if (p.generation, p.version) == mine]
        stands[name] = {position["version"] for roots in known for position in roots.values()}
        state = bag(map(tuple, fl._reading.state_at(table, *mine).collect()))
        for version in stands[name]:
            assert state == rows(fl, query.replace("FROM orders", f"FROM orders VERSION AS OF {version}")), name
    assert stands["totals"] & stands["large"]


def caught_up(fl: Freshlake, *names: str) -> None:
    """Whoever reads sees the source as it is now; a tick tidies up what nobody had to read."""
    for name in names:
        assert rows(fl, name) == rows(fl, PLAIN[name]), name
    fl._scheduler.tick()
    for name in names:
        consistent(fl, name)


def check(fl: Freshlake, number: int, is_committed: bool) -> None:
    """The process is dead: its write is there or not, and whoever reads next sees all of it."""
    assert is_written(fl, number) == is_committed
    published_as_of_their_roots(fl)
    caught_up(fl, *PLAIN)
    published_as_of_their_roots(fl)


def check_poison(fl: Freshlake, number: int) -> None:
    """As above, but `shares` cannot follow: it stays where it is and says so, until the row is gone."""
    published_as_of_their_roots(fl)
    if is_written(fl, number):
        with pytest.raises(DataError):
            fl.table("shares")
        caught_up(fl, "totals", "large")
        fl.sql(f"DELETE FROM orders WHERE id = {number}")
    caught_up(fl, *PLAIN)
    published_as_of_their_roots(fl)


def _is_committed(seen: list[str]) -> bool:
    return "_run" in seen


@pytest.mark.parametrize("at", [pytest.param("leased", marks=pytest.mark.slow), "written", "publish"])
def test_a_write(fl: Freshlake, at: str) -> None:
    number = {"leased": 11, "written": 12, "publish": 13}[at]
    assert kill(fl, insert(number, 1, at)) == at
    check(fl, number, is_committed=at != "leased")


@pytest.mark.parametrize("at", ["undo", pytest.param("undone", marks=pytest.mark.slow)])
def test_a_write_that_is_undone(fl: Freshlake, at: str) -> None:
    number = {"undo": 21, "undone": 22}[at]
    assert kill(fl, insert(number, 0, at)) == at
    assert is_written(fl, number) == (at == "undo")
    check_poison(fl, number)


@pytest.mark.slow
def test_every_point_of_a_write(fl: Freshlake) -> None:
    seen: list[str] = []
    for seen in points(fl, lambda at: None, lambda at: insert(100 + at, 1, at)):
        check(fl, 99 + len(seen), _is_committed(seen))
    counted = {effect: seen.count(effect) for effect in ("acquire_lease", "_run", "commit", "_commit", "publish")}
    assert counted == {"acquire_lease": 3, "_run": 1, "commit": 3, "_commit": 3, "publish": 1}, seen
    assert seen.index("_run") < seen.index("commit")
    check(fl, 100 + len(seen), is_committed=True)
    assert all(fl.verify(name).equal for name in PLAIN)


@pytest.mark.slow
def test_every_point_of_a_write_that_is_undone(fl: Freshlake) -> None:
    seen: list[str] = []
    for seen in points(fl, lambda at: None, lambda at: insert(1000 + at, 0, at)):
        number = 999 + len(seen)
        assert is_written(fl, number) == (_is_committed(seen) and "undo" not in seen), seen
        check_poison(fl, number)
    assert {"_run", "commit", "_commit", "undo"} <= set(seen), seen
    assert not is_written(fl, 1000 + len(seen))
    caught_up(fl, *PLAIN)
    assert all(fl.verify(name).equal for name in PLAIN)


@pytest.mark.slow
def test_the_scheduler_publishes_what_a_dead_writer_had_committed(fl: Freshlake) -> None:
    """Nobody reads: they have no schedule, and are due because their leases were left."""
    assert kill(fl, insert(31, 1, "publish")) == "publish"
    fl._scheduler.tick()
    catalog: Any = fl._engine.catalog
    for name, query in PLAIN.items():
        table = catalog.get(name)
        state = fl._reading.state_at(table, table.published_generation, table.published_version)
        assert bag(map(tuple, state.collect())) == rows(fl, query), name
        consistent(fl, name)
