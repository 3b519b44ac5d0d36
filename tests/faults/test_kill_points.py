"""A process ends between any two lasting effects of a refresh or a fold: nothing is lost and nothing is doubled.

Every test kills a real process after its first effect, recovers and compares, then kills the next one after the second
effect, and so on until one survives: no point is left out, and a new step is covered by itself. A differential refresh
is killed in the default run, the other calls by `make slow`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.lake import Freshlake
from freshlake.storage.log import Log
from tests.faults.victim import DIED
from tests.integration.damage import append_to_log
from tests.integration.lakes import ANY_SHARE, rows

ROOT = Path(__file__).parents[2]
# The inner aggregate is an internal node with its own log; duplicates make doubling visible.
SPREAD = (
    "SELECT total, count(*) AS regions, sum(n) AS orders FROM "
    "(SELECT region, sum(amount) AS total, count(*) AS n FROM orders GROUP BY region) GROUP BY total"
)
COPY = "SELECT region, amount FROM orders"
JOINED = "SELECT o.region, amount, goal FROM orders o JOIN goals g ON o.region = g.region"
pytestmark = pytest.mark.timeout(1800)
MOST_POINTS = 40
# The last effects of a refresh, when the catalog already knows its result.
KNOWN = ("committed", "release_lease")


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        lake.sql("CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta")
        lake.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'north', 5), (3, NULL, 1), (3, NULL, 1), (4, 'a', 7)")
        lake.create_stream_table("spread", SPREAD, fold_policy="manual")
        yield lake
    # a victim's session became the JVM's default one
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(spark._jsparkSession)


# Killing --------------------------------------------------------------------------------------------------------------


def victim(lake: Path, at: str, call: dict[str, Any], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.victim", str(lake), at, json.dumps(call)],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def kill(fl: Freshlake, at: int, call: str, *args: str, **kwargs: str) -> str | None:
    """Run a call in another process that dies after `at` more effects; its last effect, or None if it survived."""
    gateway: Any = fl.spark.sparkContext._gateway
    known = gateway.gateway_parameters
    shared = {"PYSPARK_GATEWAY_PORT": str(known.port), "PYSPARK_GATEWAY_SECRET": known.auth_token}
    done = victim(fl.path, str(at), {"call": call, "args": args, "kwargs": kwargs}, shared)
    assert done.returncode in (0, DIED), f"{call} failed by itself at point {at}:\n{done.stderr[-3000:]}"
    return done.stdout.splitlines()[-1] if done.returncode else None


def points(fl: Freshlake, prepare: Callable[[int], None], call: str, *args: str, **kwargs: str) -> Iterator[list[str]]:
    """One dead process per point; all effects that the one before this point had, and the last of this one."""
    seen: list[str] = []
    for at in range(MOST_POINTS):
        prepare(at)
        effect = kill(fl, at, call, *args, **kwargs)
        if effect is None:
            assert len(seen) > 3, seen
            return
        seen.append(effect)
        yield seen
    raise AssertionError(f"still dying after {MOST_POINTS} points: {seen}")


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


def consistent(fl: Freshlake, name: str) -> None:
    """Catalog, logs, leases and history tell one story."""
    catalog, layout = fl._engine.catalog, fl._engine.layout
    table = catalog.get(f"default.{name}")
    assert Log(layout.root(table, table.generation).path).head == table.version == table.published_version
    for node, state in table.nodes.items():
        assert Log(layout.node(table.storage_id, table.generation, node).path).head == state.version
    assert catalog.lease(table.id) is None
    runs = catalog.history(table.id, None)
    assert {str(r.status) for r in runs} <= {"COMPLETED", "FAILED"}
    made = Counter((r.generation, r.version) for r in runs if r.rows_inserted or r.rows_deleted)
    assert not made or max(made.values()) == 1, "one version, one refresh"


def is_committed(seen: list[str]) -> bool:
    """Whether the table's own log had the result when the process died."""
    after = seen[seen.index("append root") :] if "append root" in seen else []
    return "commit" in after


