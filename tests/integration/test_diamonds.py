"""Diamonds and groups of every shape: what is published together shows the sources at one moment, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.catalog.enums import Status
from freshlake.clock import ManualClock
from freshlake.errors import DataError, SystemFailure
from freshlake.lake import Freshlake
from tests.integration.lakes import rows

SETTINGS = {"differential_max_change_ratio": 0.0, "min_schedule_seconds": 1, "max_consecutive_errors": 100}
TABLES = {
    # orders → cleaned → totals ┐
    #        └─────────→ counts ┴→ summary → per_total ┐
    #                                      └→ regions ──┴→ report
    "cleaned": "SELECT id, region, amount FROM orders WHERE amount <> 0",
    "totals": "SELECT region, sum(amount) AS total FROM cleaned GROUP BY region",
    "counts": "SELECT region, count(*) AS n FROM orders GROUP BY region",
    "summary": "SELECT t.region, total, n FROM totals t JOIN counts c ON t.region <=> c.region",
    "per_total": "SELECT total, count(*) AS same FROM summary GROUP BY total",
    "regions": "SELECT region, total FROM summary WHERE n > 1",
    "report": "SELECT r.region, p.same FROM regions r JOIN per_total p ON r.total = p.total",
    "stock": "SELECT region, sum(amount) AS pieces FROM items GROUP BY region",
}
INNER = ("cleaned", "totals", "counts", "summary")
OUTER = ("per_total", "regions", "report")


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("diamonds"), settings=SETTINGS, clock=clock) as lake:
        for name in ("orders", "items"):
            lake.sql(f"CREATE TABLE {name} (id BIGINT, region STRING, amount INT) USING delta")
            lake.sql(f"INSERT INTO {name} VALUES (1, 'north', 10), (2, 'south', 5), (3, NULL, 7), (3, NULL, 7)")
        for name, query in TABLES.items():
            lake.create_stream_table(name, query, schedule="10s", fold_policy="manual")
        yield lake


@pytest.fixture
def number(request: pytest.FixtureRequest) -> int:
    """Another one for every test."""
    return 100 + request.session.items.index(request.node)


def ticked(fl: Freshlake, clock: ManualClock, seconds: float = 11) -> dict[str, str]:
    """What each table did in one tick."""
    clock.advance(seconds)
    done = {name for unit in fl._scheduler.tick().units for name in unit.tables}
    return {name.removeprefix("default."): str(fl.history(name, limit=1)[0].action) for name in done}


def failing(fl: Freshlake, name: str) -> Callable[[str], None]:
    """An observer that lets the refreshes of a table fail."""

    def fail(step: str) -> None:
        running = fl._engine.catalog.history(None, 1)[0]
        if step == "compute" and running.stream_table_id == fl._engine.catalog.get(name).id:
            raise SystemFailure("the executor was lost")

    return fail


def stands(fl: Freshlake, name: str) -> set[int]:
    """Versions of orders that the published state equals the query at."""
    table = fl._engine.catalog.get(name)
    published = (table.published_generation, table.published_version)
    known = [p.roots for p in fl._engine.catalog.points(table.id) if (p.generation, p.version) == published]
    return {at["version"] for roots in known for key, at in roots.items() if Path(key).name == "orders"}


def at_one_moment(fl: Freshlake, *names: str) -> bool:
    return bool(set.intersection(*(stands(fl, name) for name in names)))


def is_fresh(fl: Freshlake) -> bool:
    head = fl.sql("DESCRIBE HISTORY orders LIMIT 1").collect()[0]["version"]
    return all(head in stands(fl, name) and fl.verify(name).equal for name in (*INNER, *OUTER))


def test_uneven_ways_meet_and_a_diamond_stands_on_a_diamond(fl: Freshlake, clock: ManualClock, number: int) -> None:
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'north', 1), ({number}, 'new', 2), ({number}, 'new', 2)")
    steps: list[str] = []
    fl._engine.observer = steps.append
    actions = ticked(fl, clock)
    fl._engine.observer = None
    assert {actions[name] for name in (*INNER, *OUTER)} == {"DIFFERENTIAL"}
    assert steps.count("publish") == 2, "each diamond for itself"
    assert is_fresh(fl)


def test_a_row_that_moves_changes_both_sides_at_once(fl: Freshlake, clock: ManualClock) -> None:
    fl.sql("UPDATE orders SET region = 'south' WHERE id = 1")
    fl.sql("UPDATE orders SET amount = 0 WHERE id = 2")
    ticked(fl, clock)
    assert is_fresh(fl)


def test_a_side_in_mode_full_does_not_spread(fl: Freshlake, clock: ManualClock, number: int) -> None:
    fl.alter_stream_table("counts", refresh_mode="FULL")
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'south', 3)")
    actions = ticked(fl, clock)
    fl.alter_stream_table("counts", refresh_mode="AUTO")
    assert (actions["counts"], actions["totals"], actions["summary"]) == ("FULL", "DIFFERENTIAL", "DIFFERENTIAL")
    assert is_fresh(fl)


def test_a_member_that_fails_is_tried_again_while_the_others_go_on(
    fl: Freshlake, clock: ManualClock, number: int
) -> None:
    before = {name: rows(fl, name) for name in INNER}
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'west', 3)")

    fl._engine.observer = failing(fl, "totals")
    actions = ticked(fl, clock)
    fl._engine.observer = None
    assert (actions["cleaned"], actions["counts"]) == ("DIFFERENTIAL", "DIFFERENTIAL"), "the healthy ones"
    assert fl.history("summary", limit=1)[0].reason == "upstream-failed"
    assert {name: rows(fl, name) for name in INNER} == before
    told = fl.alerts(event="diamond_partial_failure", table="summary", limit=1)[0]
    assert (set(told.payload["members"]), set(told.payload["failed"])) == (set(INNER), {"totals", "summary"})
    retry = fl._engine.catalog.get("totals").retry_at
    assert retry is not None
    ticked(fl, clock, 0.1)
    assert {name: rows(fl, name) for name in INNER} == before, "not before its time"
    ticked(fl, clock, 2)
    assert at_one_moment(fl, *INNER)
    ticked(fl, clock)
    assert is_fresh(fl)


def test_a_busy_member_lets_its_group_wait_and_no_other(fl: Freshlake, clock: ManualClock, number: int) -> None:
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'west', 4)")
    fl.sql(f"INSERT INTO items VALUES ({number}, 'west', 4)")
    catalog = fl._engine.catalog
    lease = catalog.acquire_lease(catalog.get("counts").id, 600)
    assert set(ticked(fl, clock)) == {"stock"}
    reasons = {r.table.removeprefix("default."): r.reason for r in fl.refresh_all()}
    assert {reasons[name] for name in INNER} == {"refresh-in-progress"}, "all of them or none"
    catalog.release_lease(lease)
    ticked(fl, clock, 0)
    assert is_fresh(fl)


def test_the_slowest_policy_waits_for_the_last_member(fl: Freshlake, clock: ManualClock, number: int) -> None:
    fl.alter_stream_table("counts", schedule="1m")
    fl.alter_stream_table("summary", diamond_schedule_policy="slowest")
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'west', 5)")
    for name in OUTER:
        fl.alter_stream_table(name, status="SUSPENDED")
    assert ticked(fl, clock).keys() == {"stock"}
    assert set(INNER) <= ticked(fl, clock, 50).keys()
    for name in OUTER:
        fl.resume(name)
    fl.alter_stream_table("summary", diamond_schedule_policy="fastest")
    ticked(fl, clock)
    assert is_fresh(fl)
    fl.alter_stream_table("counts", schedule="10s")


def test_a_member_that_is_asked_for_brings_its_group(fl: Freshlake, number: int) -> None:
    """Nobody sees one side of a diamond without the other."""
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'asked', 6)")
    result = fl.refresh("totals")
    assert (result.table, str(result.action)) == ("default.totals", "DIFFERENTIAL")
    assert at_one_moment(fl, *INNER)
    assert "asked" in {region for region, *_ in map(tuple, fl.table("summary").collect())}
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'asked', 6)")
    fl.refresh("report")
    assert is_fresh(fl)


def test_a_table_that_reads_a_member_brings_its_group(fl: Freshlake, number: int) -> None:
    fl.create_stream_table("beside", "SELECT max(total) AS most FROM totals", schedule="1h")
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'beside', 7)")
    fl.refresh("beside")
    assert at_one_moment(fl, "beside", *INNER)
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'beside', 7)")
    fl.create_stream_table("beside_too", "SELECT min(total) AS least FROM totals", schedule="1h")
    assert at_one_moment(fl, "beside_too", *INNER)
    for name in ("beside", "beside_too"):
        fl.drop_stream_table(name)


def test_an_altered_member_is_followed_by_its_group(fl: Freshlake, clock: ManualClock, number: int) -> None:
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'altered', 8)")
    fl.alter_stream_table("counts", query="SELECT region, count(*) + 0 AS n FROM orders GROUP BY region")
    assert at_one_moment(fl, *INNER)
    ticked(fl, clock)
    assert is_fresh(fl)


def test_readers_keep_their_columns_until_a_rebuilt_member_is_published(
    fl: Freshlake, clock: ManualClock, number: int
) -> None:
    """It was rebuilt with another column, and its group could not follow."""
    fl.sql("CREATE TABLE wide (id BIGINT, amount INT) USING delta")
    fl.sql("INSERT INTO wide VALUES (1, 1)")
    fl.create_stream_table("everything", "SELECT * FROM wide")
    fl.create_stream_table("shares", "SELECT id, 10 / amount AS share FROM wide")
    fl.create_refresh_group("rebuilt", ["everything", "shares"])
    fl.sql("ALTER TABLE wide ADD COLUMNS (note STRING)")
    fl.sql("INSERT INTO wide VALUES (2, 0, 'zero')")
    with pytest.raises(DataError):
        fl.refresh("everything")
    table = fl._engine.catalog.get("everything")
    assert table.generation > table.published_generation
    assert rows(fl, "everything") == rows(fl, "SELECT 1L, 1")
    assert fl.table("everything").columns == ["id", "amount"]
    assert fl.spark.table("everything").columns == ["id", "amount"], "also plain Spark"
    fl.sql("DELETE FROM wide WHERE amount = 0")
    fl.refresh("shares")
    assert rows(fl, "everything") == rows(fl, "SELECT 1L, 1, CAST(NULL AS STRING)")
    assert fl.spark.table("everything").columns == ["id", "amount", "note"]
    assert all(fl.verify(name).equal for name in ("everything", "shares"))
    fl.drop_refresh_group("rebuilt")
    for name in ("everything", "shares"):
        fl.drop_stream_table(name)


def test_a_declared_group_of_other_sources_is_published_at_once_or_not_at_all(
    fl: Freshlake, clock: ManualClock, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the ticks after the one in which a member failed, until it goes on, or a person leaves it out."""
    fl.create_stream_table("divided", "SELECT id, 10 / amount AS share FROM items", schedule="10s")
    fl.create_refresh_group("shop", ["divided", "stock"])
    before = {name: rows(fl, name) for name in ("divided", "stock")}
    fl.sql(f"INSERT INTO items VALUES ({number}, 'shop', 0)")
    ticked(fl, clock)
    assert {name: rows(fl, name) for name in before} == before
    assert fl.alerts(event="diamond_partial_failure", limit=1)[0].payload["failed"] == ["divided"]
    catalog = fl._engine.catalog
    stock, divided = catalog.get("stock"), catalog.get("divided")
    fl.sql(f"INSERT INTO items VALUES ({number}, 'later', 2)")
    assert "stock" in ticked(fl, clock), "while the other waits for its retry"
    assert catalog.get("stock").version == stock.version + 1
    assert "stock" not in ticked(fl, clock, 2), "what has to wait for its group is not refreshed sooner for that"
    assert {name: rows(fl, name) for name in before} == before
    catalog.update(divided.id, status=Status.ERROR, retry_at=None)
    assert "stock" in ticked(fl, clock)
    told = fl.refresh("stock").detail
    assert told is not None
    assert "divided" in told
    assert {name: rows(fl, name) for name in before} == before
    fl.alter_stream_table("divided", status="SUSPENDED")
    ticked(fl, clock)
    assert rows(fl, "stock") == rows(fl, "SELECT region, sum(amount) FROM items GROUP BY region"), "a person says so"
    assert rows(fl, "divided") == before["divided"]
    fl.sql(f"DELETE FROM items WHERE id = {number} AND amount = 0")
    fl.resume("divided")
    ticked(fl, clock)
    assert rows(fl, "divided") == rows(fl, "SELECT id, 10 / amount FROM items")
    fl.sql(f"INSERT INTO items VALUES ({number}, 'last', 3)")
    shown: list[str] = []
    monkeypatch.setattr(fl._rounds, "published", lambda table: shown.append(table.name))
    fl._engine.observer = failing(fl, "divided")
    ticked(fl, clock)
    fl._engine.observer = None
    assert shown == []
    assert str(fl.refresh("stock").action) == "NO_DATA", "it was committed in the round before"
    assert set(shown) == {"stock", "divided"}, "deliveries are told of that, too"
    assert rows(fl, "divided") == rows(fl, "SELECT id, 10 / amount FROM items")
    assert rows(fl, "stock") == rows(fl, "SELECT region, sum(amount) FROM items GROUP BY region")
    fl.drop_refresh_group("shop")
    fl.drop_stream_table("divided")


def test_a_group_does_not_stay_behind_a_member_that_others_brought_further(
    fl: Freshlake, clock: ManualClock, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment that a round reads and its leases, another process has refreshed the whole group."""
    fl.sql(f"INSERT INTO orders VALUES ({number}, 'mine', 1)")
    begin = fl._rounds.begin

    def overtaken(edges: object) -> object:
        moment = begin(edges)  # type: ignore[arg-type]
        monkeypatch.setattr(fl._rounds, "begin", begin)
        fl.sql(f"INSERT INTO orders VALUES ({number}, 'theirs', 1)")
        with freshlake.connect(fl.path, settings=SETTINGS, clock=clock) as other:
            other.alter_stream_table("summary", diamond_consistency="none")
            other.refresh("counts")
            other.alter_stream_table("summary", diamond_consistency="atomic")
        return moment

    monkeypatch.setattr(fl._rounds, "begin", overtaken)
    fl.refresh("summary")
    assert at_one_moment(fl, *INNER)
    assert {"mine", "theirs"} <= {region for region, *_ in map(tuple, fl.table("summary").collect())}
