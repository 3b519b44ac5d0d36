"""Recursive queries follow inserts, deletes and moves of what they read, and end where Spark's recursion ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import NotDifferentiable, RecursionLimit
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE
from tests.property.case import Round, Script
from tests.property.play import Play

pytestmark = pytest.mark.timeout(1800)

SETUP = (
    "CREATE TABLE emp (id INT, boss INT, name STRING) USING delta",
    "CREATE TABLE edge (a INT, b INT, w DECIMAL(10,2)) USING delta TBLPROPERTIES "
    "('delta.enableChangeDataFeed' = 'true')",
    "INSERT INTO emp VALUES (1, NULL, 'ann'), (2, 1, 'bob'), (3, 1, 'cid'), (4, 2, 'dan'), (5, 4, NULL), "
    "(6, NULL, 'eva'), (9, 8, 'lost')",
    "INSERT INTO edge VALUES (1, 2, 1.5), (2, 3, 2), (2, 3, 2), (3, 4, NULL), (NULL, 1, 1), (7, 7, 0)",
)

TREE = (
    "WITH RECURSIVE t(id, boss, path, n) AS (SELECT id, boss, coalesce(name, '?'), 1 FROM emp WHERE boss IS NULL "
    "UNION ALL SELECT e.id, e.boss, concat(t.path, '/', coalesce(e.name, '?')), t.n + 1 "
    "FROM t JOIN emp AS e ON e.boss = t.id)"
)
PATHS = (
    "WITH RECURSIVE p(a, b, w) AS (SELECT a, b, w FROM edge UNION ALL "
    "SELECT p.a, e.b, CAST(p.w + e.w AS DECIMAL(10,2)) FROM p JOIN edge AS e ON p.b = e.a WHERE e.a <> e.b)"
)

CASES = {
    "tree": f"{TREE} SELECT * FROM t",
    "narrow": f"{TREE} SELECT n FROM t",
    "computed": f"{TREE} SELECT upper(path) AS p, n + 1 AS m FROM t",
    "some_levels": f"{TREE} SELECT id, path FROM t WHERE n BETWEEN 2 AND 3",
    "per_level": f"{TREE} SELECT n, count(*) AS c, max(path) AS last FROM t GROUP BY n",
    "with_names": f"{TREE} SELECT t.path, b.name FROM t JOIN emp AS b ON t.boss = b.id",
    "read_twice": f"{TREE} SELECT x.id, y.id AS other FROM t AS x JOIN t AS y ON x.n = y.n AND x.id < y.id",
    "paths": f"{PATHS} SELECT * FROM p",
    "bounded_cycles": "WITH RECURSIVE p(a, b, n) AS (SELECT a, b, 1 FROM edge UNION ALL "
    "SELECT p.a, e.b, n + 1 FROM p JOIN edge AS e ON p.b = e.a WHERE n < 4) SELECT a, b, n FROM p",
    "over_an_aggregate": "WITH RECURSIVE p(a, b, n) AS (SELECT a, b, 1 FROM edge WHERE a = 1 UNION ALL "
    "SELECT p.a, e.b, n + 1 FROM p JOIN (SELECT a, b, count(*) AS c FROM edge GROUP BY a, b) AS e "
    "ON p.b = e.a AND e.c > 0 WHERE n < 5) SELECT a, b, n FROM p",
    "two_branches": "WITH RECURSIVE p(b, n) AS (SELECT a, 1 FROM edge UNION ALL "
    "(SELECT e.b, n + 1 FROM p JOIN edge AS e ON p.b = e.a WHERE n < 3 UNION ALL "
    "SELECT e.a, n + 1 FROM p JOIN edge AS e ON p.b = e.b WHERE n < 3)) SELECT b, n FROM p",
    "same_column_twice": "WITH RECURSIVE p(s, e, n) AS (SELECT a, a, 0 FROM edge WHERE a > 0 UNION ALL "
    "SELECT p.s, e.b, n + 1 FROM p JOIN edge AS e ON p.e = e.a WHERE n < 2) SELECT s, e FROM p",
    "of_constants": "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 4) "
    "SELECT emp.id, c.i FROM emp JOIN c ON emp.id % 4 = c.i",
    "deep": "WITH RECURSIVE d(a, n) MAX RECURSION LEVEL 150 AS (SELECT a, 1 FROM edge WHERE a = 7 UNION ALL "
    "SELECT a, n + 1 FROM d WHERE n < 120) SELECT a, max(n) AS n FROM d GROUP BY a",
    "strong": "SELECT a, b, w FROM edge WHERE w >= 1",
    "over_a_stream_table": "WITH RECURSIVE p(a, b) AS (SELECT a, b FROM strong UNION ALL "
    "SELECT p.a, e.b FROM p JOIN strong AS e ON p.b = e.a) SELECT * FROM p",
}

GROW = (
    "INSERT INTO emp VALUES (7, 3, 'fay'), (8, 6, 'gus'), (10, 9, 'hal')",
    "INSERT INTO edge VALUES (4, 5, 3), (1, 2, 1.5)",
)
MOVE = (
    # a subtree moves below another root while one of its members goes
    "UPDATE emp SET boss = 6 WHERE id = 2",
    "DELETE FROM emp WHERE id = 5",
    "UPDATE edge SET b = 5, w = w + 1 WHERE a = 2",
)
CUT = (
    "DELETE FROM emp WHERE id IN (1, 8)",
    "DELETE FROM edge WHERE a = 1 OR a IS NULL",
    "INSERT INTO edge VALUES (1, 3, 4), (0, 1, 1), (0, 1, 1)",
)
UNSEEN = ("INSERT INTO edge VALUES (100, 101, 0.1)", "UPDATE emp SET name = name WHERE id = 3")
EMPTY = ("DELETE FROM emp", "DELETE FROM edge")
REFILL = (
    "INSERT INTO emp VALUES (1, NULL, 'ann'), (2, 1, 'bob'), (2, 1, 'bob')",
    "INSERT INTO edge VALUES (1, 2, 1), (2, 1, 0.5), (7, 7, 1)",
)
ROUNDS = (GROW, MOVE, CUT, UNSEEN, EMPTY, REFILL)


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    everything = tuple((name, "DIFFERENTIAL", False) for name in CASES)
    folded = tuple((name, "DIFFERENTIAL", name in ("tree", "per_level")) for name in CASES)
    # REFILL brings a cycle, which only bounded recursions survive
    bounded = tuple((name, "DIFFERENTIAL", False) for name in CASES if name not in ("paths", "strong"))
    bounded = tuple(entry for entry in bounded if entry[0] != "over_a_stream_table")
    rounds = tuple(
        Round(changes, {2: folded, 6: bounded}.get(number, everything), reconnect=number == 3)
        for number, changes in enumerate(ROUNDS, 1)
    )
    play = Play(Script(SETUP, ("emp", "edge"), dict(CASES), rounds), tmp_path_factory.mktemp("recursion"), False)
    play.run()
    return play


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_equals_its_query_after_every_round(played: Play, case: str) -> None:
    assert not [str(f) for f in played.failures if f.query == case]


@pytest.mark.slow
def test_only_paths_through_the_change_are_written(played: Play) -> None:
    result = played.actions["tree", 1]
    assert (result.rows_inserted, result.rows_deleted) == (4, 0), "fay; gus, and lost and hal below him"
    moved = played.actions["tree", 2]
    assert (moved.rows_inserted, moved.rows_deleted) == (2, 3), "bob and dan move, the one below them goes"


@pytest.mark.slow
def test_a_change_that_no_path_goes_through_writes_nothing(played: Play) -> None:
    result = played.actions["over_an_aggregate", 4]
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)


# Ends ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fl(spark: SparkSession, lake_dir: Path) -> Iterator[Freshlake]:
    lake = freshlake.connect(lake_dir, settings=ANY_SHARE)
    lake.sql("CREATE TABLE edge (a INT, b INT) USING delta")
    yield lake
    lake.close()


REACH = (
    "WITH RECURSIVE p(b) MAX RECURSION LEVEL 5 AS (SELECT a FROM edge WHERE a = 0 UNION ALL "
    "SELECT e.b FROM p JOIN edge AS e ON p.b = e.a) SELECT b FROM p"
)


def reached(fl: Freshlake) -> Counter[int]:
    return Counter(row["b"] for row in fl.table("reach").collect())


@pytest.mark.parametrize("mode", [pytest.param("AUTO", marks=pytest.mark.slow), "DIFFERENTIAL"])
def test_a_cycle_that_appears_is_an_error_and_changes_nothing(fl: Freshlake, mode: str) -> None:
    fl.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 3)")
    fl.create_stream_table("reach", REACH, refresh_mode=mode)
    before, version = reached(fl), fl.status()[0].version
    fl.sql("INSERT INTO edge VALUES (3, 1)")
    with pytest.raises(RecursionLimit) as caught:
        fl.refresh("reach")
    assert "RECURSION_LEVEL_LIMIT_EXCEEDED" in str(caught.value)
    assert "MAX RECURSION LEVEL" in str(caught.value.hint)
    assert (reached(fl), fl.status()[0].version) == (before, version)
    assert fl.history("reach")[0].error_code == "recursion-limit"
    with pytest.raises(RecursionLimit, match="level 5"):
        fl.refresh("reach", mode="DIFFERENTIAL")
    fl.sql("DELETE FROM edge WHERE a = 3")
    fl.sql("INSERT INTO edge VALUES (3, 4)")
    result = fl.refresh("reach")
    assert (str(result.action), result.rows_inserted) == ("DIFFERENTIAL", 1)
    assert reached(fl) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
    assert fl.verify("reach").equal


def test_the_limit_counts_levels_as_spark_does(fl: Freshlake) -> None:
    fl.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 3)")
    fl.create_stream_table("reach", REACH)
    fl.sql("INSERT INTO edge VALUES (3, 4)")
    assert str(fl.refresh("reach").action) == "DIFFERENTIAL"
    fl.sql("INSERT INTO edge VALUES (4, 5)")
    with pytest.raises(RecursionLimit):
        fl.refresh("reach")
    assert reached(fl) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


def test_what_goes_beyond_the_limit_on_the_way_only_is_computed_again(fl: Freshlake) -> None:
    fl.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 3)")
    fl.create_stream_table("reach", REACH, refresh_mode="DIFFERENTIAL")
    fl.sql("INSERT INTO edge VALUES (3, 6), (6, 7), (7, 8)")
    fl.sql("DELETE FROM edge WHERE a = 0")
    result = fl.refresh("reach")
    assert (str(result.action), result.reason, result.rows_deleted) == ("FULL", "recursion-limit", 4)
    assert (fl.history("reach")[0].reason, reached(fl)) == ("recursion-limit", Counter())


def test_a_step_that_is_not_linear_is_computed_again(fl: Freshlake) -> None:
    fl.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 3)")
    query = (
        "WITH RECURSIVE p(a, b, n) AS (SELECT a, b, 1 FROM edge UNION ALL "
        "SELECT x.a, y.b, x.n + 1 FROM p AS x JOIN p AS y ON x.b = y.a WHERE x.n < 2) SELECT a, b FROM p"
    )
    with pytest.raises(NotDifferentiable, match="cannot be refreshed") as caught:
        fl.create_stream_table("squared", query, refresh_mode="DIFFERENTIAL")
    assert "joins the reference with itself" in str(caught.value)
    fl.create_stream_table("squared", query)
    fl.sql("INSERT INTO edge VALUES (3, 4)")
    result = fl.refresh("squared")
    assert (str(result.action), result.reason) == ("FULL", "not-differentiable")
    assert "joins the reference with itself" in str(result.detail)
    assert fl.verify("squared").equal


def test_rounds_that_spark_holds_give_the_same_rows(spark: SparkSession, lake_dir: Path) -> None:
    """Where a round is too large for the driver."""
    fl = freshlake.connect(lake_dir, settings={**ANY_SHARE, "driver_rows": 100})
    fl.sql("CREATE TABLE edge (a INT, b INT) USING delta")
    fl.sql("INSERT INTO edge VALUES (0, 1), (1, 2)")
    fl.create_stream_table("reach", REACH)
    fl.sql("INSERT INTO edge SELECT 2, 10 + id FROM range(250)")
    fl.sql("INSERT INTO edge SELECT 10 + id, 5000 + id % 110 FROM range(120)")
    result = fl.refresh("reach", mode="DIFFERENTIAL")
    assert str(result.action) == "DIFFERENTIAL"
    assert fl.verify("reach").equal
    fl.close()


def test_it_is_explained(fl: Freshlake) -> None:
    fl.create_stream_table("reach", REACH)
    shown = str(fl.explain("reach"))
    assert "ΔX = ΔB + ΔS(X₀) + S₁(ΔX)" in shown or "recursion" in shown
    assert "until it is empty" in shown
    assert "no rule" not in shown
