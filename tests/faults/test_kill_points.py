"""A process ends between any two lasting effects of a refresh or a fold: nothing is lost and nothing is doubled.

Every test kills a real process after its first effect, recovers and compares, then kills the next one after the second
effect, and so on until one survives: no point is left out, and a new step is covered by itself. A differential refresh
is killed in the default run, the other calls by `make slow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshlake.lake import Freshlake
from tests.faults import processes
from tests.faults.processes import MOST_POINTS, Order, consistent, explode, lake_for_victims
from tests.integration.damage import append_to_log
from tests.integration.lakes import rows

# The inner aggregate is an internal node with its own log; duplicates make doubling visible.
SPREAD = (
    "SELECT total, count(*) AS regions, sum(n) AS orders FROM "
    "(SELECT region, sum(amount) AS total, count(*) AS n FROM orders GROUP BY region) GROUP BY total"
)
COPY = "SELECT region, amount FROM orders"
JOINED = "SELECT o.region, amount, goal FROM orders o JOIN goals g ON o.region = g.region"
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    for lake in lake_for_victims(spark, tmp_path_factory.mktemp("lake")):
        lake.sql("CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta")
        lake.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'north', 5), (3, NULL, 1), (3, NULL, 1), (4, 'a', 7)")
        lake.create_stream_table("spread", SPREAD, fold_policy="manual")
        yield lake


def kill(fl: Freshlake, at: int, call: str, *args: str, **kwargs: Any) -> str | None:
    return processes.kill(fl, Order(call, args, kwargs, at))


def points(fl: Freshlake, prepare: Callable[[int], None], call: str, *args: str, **kwargs: Any) -> Iterator[list[str]]:
    return processes.points(fl, prepare, lambda at: Order(call, args, kwargs, at))


# Recovering -----------------------------------------------------------------------------------------------------------


def change(fl: Freshlake, number: int) -> None:
    """Something for every refresh to do: a new group, the same row twice, and rows that go."""
    at = 1000 + number
    fl.sql(f"INSERT INTO orders VALUES ({at}, 'new{at}', {at}), ({at}, 'north', 1), ({at}, 'north', 1)")
    fl.sql(f"DELETE FROM orders WHERE id = {at - 2}")


def recovered(fl: Freshlake, name: str, query: str) -> str:
    """Refresh as the next process would, and compare; the action that was still needed."""
    action = str(fl.refresh(name).action)
    assert rows(fl, name) == rows(fl, query)
    assert str(fl.refresh(name).action) == "NO_DATA"
    consistent(fl, name)
    return action


def is_committed(seen: list[str]) -> bool:
    """Whether the table's own log had the result when the process died."""
    after = seen[seen.index("append root") :] if "append root" in seen else []
    return "commit" in after


def is_known(seen: list[str]) -> bool:
    """Whether the catalog knew the result."""
    return "_commit" in seen


def assert_in_order(steps: list[str], seen: list[str]) -> None:
    """These effects were met, in this order; others may be between them."""
    left = iter(seen)
    missed = [step for step in steps if step not in left]
    assert not missed, (missed, seen)


def streams(fl: Freshlake) -> set[str]:
    return {p.name.split("-")[0] for p in (fl.path / "_freshlake" / "streams").iterdir()}


# The tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", pytest.param("FULL", marks=pytest.mark.slow)])
def test_a_refresh_with_internal_nodes(fl: Freshlake, mode: str) -> None:
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, at), "refresh", "spread", mode=mode):
        before = fl._engine.catalog.get("default.spread").version
        action = recovered(fl, "spread", SPREAD)
        assert action == ("NO_DATA" if is_committed(seen) else "DIFFERENTIAL"), seen
        assert fl._engine.catalog.get("default.spread").version == before + (not is_known(seen)), seen
        failed = [r for r in fl.history("spread", limit=3) if str(r.status) == "FAILED"]
        assert bool(failed) == ("begin_refresh" in seen and not is_committed(seen)), seen
        assert all(r.error_code == "refresh-failed" for r in failed)
    steps = ["acquire_lease", "begin_refresh", "compute", "append n1", "_stage_arrow", "commit", "append root"]
    assert_in_order([*steps, "_stage_arrow", "commit", "appended", "_commit", "committed", "release_lease"], seen)
    recovered(fl, "spread", SPREAD)
    assert fl.verify("spread").equal


@pytest.mark.slow
def test_a_first_load(fl: Freshlake) -> None:
    """The table is there, to be loaded by its first refresh, or its name is still free."""
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, at), "create_stream_table", "first", SPREAD):
        found = [s for s in fl.status() if s.name == "first"]
        if found:
            assert found[0].is_populated == is_known(seen), seen
        else:
            fl.create_stream_table("first", SPREAD)
        recovered(fl, "first", SPREAD)
        fl.drop_stream_table("first")
        assert "first" not in streams(fl), seen
    assert_in_order(["load n1", "write_rows", "commit", "load root", "write_rows", "commit", "loaded", "_commit"], seen)
    recovered(fl, "first", SPREAD)
    fl.drop_stream_table("first")


