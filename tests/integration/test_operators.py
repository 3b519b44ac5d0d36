"""Directed histories: every rule and every trap of its formula, in one lake, compared with Spark after each round."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from tests.property.case import Round, Script
from tests.property.play import Play

# All cases are played in one fixture, which is charged to the first of them.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

SETUP = (
    "CREATE TABLE o (id INT, k INT, g STRING, amount DECIMAL(10,2), d DOUBLE, note STRING) USING delta",
    "CREATE TABLE p (k INT, name STRING, region STRING, hobby STRING) USING delta "
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "CREATE TABLE w (g STRING, v DECIMAL(38,18)) USING delta",
    "INSERT INTO o VALUES (1, 1, 'a', 5.00, 0.1, 'x'), (2, 1, 'a', 9.50, 0.2, 'y'), (3, 2, 'b', 3.25, 0.0, NULL), "
    "(4, NULL, 'b', NULL, NULL, 'x'), (5, 3, NULL, 7.00, double('NaN'), 'z'), (6, 2, 'solo', 1.00, 1e15, 'x')",
    "INSERT INTO p VALUES (1, 'ann', 'north', 'go'), (2, 'bob', 'south', NULL), (2, 'bob', 'south', NULL), "
    "(NULL, 'nil', 'north', 'go'), (9, 'zoe', NULL, 'tea')",
    "INSERT INTO w VALUES ('a', 0.000000000000000001), ('a', 12345678901234.5), ('b', -1), (NULL, NULL)",
)

CASES = {
    # linear operators
    "filter_with_unknowns": "SELECT id, k, amount FROM o WHERE NOT (k > 2) OR g IS NULL AND amount <> 5",
    "project_expressions": "SELECT id, k + 1 AS k1, upper(g) AS ug, CASE WHEN amount > 5 THEN 'big' END AS size FROM o",
    "narrow_with_duplicates": "SELECT region FROM p",
    "union_all": "SELECT k, g FROM o UNION ALL SELECT k, name FROM p UNION ALL SELECT k, g FROM o WHERE k = 1",
    "doubles_bit_by_bit": "SELECT id, d, CAST(d AS STRING) AS shown FROM o WHERE d > 0 OR NOT (d > 0)",
    # joins
    "equi_join": "SELECT o.id, o.amount, p.name FROM o JOIN p ON o.k = p.k",
    "null_safe_join": "SELECT o.id, p.name FROM o JOIN p ON o.k <=> p.k",
    "non_equi_join": "SELECT o.id, p.name FROM o JOIN p ON o.k < p.k AND o.g <> p.region",
    "self_join": "SELECT a.id AS l, b.id AS r FROM o AS a JOIN o AS b ON a.k = b.k AND a.id <= b.id",
    "three_way_join": "SELECT o.id, p.name, w.v FROM o JOIN p ON o.k = p.k JOIN w ON w.g = o.g WHERE o.amount > 2",
    "cross_join": "SELECT o.id, p.name FROM o CROSS JOIN p WHERE p.region = 'north'",
    "join_with_distinct": "SELECT o.id, t.region FROM o JOIN (SELECT DISTINCT k, region FROM p) AS t ON o.k = t.k",
    "join_with_aggregate": "SELECT p.name, t.n FROM p JOIN (SELECT k, count(*) AS n FROM o GROUP BY k) AS t "
    "ON t.k = p.k",
    # aggregates from exact state
    "counts_and_sums": "SELECT g, count(*) AS n, count(amount) AS na, sum(amount) AS s, avg(amount) AS av, "
    "sum(k) AS sk, avg(k) AS ak FROM o GROUP BY g",
    "filtered_calls": "SELECT g, sum(amount) FILTER (WHERE k > 1) AS s, count(*) FILTER (WHERE k IS NULL) AS n, "
    "max(amount) FILTER (WHERE note = 'x') AS m FROM o GROUP BY g",
    "keys_that_are_not_shown": "SELECT sum(amount) AS s FROM o GROUP BY g, k",
    "key_expression": "SELECT k % 2 AS parity, count(*) AS n, sum(id) AS s FROM o GROUP BY k % 2",
    "global_state": "SELECT count(*) AS n, count(amount) AS na, sum(amount) AS s, max(g) AS m, min(d) AS d FROM o",
    "wide_decimals": "SELECT g, sum(v) AS s, avg(v) AS a, count(v) AS n FROM w GROUP BY g",
    "aggregate_over_join": "SELECT p.region, sum(o.amount) AS s, max(o.amount) AS m FROM o JOIN p ON o.k = p.k "
    "GROUP BY p.region",
    # extrema
    "extrema": "SELECT g, max(amount) AS top, min(amount) AS low, max(note) AS m, min(d) AS d FROM o GROUP BY g",
    "extrema_by_two_keys": "SELECT g, k, max(id) AS last FROM o GROUP BY g, k",
    "extrema_of_distinct": "SELECT g, min(DISTINCT amount) AS lo, max(DISTINCT k) AS hi FROM o GROUP BY g",
    "guarded_arguments": "SELECT g, sum(10 div (k - 1)) FILTER (WHERE k <> 1) AS s, "
    "min(7 div (k - 1)) FILTER (WHERE k <> 1) AS m FROM o GROUP BY g",
    # keys that are not plain values
    "struct_keys": "SELECT named_struct('k', k, 'g', g) AS key, count(*) AS n FROM o "
    "GROUP BY named_struct('k', k, 'g', g)",
    "array_keys": "SELECT DISTINCT array(k, id % 2) AS key FROM o",
    "array_join": "SELECT o.id, p.name FROM o JOIN p ON array(o.k) = array(p.k)",
    # distinct
    "distinct": "SELECT DISTINCT g, k FROM o",
    "union_distinct": "SELECT g FROM o UNION SELECT region FROM p",
    # groups recomputed
    "recomputed": "SELECT g, count(DISTINCT k) AS kinds, collect_set(k) AS ks, collect_list(amount) AS al, "
    "stddev(k) AS sd FROM o GROUP BY g",
    "recomputed_by_double": "SELECT d, count(DISTINCT k) AS kinds FROM o GROUP BY d",
    "recomputed_by_two_keys": "SELECT k, g, count(DISTINCT amount) AS kinds FROM o GROUP BY k, g",
    "recomputed_without_keys": "SELECT count(DISTINCT g) AS gs, stddev(k) AS sd FROM o",
    "recomputed_over_join": "SELECT o.k, count(DISTINCT p.name) AS names FROM o JOIN p ON o.k <= p.k GROUP BY o.k",
    "sums_of_doubles": "SELECT g, sum(d) AS s, avg(d) AS a FROM o GROUP BY g",
    # compositions
    "having": "SELECT g, count(*) AS n FROM o GROUP BY g HAVING count(*) > 1 AND max(amount) > 4",
    "nested": "SELECT n, count(*) AS gs, sum(s) AS s FROM "
    "(SELECT g, count(*) AS n, sum(amount) AS s FROM o GROUP BY g) GROUP BY n",
    "shared": "WITH t AS (SELECT g, sum(k) AS s FROM o GROUP BY g) "
    "SELECT a.g, b.g AS h FROM t AS a JOIN t AS b ON a.s < b.s",
    "over_a_stream_table": "SELECT name, sum(amount) AS s, count(*) AS n FROM equi_join GROUP BY name",
}

INSERTS = (
    "INSERT INTO o VALUES (7, 2, 'a', 9.50, -0.0, 'y'), (8, NULL, NULL, 2.00, 0.1, 'x'), "
    "(8, NULL, NULL, 2.00, 0.1, 'x'), (9, 9, 'new', NULL, NULL, NULL)",
    "INSERT INTO p VALUES (3, 'cat', 'north', NULL), (9, 'zoe', NULL, 'tea'), (NULL, 'nil', 'north', 'go')",
    "INSERT INTO w VALUES ('a', 0.000000000000000001), ('a', 0.000000000000000001), ('solo', 99999999999999.9)",
)
MOVES = (
    # the key of a row moves while its old partner goes and a new one comes; the largest of a group goes, a worse comes
    "UPDATE o SET k = 3, g = 'b' WHERE id = 3",
    "DELETE FROM p WHERE k = 2",
    "DELETE FROM o WHERE id IN (2, 7)",
    "INSERT INTO o VALUES (10, 1, 'a', 0.50, 0.3, 'a'), (11, 3, 'b', 0.25, double('NaN'), 'x')",
    "DELETE FROM w WHERE v = 0.000000000000000001",
)
VANISH = (
    # last rows of groups; rows that come and go; columns that hardly anybody reads
    "DELETE FROM o WHERE g = 'solo' OR k IS NULL",
    "INSERT INTO o VALUES (12, 1, 'brief', 1.00, 1.0, 'x')",
    "DELETE FROM o WHERE id = 12",
    "UPDATE p SET hobby = 'chess'",
    "UPDATE o SET amount = NULL WHERE g = 'a' AND amount > 1",
)
MERGE = (
    "MERGE INTO o USING (SELECT * FROM VALUES (1, 7), (5, 1), (20, 3) AS v(i, j)) AS s ON o.id = s.i "
    "WHEN MATCHED AND s.j = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.j, amount = 8.00 "
    "WHEN NOT MATCHED THEN INSERT (id, k, g, amount, d, note) VALUES (s.i, s.j, 'b', 4.00, 0.0, 'zz')",
    "UPDATE p SET k = 1, region = 'south' WHERE k = 3 OR k IS NULL",
    "INSERT INTO o SELECT * FROM o WHERE k = 3",
)
EMPTY = ("DELETE FROM o", "UPDATE p SET region = upper(region)")
REFILL = (
    "INSERT INTO o VALUES (30, 1, 'a', 1.00, -0.0, NULL), (31, 1, NULL, 2.00, 0.0, 'q')",
    "DELETE FROM p WHERE name = 'ann'",
    "DELETE FROM w",
)
HOBBY_ONLY = ("UPDATE p SET hobby = concat('more ', hobby)",)
ROUNDS = (INSERTS, MOVES, VANISH, MERGE, EMPTY, REFILL, HOBBY_ONLY)

FOLDED = {"extrema", "equi_join", "recomputed"}
"""Brought into their base half-way, so that later rounds start from a fold."""


def script(cases: Mapping[str, str] = CASES) -> Script:
    rounds = []
    for number, changes in enumerate(ROUNDS, 1):
        refreshes = tuple((name, "DIFFERENTIAL", number == 3 and name in FOLDED) for name in cases)
        rounds.append(Round(tuple(changes), refreshes, reconnect=number == 5))
    return Script(SETUP, ("o", "p", "w"), dict(cases), tuple(rounds))


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    play = Play(script(), tmp_path_factory.mktemp("operators"), stop_early=False)
    play.run()
    return play


@pytest.mark.parametrize("case", CASES)
def test_it_equals_its_query_after_every_round(played: Play, case: str) -> None:
    assert not [str(f) for f in played.failures if f.query == case]


@pytest.mark.parametrize("case", [c for c in CASES if " p" in CASES[c] or c == "over_a_stream_table"])
def test_an_update_of_columns_nobody_reads_changes_nothing(played: Play, case: str) -> None:
    result = played.actions[case, ROUNDS.index(HOBBY_ONLY) + 1]
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)
    assert result.version == played.actions[case, ROUNDS.index(REFILL) + 1].version


def test_tables_whose_sources_did_not_change_run_no_job(played: Play) -> None:
    result = played.actions["wide_decimals", ROUNDS.index(VANISH) + 1]
    assert (str(result.action), result.spark_jobs) == ("NO_DATA", 0)


@pytest.mark.parametrize("case", ["equi_join", "cross_join", "three_way_join", "self_join", "union_all"])
def test_growing_sources_only_add_rows(played: Play, case: str) -> None:
    """Terms that cancel are summed before they are written, so nothing is removed that was never there."""
    result = played.actions[case, ROUNDS.index(INSERTS) + 1]
    assert result.rows_inserted > 0
    assert result.rows_deleted == 0


def test_rows_of_other_groups_are_not_written_again(played: Play) -> None:
    result = played.actions["counts_and_sums", ROUNDS.index(INSERTS) + 1]
    assert (result.rows_inserted, result.rows_deleted) == (3, 2)
