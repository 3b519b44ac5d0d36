"""Diamonds, groups and snapshots: what is read together was computed from one state of the sources."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.errors import InvalidArgument, NotAligned, VersionNotKept, WaitTimeout

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock
) -> Iterator[freshlake.Freshlake]:
    settings = {"differential_max_change_ratio": 0, "min_schedule_seconds": 1, "max_consecutive_errors": 100}
    lake = freshlake.connect(tmp_path_factory.mktemp("consistency"), settings=settings, clock=clock)
    for name in ("orders", "items", "broken"):
        lake.sql(f"CREATE TABLE {name} (id INT, region STRING, amount INT) USING delta")
        lake.sql(f"INSERT INTO {name} VALUES (1, 'north', 10), (2, 'south', 20)")
    # a diamond over orders: totals and counts meet in summary
    lake.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
    lake.create_stream_table("counts", "SELECT region, count(*) AS n FROM orders GROUP BY region")
    lake.create_stream_table(
        "summary", "SELECT t.region, t.total, c.n FROM totals t JOIN counts c ON t.region = c.region"
    )
    yield lake
    lake.close()


def rows(fl: freshlake.Freshlake, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in fl.table(name).collect())


def published(fl: freshlake.Freshlake, name: str) -> tuple[int, int]:
    table = fl._engine.catalog.get(name)
    return table.version, table.published_version


def roots(fl: freshlake.Freshlake, name: str) -> dict[str, int]:
    frontier = fl._engine.catalog.get(name).frontier or {}
    return {Path(key).name: position["version"] for key, position in frontier["roots"].items()}


def test_roots_are_those_of_the_plain_tables_behind(fl: freshlake.Freshlake) -> None:
    assert roots(fl, "summary") == roots(fl, "totals") == {"orders": 1}


def test_all_members_of_a_diamond_are_published_at_once(fl: freshlake.Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (3, 'north', 5)")
    seen: list[tuple[str, list[tuple[int, int]]]] = []

    def look(step: str) -> None:
        if step in ("committed", "publish"):
            seen.append((step, [published(fl, name) for name in ("counts", "totals", "summary")]))

    fl._engine.observer = look
    results = fl.refresh_all()
    fl._engine.observer = None
    assert {str(r.action) for r in results} == {"DIFFERENTIAL"}
    assert [step for step, _ in seen] == ["committed", "committed", "committed", "publish"]
    assert {after for _, versions in seen for _, after in versions} == {1}, "nothing is seen before the end"
    assert [published(fl, name) for name in ("counts", "totals", "summary")] == [(2, 2)] * 3
    assert rows(fl, "summary") == [("north", 15, 2), ("south", 20, 1)]
    assert all(fl.verify(name).equal for name in ("counts", "totals", "summary"))


def test_a_member_that_fails_keeps_all_at_the_last_state(fl: freshlake.Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (4, 'north', 1)")
    before = {name: rows(fl, name) for name in ("counts", "totals", "summary")}

    # counts is committed first, then totals fails
    versions = {name: published(fl, name)[0] for name in ("counts", "totals", "summary")}
    armed = {"on": False}

    def arm(step: str) -> None:
        if published(fl, "counts")[0] > versions["counts"] and step == "compute":
            armed["on"] = True
        if armed["on"] and step == "compute":
            raise freshlake.errors.SystemFailure("the disk is full")

    fl._engine.observer = arm
    results = {r.table: r for r in fl.refresh_all()}
    fl._engine.observer = None
    assert str(results["default.counts"].action) == "DIFFERENTIAL"
    assert results["default.totals"].reason == "system-failure"
    assert results["default.summary"].reason == "upstream-failed"
    assert {name: rows(fl, name) for name in before} == before
    assert published(fl, "counts") == (3, 2), "committed, not published"

    again = {r.table: str(r.action) for r in fl.refresh_all()}
    assert again == {
        "default.counts": "NO_DATA",
        "default.totals": "DIFFERENTIAL",
        "default.summary": "DIFFERENTIAL",
    }
    assert rows(fl, "summary") == [("north", 16, 3), ("south", 20, 1)]
    assert [published(fl, name) for name in ("counts", "totals", "summary")] == [(3, 3)] * 3
    assert all(fl.verify(name).equal for name in before)


def test_a_table_waits_where_its_paths_would_disagree(fl: freshlake.Freshlake) -> None:
    """counts rests at an old state of orders: summary keeps its last consistent state, totals goes on."""
    fl.alter_stream_table("counts", status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (5, 'south', 2)")
    results = {r.table: r for r in fl.refresh_all()}
    assert results["default.counts"].reason == "suspended"
    assert str(results["default.totals"].action) == "DIFFERENTIAL"
    assert (str(results["default.summary"].action), results["default.summary"].reason) == ("SKIPPED", "roots-disagree")
    assert rows(fl, "summary") == [("north", 16, 3), ("south", 20, 1)]
    assert ("south", 22) in rows(fl, "totals")
    fl.resume("counts")
    fl.refresh("summary")
    assert rows(fl, "summary") == [("north", 16, 3), ("south", 22, 2)]
    assert roots(fl, "summary") == roots(fl, "counts")


def test_with_consistency_none_a_table_takes_what_there_is(fl: freshlake.Freshlake) -> None:
    fl.alter_stream_table("summary", diamond_consistency="none")
    fl.alter_stream_table("counts", status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (6, 'south', 3)")
    assert str(fl.refresh("summary").action) == "DIFFERENTIAL"
    assert rows(fl, "summary") == [("north", 16, 3), ("south", 25, 2)]
    frontier = fl._engine.catalog.get("summary").frontier or {}
    assert len(frontier["mixed"]) == 1
    fl.resume("counts")
    fl.alter_stream_table("summary", diamond_consistency="atomic")
    fl.refresh("summary")
    assert rows(fl, "summary") == [("north", 16, 3), ("south", 25, 3)]
    assert fl.verify("summary").equal


def test_a_plain_table_is_read_where_the_stream_table_beside_it_stands(fl: freshlake.Freshlake) -> None:
    query = "SELECT o.id, t.total FROM orders o JOIN totals t ON o.region = t.region"
    fl.create_stream_table("shares", query)
    fl.alter_stream_table("totals", status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (7, 'south', 100)")
    result = fl.refresh("shares")
    assert str(result.action) == "NO_DATA", "the new order waits until totals has seen it"
    fl.resume("totals")
    fl.refresh("shares")
    assert (7, 125) in rows(fl, "shares")
    assert fl.verify("shares").equal
    fl.drop_stream_table("shares")


def test_a_snapshot_is_the_newest_common_state(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.create_stream_table("biggest", "SELECT max(amount) AS most FROM orders")
    fl.refresh_all()
    clock.advance(10)
    fl.sql("INSERT INTO orders VALUES (8, 'north', 1000)")
    fl.refresh("biggest")
    newest = rows(fl, "biggest")
    both = fl.snapshot("biggest", "totals", "orders")
    assert newest == [(1000,)]
    assert [tuple(r) for r in both["biggest"].collect()] == [(100,)]
    assert sorted(tuple(r) for r in both["totals"].collect()) == rows(fl, "totals")
    assert both["orders"].count() == 7
    fl.refresh("totals")
    both = fl.snapshot("biggest", "totals")
    assert [tuple(r) for r in both["biggest"].collect()] == [(1000,)]
    assert list(both) == ["biggest", "totals"]
    assert len(both.roots) == 1


def test_a_snapshot_that_cannot_be_is_refused(fl: freshlake.Freshlake) -> None:
    with pytest.raises(InvalidArgument):
        fl.snapshot()
    with pytest.raises(freshlake.errors.TableNotFound):
        fl.snapshot("totals", "items")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    fl.create_stream_table("late", "SELECT count(*) AS n FROM orders")
    with pytest.raises(NotAligned, match="no common point in time") as caught:
        fl.snapshot("late", "totals")
    assert "orders is seen at" in (caught.value.detail or "")
    fl.refresh_all()
    assert {name: frame.count() for name, frame in fl.snapshot("late", "totals").items()} == {"late": 1, "totals": 2}
    fl.drop_stream_table("late")


def test_earlier_states_can_be_read(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    before, version, moment = rows(fl, "totals"), published(fl, "totals")[1], clock.now()
    clock.advance(60)
    fl.sql("DELETE FROM orders WHERE region = 'south'")
    fl.refresh_all()
    assert rows(fl, "totals") != before
    assert sorted(tuple(r) for r in fl.table("totals", version=version).collect()) == before
    assert sorted(tuple(r) for r in fl.table("totals", timestamp=moment).collect()) == before
    assert sorted(tuple(r) for r in fl.table("totals", timestamp=clock.now()).collect()) == rows(fl, "totals")
    with pytest.raises(VersionNotKept):
        fl.table("totals", version=version + 100)
    with pytest.raises(VersionNotKept):
        fl.table("totals", timestamp=datetime(2020, 1, 1))
    with pytest.raises(InvalidArgument):
        fl.table("totals", version=1, timestamp=moment)
    with pytest.raises(InvalidArgument):
        fl.table("orders", version=1)


def test_waiting_for_a_position(fl: freshlake.Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (10, 'west', 4)")
    with pytest.raises(WaitTimeout, match="has not seen version"):
        fl.wait_for("summary", "orders", timeout=0.1)
    fl.refresh_all()
    seen = fl.wait_for("summary", "orders", timeout=0.1)
    assert fl.wait_for("summary", "orders", seen, timeout=0.1) == seen
    assert fl.wait_for("summary", "totals", timeout=0.1) == published(fl, "totals")[1]
    with pytest.raises(InvalidArgument):
        fl.wait_for("summary", "items", timeout=0.1)


def test_a_declared_group_is_published_at_once(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("stock", "SELECT region, sum(amount) AS s FROM items GROUP BY region")
    fl.create_refresh_group("shop", ["stock", "biggest"])
    assert [(g.name, [str(m) for m in g.members]) for g in fl.refresh_groups()] == [
        ("shop", ["default.biggest", "default.stock"])
    ]
    fl.sql("INSERT INTO items VALUES (9, 'east', 9)")
    fl.sql("INSERT INTO orders VALUES (11, 'west', 5000)")
    steps: list[str] = []
    fl._engine.observer = steps.append
    fl.refresh_all()
    fl._engine.observer = None
    assert steps.count("publish") == 2, "the diamond, and the group"
    assert rows(fl, "biggest") == [(5000,)]
    fl.drop_refresh_group("shop")
    assert fl.refresh_groups() == []
    with pytest.raises(freshlake.errors.NotFound):
        fl.drop_refresh_group("shop")