@pytest.mark.slow
def test_a_new_query(fl: Freshlake) -> None:
    """Before or after, never between: query, dependencies and contents change together."""
    fl.sql("CREATE TABLE goals (region STRING, goal INT) USING delta")
    fl.sql("INSERT INTO goals VALUES ('north', 1), ('a', 2)")
    fl.create_stream_table("altered", COPY)
    reads = {COPY: {"default.orders"}, JOINED: {"default.orders", "default.goals"}}
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, at), "alter_stream_table", "altered", query=JOINED):
        query = fl._engine.catalog.get("default.altered").original_query
        assert query == (JOINED if is_known(seen) else COPY), seen
        assert {s.source for s in fl.sources("altered")} == reads[query]
        recovered(fl, "altered", query)
        if query == JOINED:
            fl.alter_stream_table("altered", query=COPY)
    assert_in_order(["load root", "write_rows", "commit", "loaded", "_commit", "committed", "release_lease"], seen)
    recovered(fl, "altered", JOINED)
    fl.drop_stream_table("altered")


@pytest.mark.slow
def test_a_rebuild_after_a_schema_change(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE shape (a INT) USING delta")
    fl.sql("INSERT INTO shape VALUES (0), (0)")
    fl.create_stream_table("shaped", "SELECT * FROM shape")

    def reshape(at: int) -> None:
        fl.sql(f"ALTER TABLE shape ADD COLUMN c{at} INT")
        fl.sql("INSERT INTO shape SELECT * FROM shape LIMIT 1")

    for seen in points(fl, reshape, "refresh", "shaped"):
        action = recovered(fl, "shaped", "SELECT * FROM shape")
        assert action == ("NO_DATA" if is_known(seen) else "REINITIALIZE"), seen
    recovered(fl, "shaped", "SELECT * FROM shape")


@pytest.mark.slow
def test_a_fold(fl: Freshlake) -> None:
    def more(at: int) -> None:
        change(fl, at)
        fl.refresh("spread")

    seen: list[str] = []
    for seen in points(fl, more, "fold", "spread"):
        expected = rows(fl, SPREAD)
        assert rows(fl, "spread") == expected, seen
        fl.sql(f"INSERT INTO orders VALUES ({500 + len(seen)}, 'late', 1)")
        recovered(fl, "spread", SPREAD)
        fl.fold("spread")
        assert rows(fl, "spread") == rows(fl, SPREAD), seen
        assert fl.spark.table("spread").count() == rows(fl, SPREAD).total()  # the base alone holds everything
        consistent(fl, "spread")
    node = ["fold n1", "write_rows", "folded n1", "add_fold"]
    assert_in_order([*node, "fold root", "write_rows", "folded root", "add_fold", "cleanup root", "commit"], seen)
    recovered(fl, "spread", SPREAD)
    assert fl.verify("spread").equal


@pytest.mark.slow
def test_an_audit_that_repairs_a_table_and_its_node(fl: Freshlake) -> None:
    """Whoever goes on finds the table wrong, in quarantine or right; in the end it is right, and nothing is twice."""
    fl.create_stream_table("reader", "SELECT total, regions FROM spread")

    def damage(_: int) -> None:
        fl.refresh_all()
        append_to_log(fl, "spread", "regions > 0", regions="regions + 1")
        append_to_log(fl, "spread", "true", node="n1", c1="c1 + 1")
        fl.refresh("reader")

    seen: list[str] = []
    for seen in points(fl, damage, "audit", "spread"):
        table = fl._engine.catalog.get("default.spread")
        before, ended = table.version, "_let_go" in seen
        assert table.is_quarantined == ("begin_quarantine" in seen and not ended), seen
        outcome = str(fl.repair("spread").outcome)
        assert outcome == ("EQUAL" if ended else "REPAIRED"), seen
        assert fl._engine.catalog.get("default.spread").version == before + (not is_known(seen)), seen
        assert not fl._engine.catalog.get("default.spread").is_quarantined
        fl.refresh_all()
        assert rows(fl, "reader") == rows(fl, f"SELECT total, regions FROM ({SPREAD})"), seen
        recovered(fl, "spread", SPREAD)
    assert_in_order(["begin_quarantine", "append n1", "append root", "appended", "_commit", "_let_go"], seen)
    fl.refresh_all()
    recovered(fl, "spread", SPREAD)
    fl.drop_stream_table("reader")


@pytest.mark.slow
def test_a_drop(fl: Freshlake) -> None:
    fl.create_stream_table("going", COPY)
    for at in range(MOST_POINTS):
        if kill(fl, at, "drop_stream_table", "going") is None:
            break
        if any(s.name == "going" for s in fl.status()):
            recovered(fl, "going", COPY)
        else:
            fl.create_stream_table("going", COPY)
            recovered(fl, "going", COPY)
    assert not any(s.name == "going" for s in fl.status())
    fl._upkeep.sweeping.sweep()
    known = {table.storage_id for table in fl._engine.catalog.stream_tables()}
    assert {entry.name for entry in fl._engine.layout.folder("going").parent.iterdir()} == known


@pytest.mark.slow
@pytest.mark.parametrize("call", [["create_stream_table", "burst", COPY], ["fold", "spread"]], ids=["load", "fold"])
def test_spark_itself_dies_in_the_middle_of_a_write(fl: Freshlake, call: list[str]) -> None:
    """The whole process tree ends, wherever it was by then."""
    change(fl, 700 + len(call))
    fl.refresh("spread")
    explode(fl.path, 0.3, *call)
    recovered(fl, "spread", SPREAD)
    fl.fold("spread")
    recovered(fl, "spread", SPREAD)
    if call[0] != "fold":
        fl.create_stream_table_if_not_exists("burst", COPY)
        recovered(fl, "burst", COPY)
        fl.drop_stream_table("burst")
