"""Mode IMMEDIATE: a write and what its stream tables become of it are one thing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import (
    CommittedButNotMaintained,
    DataError,
    InvalidArgument,
    NotDifferentiable,
    StreamTableProtected,
    WriteUndone,
)

SETTINGS = {"differential_max_change_ratio": 0, "min_schedule_seconds": 1, "max_consecutive_errors": 1}


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("immediate"), settings=SETTINGS)
    lake.sql("CREATE TABLE orders (id INT, region STRING, amount INT) USING delta")
    lake.sql("CREATE TABLE regions (region STRING, country STRING) USING delta")
    lake.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20)")
    lake.sql("INSERT INTO regions VALUES ('north', 'A'), ('south', 'B')")
    lake.create_stream_table(
        "totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region", refresh_mode="IMMEDIATE"
    )
    lake.create_stream_table(
        "countries",
        "SELECT r.country, t.total FROM totals t JOIN regions r ON t.region = r.region",
        refresh_mode="IMMEDIATE",
    )
    lake.create_stream_table("rich", "SELECT country FROM countries WHERE total > 100", refresh_mode="IMMEDIATE")
    lake.create_stream_table("deferred", "SELECT count(*) AS n FROM countries", schedule="1h")
    yield lake
    lake.close()


def rows(fl: freshlake.Freshlake, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in fl.table(name).collect())


def published(fl: freshlake.Freshlake, name: str) -> list[tuple[Any, ...]]:
    """What is published, without catching up."""
    table = fl._engine.catalog.get(name)
    frame = fl._reading.state_at(table, table.published_generation, table.published_version)
    return sorted(tuple(row) for row in frame.collect())


def equal(fl: freshlake.Freshlake) -> bool:
    return all(fl.verify(name).equal for name in ("totals", "countries", "rich"))


def path(fl: freshlake.Freshlake, table: str) -> str:
    return str(fl.sql(f"DESCRIBE DETAIL {table}").first()["location"])  # type: ignore[index]


def test_a_chain_of_three_follows_a_write(fl: freshlake.Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (3, 'north', 200)")
    assert published(fl, "totals") == [("north", 210), ("south", 20)]
    assert published(fl, "countries") == [("A", 210), ("B", 20)]
    assert published(fl, "rich") == [("A",)]
    assert equal(fl)


@pytest.mark.parametrize(
    ("statement", "total"),
    [
        ("UPDATE orders SET amount = 30 WHERE id = 2", [("north", 210), ("south", 30)]),
        ("DELETE FROM orders WHERE id = 3", [("north", 10), ("south", 30)]),
        (
            "MERGE INTO orders USING (SELECT 2 AS id, 5 AS more) s ON orders.id = s.id "
            "WHEN MATCHED THEN UPDATE SET amount = amount + more",
            [("north", 10), ("south", 35)],
        ),
        ("INSERT OVERWRITE orders VALUES (7, 'west', 7)", [("west", 7)]),
        ("TRUNCATE TABLE orders", []),
        ("INSERT INTO orders SELECT 1, 'north', 10 UNION ALL SELECT 2, 'south', 20", [("north", 10), ("south", 20)]),
    ],
)
def test_every_kind_of_write(fl: freshlake.Freshlake, statement: str, total: list[Any]) -> None:
    fl.sql(statement)
    assert published(fl, "totals") == total
    assert equal(fl)


def test_a_dataframe_is_written(fl: freshlake.Freshlake) -> None:
    fl.write(fl.spark.createDataFrame([(4, "south", 400)], "id INT, region STRING, amount INT"), "orders")
    assert published(fl, "rich") == [("B",)]
    with pytest.raises(StreamTableProtected):
        fl.write(fl.table("totals"), "totals")


def test_the_other_source_of_a_join_is_followed_too(fl: freshlake.Freshlake) -> None:
    fl.sql("UPDATE regions SET country = 'C' WHERE region = 'south'")
    assert published(fl, "rich") == [("C",)]
    assert equal(fl)


def test_all_of_it_becomes_visible_at_once(fl: freshlake.Freshlake) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    def look(step: str) -> None:
        if step == "committed":
            seen.append([*published(fl, "totals"), *published(fl, "rich")])

    before = [*published(fl, "totals"), *published(fl, "rich")]
    fl._engine.observer = look
    fl.sql("INSERT INTO orders VALUES (5, 'north', 500)")
    fl._engine.observer = None
    assert len(seen) == 3
    assert all(state == before for state in seen)
    assert published(fl, "rich") == [("A",), ("C",)]


def test_a_deferred_table_over_them_waits_for_its_own_refresh(fl: freshlake.Freshlake) -> None:
    before = rows(fl, "deferred")
    fl.sql("INSERT INTO regions VALUES ('south', 'D')")
    assert rows(fl, "deferred") == before
    fl.refresh("deferred")
    assert rows(fl, "deferred") == [(before[0][0] + 1,)]


def test_a_table_that_cannot_follow_undoes_the_write(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("shares", "SELECT id, 1000 / amount AS share FROM orders", refresh_mode="IMMEDIATE")
    before = {name: published(fl, name) for name in ("totals", "countries", "rich", "shares")}
    source = rows(fl, "orders")
    with pytest.raises(WriteUndone, match="could not follow"):
        fl.sql("INSERT INTO orders VALUES (6, 'north', 0)")
    assert rows(fl, "orders") == source
    assert {name: published(fl, name) for name in before} == before
    states = {t.name: (str(t.status), t.consecutive_errors) for t in fl.status()}
    assert states["shares"] == ("ACTIVE", 0), "what was undone says nothing against the table"
    fl.sql("INSERT INTO orders VALUES (6, 'north', 1)")
    assert (6, 1000.0) in published(fl, "shares")
    assert equal(fl)
    assert fl.verify("shares").equal


def test_a_foreign_commit_is_never_undone(fl: freshlake.Freshlake) -> None:
    place = path(fl, "orders")

    def foreign(step: str) -> None:
        if step == "written":
            fl._engine.observer = None
            DeltaTable(place).delete("id = 1")

    fl._engine.observer = foreign
    with pytest.raises(CommittedButNotMaintained):
        fl.sql("INSERT INTO orders VALUES (8, 'south', 0)")
    fl._engine.observer = None
    assert (8, "south", 0) in rows(fl, "orders")
    assert 1 not in [row[0] for row in rows(fl, "orders")]
    assert fl.alerts(event="committed_but_not_maintained")
    fl.drop_stream_table("shares")
    assert dict(rows(fl, "totals"))["north"] == 501
    assert equal(fl)


def test_foreign_writers_are_caught_up_before_the_next_read(fl: freshlake.Freshlake) -> None:
    fl.sql("CREATE TABLE places (id BIGINT) USING delta")
    fl.create_stream_table("many", "SELECT count(*) AS n FROM places", refresh_mode="IMMEDIATE")
    write_deltalake(path(fl, "places"), pa.table({"id": pa.array([1, 2], pa.int64())}), mode="append")
    assert published(fl, "many") == [(0,)]
    assert rows(fl, "many") == [(2,)]
    assert [tuple(r) for r in fl.sql("SELECT n + 1 FROM many").collect()] == [(3,)]
    assert published(fl, "many") == [(2,)]


def test_writers_come_one_after_the_other(fl: freshlake.Freshlake) -> None:
    before = dict(rows(fl, "totals")).get("east", 0)
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            fl.sql(f"INSERT INTO orders VALUES ({100 + number}, 'east', 1)")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert dict(rows(fl, "totals"))["east"] == before + 4
    assert equal(fl)


def test_it_follows_a_deferred_table_in_its_refresh(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("big", "SELECT id, amount FROM orders WHERE amount > 100", schedule="1h")
    fl.create_stream_table("biggest", "SELECT max(amount) AS most FROM big", refresh_mode="IMMEDIATE")
    fl.sql("INSERT INTO orders VALUES (9, 'east', 9000)")
    assert published(fl, "biggest") != [(9000,)]
    fl.refresh("big")
    assert published(fl, "biggest") == [(9000,)]


def test_it_has_no_schedule_and_gets_one_when_it_leaves(fl: freshlake.Freshlake) -> None:
    with pytest.raises(InvalidArgument, match="has no schedule"):
        fl.create_stream_table("x", "SELECT id FROM orders", refresh_mode="IMMEDIATE", schedule="1m")
    with pytest.raises(NotDifferentiable):
        fl.create_stream_table("x", "SELECT id, current_timestamp() AS at FROM orders", refresh_mode="IMMEDIATE")
    fl.create_stream_table("x", "SELECT id FROM orders", schedule="5m")
    fl.sql("INSERT INTO orders VALUES (10, 'east', 1)")
    table = fl.alter_stream_table("x", refresh_mode="IMMEDIATE")
    assert table.schedule is None
    assert (10,) in published(fl, "x"), "it is up to date from the start"
    with pytest.raises(InvalidArgument, match="has no schedule"):
        fl.alter_stream_table("x", schedule="1m")
    assert fl.alter_stream_table("x", refresh_mode="AUTO").schedule == "1m"
    fl.alter_stream_table("x", refresh_mode="IMMEDIATE")
    with freshlake.connect(fl.path, settings={**SETTINGS, "min_schedule_seconds": 3600}) as slow:
        assert slow.alter_stream_table("x", refresh_mode="AUTO").schedule == "1h", "none is shorter than allowed"
    fl.drop_stream_table("x")


def test_replacing_it_by_another_mode_twice_is_the_same_as_once(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("x", "SELECT id FROM orders", refresh_mode="IMMEDIATE")
    once = fl.create_or_replace_stream_table("x", "SELECT id FROM orders")
    assert (str(once.refresh_mode), once.schedule) == ("AUTO", None), "what is not given is its default"
    assert fl.create_or_replace_stream_table("x", "SELECT id FROM orders") == once
    fl.drop_stream_table("x")


def test_a_table_that_cannot_catch_up_keeps_its_mode(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("x", "SELECT id, 10 / (amount - 77) AS share FROM orders", schedule="5m")
    fl.sql("INSERT INTO orders VALUES (11, 'east', 77)")
    with pytest.raises(DataError):
        fl.alter_stream_table("x", refresh_mode="IMMEDIATE")
    kept = fl._engine.catalog.get("x")
    assert (str(kept.refresh_mode), kept.schedule) == ("AUTO", "5m")
    fl.alter_stream_table("x", status="SUSPENDED", refresh_mode="IMMEDIATE")
    assert str(fl._engine.catalog.get("x").refresh_mode) == "IMMEDIATE", "one that rests has nothing to catch up with"
    fl.drop_stream_table("x")
    fl.sql("DELETE FROM orders WHERE id = 11")


def test_a_suspended_one_or_one_that_has_blown_its_fuse_shows_what_was_published_last(
    fl: freshlake.Freshlake, caplog: pytest.LogCaptureFixture
) -> None:
    fl.create_stream_table("x", "SELECT count(*) AS n FROM orders", refresh_mode="IMMEDIATE", fuse_rows=1)
    before = rows(fl, "x")
    fl.alter_stream_table("x", status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (12, 'east', 1), (13, 'east', 1)")
    assert rows(fl, "x") == before
    assert [tuple(row) for row in fl.sql("SELECT n FROM x").collect()] == before
    assert "x is read as of" in caplog.text
    assert fl.changes("x", since=1).count() == 0
    fl.resume("x")
    for _ in range(2):
        assert rows(fl, "x") == before, "the fuse blows, and has blown"
    fl.resume("x")
    assert rows(fl, "x") == [(before[0][0] + 2,)]
    fl.drop_stream_table("x")
    fl.sql("DELETE FROM orders WHERE id IN (12, 13)")


def test_a_fold_that_is_due_comes_after_the_write(fl: freshlake.Freshlake, caplog: pytest.LogCaptureFixture) -> None:
    query = "SELECT id FROM orders WHERE region = 'west'"
    fl.create_stream_table("western", query, refresh_mode="IMMEDIATE", fold_policy="always")
    for number in (201, 202):
        fl.sql(f"INSERT INTO orders VALUES ({number}, 'west', 1)")
    table = fl._engine.catalog.get("western")
    assert table.folded_version == table.version == 3
    assert not [record for record in caplog.records if "fold" in record.getMessage()]


def test_the_scheduler_catches_up_with_foreign_writers(fl: freshlake.Freshlake) -> None:
    DeltaTable(path(fl, "places")).delete("id = 1")
    fl._scheduler.tick()
    assert published(fl, "many") == [(1,)]
