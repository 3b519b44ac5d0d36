"""A process is stopped in the middle of its work, its lease runs out, another one takes over: when it wakes, it fails.

It is a real process, stopped by the operating system. Its clock stands still, so it believes that its lease is good;
the clock of the one that takes over has moved on. Nothing that it does after it woke may be in a log or a base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from freshlake.clock import ManualClock
from freshlake.lake import Freshlake
from tests.faults.processes import Order, consistent, lake_for_victims, moment, nodes, plain_tables, stopped
from tests.integration.lakes import rows

pytestmark = pytest.mark.timeout(1800)

LEASE = 60
SETTINGS = {"differential_max_change_ratio": 0.0, "min_schedule_seconds": 1, "lease_seconds": LEASE}
BY_SPARK = {**SETTINGS, "driver_rows": 1, "driver_result_bytes": 1}
QUERIES = {
    # the inner aggregate is an internal node with its own log
    "spread": "SELECT total, count(*) AS regions FROM "
    "(SELECT region, sum(amount) AS total FROM orders GROUP BY region) GROUP BY total",
    "totals": "SELECT region, sum(amount) AS total FROM orders GROUP BY region",
    "counts": "SELECT region, count(*) AS n FROM orders GROUP BY region",
    "followed": "SELECT region, max(amount) AS most FROM sales GROUP BY region",
    "beside": "SELECT id, 100 / amount AS share FROM sales",
}
IMMEDIATE = ("followed", "beside")
NUMBERS = count(100)
Other = Callable[[Freshlake, int], None]
"""What the one that takes over does; the number is that of the rows that the late one was about to apply."""


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[Freshlake]:
    for lake in lake_for_victims(spark, tmp_path_factory.mktemp("lake"), SETTINGS, clock):
        plain_tables(lake, "orders", "sales")
        for name, query in QUERIES.items():
            mode = "IMMEDIATE" if name in IMMEDIATE else None
            lake.create_stream_table(name, query, refresh_mode=mode, fold_policy="manual")
        lake.create_refresh_group("both", ["totals", "counts"])
        yield lake


def order(clock: ManualClock, at: str, call: str, *args: str, **more: Any) -> Order:
    settings = more.pop("settings", SETTINGS)
    return Order(call, args, more, at=at, stops=True, now=moment(clock), settings=settings)


def insert(fl: Freshlake, number: int) -> None:
    fl.spark.sql(f"INSERT INTO orders VALUES ({number}, 'r{number}', {number}), ({number}, 'north', 1)")


def commits(fl: Freshlake, *names: str) -> dict[str, int]:
    """How many commits every log and base of these tables has."""
    found = {}
    for name in names:
        for path in nodes(fl, fl._engine.catalog.get(name)).values():
            found |= {f"{path}/{part}": DeltaTable(f"{path}/{part}").version() for part in ("log", "base")}
    return found


def check(fl: Freshlake, *names: str) -> None:
    for name in names:
        assert rows(fl, name) == rows(fl, QUERIES[name]), name
        consistent(fl, name)
        assert fl.verify(name).equal


def codes(fl: Freshlake, name: str) -> list[str | None]:
    """How all refreshes ended, newest first."""
    return [record.error_code for record in fl.history(name, limit=10_000)]


# A refresh ------------------------------------------------------------------------------------------------------------


def nothing(fl: Freshlake, number: int) -> None:
    """The change is gone again: the other one finds that nothing is to be written."""
    fl.spark.sql(f"DELETE FROM orders WHERE id = {number}")
    result = fl.refresh("spread")
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)


def something(fl: Freshlake, number: int) -> None:
    insert(fl, 10_000 + number)
    assert fl.refresh("spread").rows_inserted


def a_fold(fl: Freshlake, number: int) -> None:
    fl.fold("spread")


REFRESHES: list[Any] = [
    pytest.param("append root", "driver", nothing),
    *(
        pytest.param(at, way, other, marks=pytest.mark.slow)
        for at in ("acquire_lease", "compute", "append n1", "append root", "_stage_arrow", "_stage_frame")
        for way in ("driver", "spark")
        for other in (nothing, something, a_fold)
        if at != {"driver": "_stage_frame", "spark": "_stage_arrow"}[way]
    ),
]


@pytest.mark.parametrize(("at", "way", "other"), REFRESHES)
def test_a_refresh(fl: Freshlake, clock: ManualClock, at: str, way: str, other: Other) -> None:
    """At `append n1` and the first `_stage…` it is before the log of its internal node, at `append root` behind it."""
    number = next(NUMBERS)
    insert(fl, number)
    known = len(codes(fl, "spread"))
    settings = SETTINGS if way == "driver" else BY_SPARK
    with stopped(fl, order(clock, at, "refresh", "spread", settings=settings)) as late:
        clock.advance(LEASE)
        other(fl, number)
        before = commits(fl, "spread")
        answer = late.wake()
    assert answer["error"] == "lease-lost", answer
    assert commits(fl, "spread") == before
    since = codes(fl, "spread")[:-known]
    assert since.count("lease-lost") == (at != "acquire_lease"), "if it had begun, the history says why it failed"
    assert set(since) <= {None, "lease-lost"}
    assert fl._engine.catalog.get("spread").consecutive_errors == 0
    fl.refresh("spread")
    check(fl, "spread")


@pytest.mark.slow
def test_a_refresh_that_was_in_the_log_already(fl: Freshlake, clock: ManualClock) -> None:
    """Its result is kept by the one that took over, and stays completed in the history."""
    insert(fl, next(NUMBERS))
    with stopped(fl, order(clock, "appended", "refresh", "spread")) as late:
        clock.advance(LEASE)
        assert str(fl.refresh("spread").action) == "NO_DATA"
        before = commits(fl, "spread")
        assert late.wake()["error"] == "lease-lost"
    assert commits(fl, "spread") == before
    assert [str(r.status) for r in fl.history("spread", limit=2)] == ["COMPLETED", "COMPLETED"]
    check(fl, "spread")


@pytest.mark.slow
@pytest.mark.parametrize("at", ["rmtree", "load root", "loaded"])
def test_a_rebuild(fl: Freshlake, clock: ManualClock, at: str) -> None:
    """Two loads of one table: the late one removes nothing but its own."""
    fl.create_stream_table("rebuilt", QUERIES["counts"])
    query = "SELECT region, count(*) + 1 AS n FROM orders GROUP BY region"
    at = {"rmtree": "_load"}.get(at, at)
    with stopped(fl, order(clock, at, "alter_stream_table", "rebuilt", query=query)) as late:
        clock.advance(LEASE)
        fl.alter_stream_table("rebuilt", query=QUERIES["totals"])
        before = commits(fl, "rebuilt")
        assert late.wake()["error"] == "lease-lost"
    assert commits(fl, "rebuilt") == before
    assert rows(fl, "rebuilt") == rows(fl, QUERIES["totals"])
    consistent(fl, "rebuilt")
    assert fl.verify("rebuilt").equal
    assert codes(fl, "rebuilt") == [None, "lease-lost", None]
    assert len(fl._engine.layout.generations(fl._engine.catalog.get("rebuilt").storage_id)) == 2
    fl.drop_stream_table("rebuilt")


# A fold ---------------------------------------------------------------------------------------------------------------


FOLDS: list[Any] = [
    pytest.param("fold root", SETTINGS, something),
    *(
        pytest.param(at, settings, other, marks=pytest.mark.slow)
        for at in ("fold n1", "folded n1", "fold root", "cleanup n1", "cleanup root")
        for settings in (SETTINGS, BY_SPARK)
        for other in (something, a_fold)
    ),
]


@pytest.mark.parametrize(("at", "settings", "other"), FOLDS)
def test_a_fold(fl: Freshlake, clock: ManualClock, at: str, settings: dict[str, Any], other: Other) -> None:
    """Where the other one has cleaned up, nothing is left to do, and nothing to refuse."""
    number = next(NUMBERS)
    insert(fl, number)
    fl.refresh("spread")
    with stopped(fl, order(clock, at, "fold", "spread", settings=settings)) as late:
        clock.advance(LEASE)
        other(fl, number)
        before = commits(fl, "spread")
        answer = late.wake()
    has_rest = not (at.startswith("cleanup") and other is a_fold)
    assert answer.get("error") == ("lease-lost" if has_rest else None), answer
    assert commits(fl, "spread") == before
    check(fl, "spread")
    fl.fold("spread")
    check(fl, "spread")
    assert fl.spark.table("spread").count() == rows(fl, QUERIES["spread"]).total()


# A group --------------------------------------------------------------------------------------------------------------


def state(fl: Freshlake, *names: str) -> list[tuple[int, int, int]]:
    tables = [fl._engine.catalog.get(name) for name in names]
    return [(t.version, t.published_generation, t.published_version) for t in tables]


@pytest.mark.parametrize("at", ["publish", pytest.param("committed", marks=pytest.mark.slow)])
def test_a_group(fl: Freshlake, clock: ManualClock, at: str) -> None:
    """Stopped before it publishes both, or after it has committed one of them; the other one has gone further since."""
    insert(fl, next(NUMBERS))
    fl.refresh("spread")
    with stopped(fl, order(clock, at, "refresh_all")) as late:
        clock.advance(LEASE)
        insert(fl, next(NUMBERS))
        fl.refresh_all()
        insert(fl, next(NUMBERS))
        before = commits(fl, "totals", "counts"), state(fl, "totals", "counts")
        late.wake()
    assert (commits(fl, "totals", "counts"), state(fl, "totals", "counts")) == before
    fl.refresh_all()
    check(fl, "totals", "counts")


# A write --------------------------------------------------------------------------------------------------------------


def sale(number: int, amount: int = 1) -> str:
    return f"INSERT INTO sales VALUES ({number}, 'r{number}', {amount})"


def is_sold(fl: Freshlake, number: int) -> bool:
    return bool(fl.spark.sql(f"SELECT * FROM sales WHERE id = {number}").count())


@pytest.mark.slow
def test_a_write_that_was_not_made_yet(fl: Freshlake, clock: ManualClock) -> None:
    with stopped(fl, order(clock, "leased", "sql", sale(10))) as late:
        clock.advance(LEASE)
        fl.sql(sale(11))
        before = commits(fl, *IMMEDIATE)
        assert late.wake()["error"] == "lease-lost"
    assert commits(fl, *IMMEDIATE) == before
    assert (is_sold(fl, 10), is_sold(fl, 11)) == (False, True)
    check(fl, *IMMEDIATE)


@pytest.mark.slow
@pytest.mark.parametrize("at", ["written", "append root", "publish"])
def test_a_write_that_others_have_seen_is_not_undone(fl: Freshlake, clock: ManualClock, at: str) -> None:
    """It is in the source, and who read next has caught up with it: the late one changes nothing, and says so."""
    with stopped(fl, order(clock, at, "sql", sale(12))) as late:
        clock.advance(LEASE)
        check(fl, *IMMEDIATE)
        before = commits(fl, *IMMEDIATE), fl.sql("DESCRIBE HISTORY sales").count()
        assert late.wake()["error"] == "committed-but-not-maintained"
    assert (commits(fl, *IMMEDIATE), fl.sql("DESCRIBE HISTORY sales").count()) == before
    assert is_sold(fl, 12)
    check(fl, *IMMEDIATE)
    fl.sql("DELETE FROM sales WHERE id = 12")


@pytest.mark.slow
def test_an_undo_never_takes_a_later_commit_with_it(fl: Freshlake, clock: ManualClock) -> None:
    """Stopped when it had looked and was about to restore the source."""
    with stopped(fl, order(clock, "undo", "sql", sale(13, amount=0))) as late:
        clock.advance(LEASE)
        fl.spark.sql(sale(14))
        assert late.wake()["error"] == "committed-but-not-maintained"
    assert (is_sold(fl, 13), is_sold(fl, 14)) == (True, True)
    fl.sql("DELETE FROM sales WHERE id = 13")
    check(fl, *IMMEDIATE)