def streams(fl: Freshlake) -> set[str]:
    return {p.name.split("-")[0] for p in (fl.path / "_freshlake" / "streams").iterdir()}


# The tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", pytest.param("FULL", marks=pytest.mark.slow)])
def test_a_refresh_with_internal_nodes(fl: Freshlake, mode: str) -> None:
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, at), "refresh", "spread", mode=mode):
        effect = seen[-1]
        before = fl._engine.catalog.get("default.spread").version
        done = effect in KNOWN
        action = recovered(fl, "spread", SPREAD)
        assert action == ("NO_DATA" if is_committed(seen) else "DIFFERENTIAL"), seen
        assert fl._engine.catalog.get("default.spread").version == before + (not done), seen
        failed = [r for r in fl.history("spread", limit=3) if str(r.status) == "FAILED"]
        assert bool(failed) == (not is_committed(seen) and effect != "acquire_lease"), seen
        assert all(r.error_code == "refresh-failed" for r in failed)
    assert {"begin_refresh", "compute", "append n1", "stage", "append root", "appended", *KNOWN} <= set(seen)
    recovered(fl, "spread", SPREAD)
    assert fl.verify("spread").equal


@pytest.mark.slow
def test_a_first_load(fl: Freshlake) -> None:
    """The table is there, to be loaded by its first refresh, or its name is still free."""
    seen: list[str] = []
    for seen in points(fl, lambda at: change(fl, at), "create_stream_table", "first", SPREAD):
        found = [s for s in fl.status() if s.name == "first"]
        if found:
            assert found[0].is_populated == (seen[-1] in KNOWN), seen
        else:
            fl.create_stream_table("first", SPREAD)
        recovered(fl, "first", SPREAD)
        fl.drop_stream_table("first")
        assert "first" not in streams(fl), seen
    assert {"load n1", "load root", "write_rows", "commit", "loaded", *KNOWN} <= set(seen)
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
        assert query == (JOINED if seen[-1] in KNOWN else COPY), seen
        assert {s.source for s in fl.sources("altered")} == reads[query]
        recovered(fl, "altered", query)
        if query == JOINED:
            fl.alter_stream_table("altered", query=COPY)
    assert {"load root", "write_rows", "loaded", "commit_refresh", *KNOWN} <= set(seen)
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
        assert action == ("NO_DATA" if seen[-1] in KNOWN else "REINITIALIZE"), seen
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
    assert {"fold n1", "fold root", "_write", "folded root", "add_fold", "cleanup root", "release_lease"} <= set(seen)
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
        before, ended = table.version, seen[-1] in ("let go", "release_lease") and "let go" in seen
        assert table.is_quarantined == ("begin_quarantine" in seen and not ended), seen
        outcome = str(fl.repair("spread").outcome)
        assert outcome == ("EQUAL" if ended else "REPAIRED"), seen
        known = "committed" in seen
        assert fl._engine.catalog.get("default.spread").version == before + (not known), seen
        assert not fl._engine.catalog.get("default.spread").is_quarantined
        fl.refresh_all()
        assert rows(fl, "reader") == rows(fl, f"SELECT total, regions FROM ({SPREAD})"), seen
        recovered(fl, "spread", SPREAD)
    assert {"begin_quarantine", "append n1", "append root", "appended", "committed", "end_quarantine"} <= set(seen)
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


@pytest.mark.slow
@pytest.mark.parametrize("call", [["create_stream_table", "burst", COPY], ["fold", "spread"]], ids=["load", "fold"])
def test_spark_itself_dies_in_the_middle_of_a_write(fl: Freshlake, call: list[str]) -> None:
    """The whole process tree ends, wherever it was by then."""
    change(fl, 700 + len(call))
    fl.refresh("spread")
    victim(fl.path, "0.3", {"call": call[0], "args": call[1:]}, {})
    recovered(fl, "spread", SPREAD)
    fl.fold("spread")
    recovered(fl, "spread", SPREAD)
    if call[0] != "fold":
        fl.create_stream_table_if_not_exists("burst", COPY)
        recovered(fl, "burst", COPY)
        fl.drop_stream_table("burst")
