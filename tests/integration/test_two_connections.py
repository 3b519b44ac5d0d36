"""Two connections to one lake: each sees what the other did, and no change is applied twice, lost or taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.catalog import Lease
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, refused, rows

NESTED = (
    "SELECT total, count(*) AS n FROM (SELECT region, sum(amount) AS total FROM orders GROUP BY region) GROUP BY total"
)


class Died(BaseException):
    """A process that ended here."""


@pytest.fixture
def two(spark: SparkSession, lake_dir: Path) -> tuple[Freshlake, Freshlake]:
    """Two connections to one lake, as two processes have them."""
    first = freshlake.connect(lake_dir, settings=ANY_SHARE)
    orders(first)
    first.create_stream_table("copy", "SELECT id, amount FROM orders")
    first.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    return first, freshlake.connect(lake_dir, settings={**ANY_SHARE, "immediate_wait_seconds": 0})


def test_a_table_is_refreshed_by_one_at_a_time(two: tuple[Freshlake, Freshlake]) -> None:
    first, second = two
    table = first._engine.catalog.get("default.copy")
    lease = first._engine.catalog.acquire_lease(table.id, 60)
    for call in (
        lambda: second.refresh("copy"),
        lambda: second.fold("copy"),
        lambda: second.alter_stream_table("copy", query="SELECT id FROM orders"),
        lambda: second.drop_stream_table("copy"),
    ):
        with refused(second, e.RefreshInProgress, "copy", "process"):
            call()
    (skipped,) = second.refresh_all()
    assert (str(skipped.action), skipped.reason) == ("SKIPPED", "refresh-in-progress")
    first._engine.catalog.release_lease(lease)
    assert str(second.refresh("copy").action) == "DIFFERENTIAL"
    assert str(first.refresh("copy").action) == "NO_DATA"
    assert first.verify("copy").equal


def test_what_a_person_asks_for_waits_for_a_refresh_that_runs(
    two: tuple[Freshlake, Freshlake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    table, acquire = first._engine.catalog.get("default.copy"), second._engine.catalog.acquire_lease
    running: list[Lease] = []

    def ends_meanwhile(*arguments: Any) -> Lease:
        try:
            return acquire(*arguments)
        except e.RefreshInProgress:
            first._engine.catalog.release_lease(running.pop())
            raise

    monkeypatch.setattr(second._engine.catalog, "acquire_lease", ends_meanwhile)
    monkeypatch.setattr(second._engine, "settings", first._engine.settings)
    for call in (
        lambda: second.refresh("copy"),  # of what has changed
        lambda: second.refresh("copy"),  # of what has not
        lambda: second.create_stream_table("over", "SELECT id FROM copy"),
        lambda: second.fold("copy"),
        lambda: second.alter_stream_table("copy", query="SELECT id, amount + 1 AS amount FROM orders"),
        lambda: second.drop_stream_table("copy", cascade=True),
    ):
        running.append(first._engine.catalog.acquire_lease(table.id, 60))
        call()
        assert running == []


def test_so_does_the_load_of_a_table_that_was_made_without(
    two: tuple[Freshlake, Freshlake], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two
    first.create_stream_table("later", "SELECT id FROM orders", initialize=False)
    catalog, acquire = first._engine.catalog, first._engine.catalog.acquire_lease
    running = [acquire(catalog.get("later").id, 60)]

    def ends_meanwhile(*arguments: Any) -> Lease:
        try:
            return acquire(*arguments)
        except e.RefreshInProgress:
            catalog.release_lease(running.pop())
            raise

    monkeypatch.setattr(catalog, "acquire_lease", ends_meanwhile)
    first.create_or_replace_stream_table("later", "SELECT id FROM orders")
    assert catalog.get("later").is_populated


def test_a_worker_that_lost_its_lease_writes_nothing(two: tuple[Freshlake, Freshlake]) -> None:
    """It wakes up after another one took over: what it computed is not accepted, and what the other wrote stays."""
    first, second = two
    overtaken = []

    def sleep(step: str) -> None:
        if step == "append root" and not overtaken:
            # the lease ran out while this worker was away
            expire_leases(first)
            overtaken.append(second.refresh("copy"))

    first._engine.observer = sleep
    with pytest.raises(e.LeaseLost) as caught:
        first.refresh("copy")
    assert caught.value.hint
    first._engine.observer = None
    assert str(overtaken[0].action) == "DIFFERENTIAL"
    assert str(first.refresh("copy").action) == "NO_DATA"
    assert first.verify("copy").equal
    assert first.status()[0].version == 2
    first.sql("INSERT INTO orders VALUES (10, 'north', 1)")
    assert first.refresh("copy").version == 3
    assert second.verify("copy").equal


def expire_leases(fl: Freshlake) -> None:
    with closing(sqlite3.connect(fl.path / "_freshlake" / "catalog.db")) as database, database:
        database.execute("UPDATE fl_leases SET expires_at = '2000-01-01 00:00:00.000000'")


def at(step: str, action: Callable[[], object]) -> Callable[[str], None]:
    """An observer that does something once, when a step is reached."""
    done = []

    def observe(reached: str) -> None:
        if reached == step and not done:
            done.append(step)
            action()

    return observe


def test_nodes_and_root_of_two_refreshes_are_not_mixed(two: tuple[Freshlake, Freshlake]) -> None:
    """One stalls before its last append, its successor dies there, and the first one wakes up."""
    first, second = two
    first.create_stream_table("nested", NESTED)
    first.sql("INSERT INTO orders VALUES (11, 'west', 3), (12, 'north', 2)")

    def die() -> None:
        raise Died

    def succeed() -> None:
        expire_leases(first)
        second.sql("INSERT INTO orders VALUES (13, 'west', 4)")
        second._engine.observer = at("append root", die)
        with pytest.raises(Died):
            second.refresh("nested")
        second._engine.observer = None

    first._engine.observer = at("append root", succeed)
    with pytest.raises(e.LeaseLost):
        first.refresh("nested")
    first._engine.observer = None
    expire_leases(first)
    assert str(first.refresh("nested").action) == "DIFFERENTIAL"
    assert rows(first, "nested") == rows(first, NESTED)
    first.sql("DELETE FROM orders WHERE region = 'west'")
    assert str(second.refresh("nested").action) == "DIFFERENTIAL"
    assert rows(second, "nested") == rows(second, NESTED)


def test_a_refresh_never_goes_back_behind_another_one(two: tuple[Freshlake, Freshlake]) -> None:
    """Where the sources stood was looked up before the table could be had."""
    first, second = two
    engine = first._engine
    table = engine.catalog.get("default.copy")
    seen = engine.heads(engine.catalog.dependencies(table.id), {})
    first.sql("DELETE FROM orders WHERE id = 1")
    assert str(second.refresh("copy").action) == "DIFFERENTIAL"
    result = engine.refresh(table, seen)
    assert (str(result.action), result.reason) == ("NO_DATA", None)
    assert result.version == 2
    assert rows(first, "copy") == rows(first, "SELECT id, amount FROM orders")


def test_a_view_that_another_connection_replaced(two: tuple[Freshlake, Freshlake]) -> None:
    first, second = two
    first.sql("CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 5")
    first.create_stream_table("viewed", "SELECT id FROM big")
    assert str(first.refresh("viewed").action) == "NO_DATA"
    second.sql("CREATE OR REPLACE VIEW big AS SELECT id, amount FROM orders WHERE amount < 5")
    result = first.refresh("viewed")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed")
    assert rows(first, "viewed") == rows(first, "SELECT id FROM orders WHERE amount < 5")
    second.sql("CREATE OR REPLACE VIEW big AS SELECT id, amount FROM orders")
    with freshlake.connect(first.path, settings=ANY_SHARE) as third:
        assert str(third.refresh("viewed").action) == "REINITIALIZE"
        assert rows(third, "viewed") == rows(third, "SELECT id FROM orders")
        assert str(third.refresh("viewed").action) == "NO_DATA"
