"""Directed histories of outer, semi, anti, existence and single joins, compared with Spark after each round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import DataError
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, rows
from tests.integration.test_operators import HOBBY_ONLY, INSERTS, ROUNDS, script
from tests.property.play import Play

# All cases are played in one fixture, which is charged to the first of them.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

ON_KEY = "ON o.k = p.k"

CASES = {
    # outer joins
    "left_join": f"SELECT o.id, o.amount, p.name FROM o LEFT JOIN p {ON_KEY}",
    "left_join_null_safe": "SELECT o.id, p.name FROM o LEFT JOIN p ON o.k <=> p.k",
    "left_join_range": "SELECT o.id, p.name FROM o LEFT JOIN p ON o.k < p.k AND o.g <> p.region",
    "left_join_mixed": f"SELECT o.id, p.name FROM o LEFT JOIN p {ON_KEY} AND o.amount > 5 AND p.region = 'north'",
    "left_join_key_and_range": f"SELECT o.id, p.name FROM o LEFT JOIN p {ON_KEY} AND o.note < p.name",
    "left_join_of_expressions": "SELECT o.id, p.name FROM o LEFT JOIN p ON upper(o.g) = substr(upper(p.name), 1, 1)",
    "left_join_on_true": "SELECT o.id, t.name FROM o LEFT JOIN (SELECT name FROM p WHERE k = 2) AS t ON true",
    "only_unmatched": f"SELECT o.id, o.g FROM o LEFT JOIN p {ON_KEY} WHERE p.k IS NULL AND o.amount > 1",
    "right_join": f"SELECT o.id, p.name, p.region FROM o RIGHT JOIN p {ON_KEY}",
    "full_join": f"SELECT o.id, o.k, p.k AS pk, p.name FROM o FULL JOIN p {ON_KEY}",
    "full_join_mixed": f"SELECT o.id, p.name FROM o FULL JOIN p {ON_KEY} AND o.amount > 2 AND p.region IS NOT NULL",
    "full_join_range": "SELECT o.id, p.name FROM o FULL JOIN p ON o.k < p.k",
    "full_join_using": "SELECT k, o.id, p.name FROM o FULL JOIN p USING (k)",
    "left_join_using": "SELECT k, id, name FROM o LEFT JOIN p USING (k)",
    "natural_join": "SELECT k, id, name FROM o NATURAL LEFT JOIN (SELECT k, name FROM p)",
    "self_left_join": "SELECT a.id, b.id AS other FROM o AS a LEFT JOIN o AS b ON b.id = a.k",
    "shared_full_join": "WITH t AS (SELECT g, sum(k) AS s FROM o GROUP BY g) "
    "SELECT a.g, b.g AS h FROM t AS a FULL JOIN t AS b ON a.s = b.s + 1",
    "left_join_by_double": "SELECT a.id, b.id AS other FROM o AS a LEFT JOIN (SELECT id, d FROM o WHERE g = 'b') AS b "
    "ON a.d = b.d",
    # outer joins among other operators
    "chain_of_left_joins": f"SELECT o.id, p.name, w.v FROM o LEFT JOIN p {ON_KEY} LEFT JOIN w ON w.g = o.g",
    "chain_through_padding": f"SELECT o.id, t.name FROM o LEFT JOIN p {ON_KEY} LEFT JOIN p AS t ON t.name = p.hobby "
    "OR t.region = p.region",
    "chain_of_kinds": f"SELECT o.id, p.name, w.g FROM o RIGHT JOIN p {ON_KEY} FULL JOIN w ON w.g = o.g",
    "left_to_aggregate": "SELECT p.name, t.n FROM p LEFT JOIN (SELECT k, count(*) AS n FROM o GROUP BY k) AS t "
    "ON t.k = p.k",
    "aggregate_over_left": f"SELECT p.region, count(*) AS n, sum(o.amount) AS s, max(o.amount) AS m FROM o LEFT JOIN p "
    f"{ON_KEY} GROUP BY p.region",
    "count_of_matches": f"SELECT p.k, p.name, count(o.id) AS n, sum(o.amount) AS s FROM p LEFT JOIN o {ON_KEY} "
    "GROUP BY p.k, p.name",
    "recomputed_over_left": f"SELECT o.k, count(DISTINCT p.name) AS names FROM o LEFT JOIN p {ON_KEY} GROUP BY o.k",
    "recomputed_over_padding": f"SELECT p.k, count(DISTINCT o.g) AS gs FROM o LEFT JOIN p {ON_KEY} GROUP BY p.k",
    "over_a_left_join": "SELECT name, sum(amount) AS s, count(*) AS n FROM left_join GROUP BY name",
    # semi and anti joins
    "exists_key": "SELECT id, k FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.k = o.k AND p.region <> 'south')",
    "not_exists": "SELECT id, k FROM o WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.k = o.k)",
    "in_list": "SELECT id, k FROM o WHERE k IN (SELECT k FROM p) AND amount > 1",
    "not_in": "SELECT id, k FROM o WHERE k NOT IN (SELECT k FROM p WHERE region = 'south')",
    "not_in_with_nulls": "SELECT id, k FROM o WHERE k NOT IN (SELECT k FROM p)",
    "not_in_correlated": "SELECT id, k FROM o WHERE k NOT IN (SELECT p.k FROM p WHERE p.name > o.note)",
    "anti_join": f"SELECT o.id, o.d FROM o LEFT ANTI JOIN p {ON_KEY} AND o.amount > 2",
    "anti_join_by_text_of_double": "SELECT a.id, a.d FROM o AS a LEFT ANTI JOIN p ON CAST(a.d AS STRING) < p.name "
    "AND a.k = p.k",
    "semi_join_by_array": "SELECT a.id FROM (SELECT id, array(k, id) AS ks FROM o) AS a LEFT SEMI JOIN p "
    "ON array_contains(a.ks, p.k)",
    "exists_inside_in": "SELECT id FROM o WHERE k IN (SELECT k FROM p WHERE EXISTS "
    "(SELECT 1 FROM w WHERE w.g < p.name))",
    "not_exists_inside_exists": "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.k = o.k AND NOT EXISTS "
    "(SELECT 1 FROM w WHERE w.g = p.name))",
    "scalar_inside_in": "SELECT id FROM o WHERE k IN (SELECT k FROM p WHERE k > "
    "(SELECT count(*) FROM w WHERE w.g < p.name))",
    "exists_uncorrelated": "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM p WHERE region = 'south')",
    # existence as a value
    "exists_or": "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.k = o.k) OR amount > 8",
    "in_or_not_in": "SELECT id FROM o WHERE k IN (SELECT k FROM p WHERE region = 'north') OR id NOT IN "
    "(SELECT k FROM p WHERE k IS NOT NULL)",
    "exists_shown": "SELECT id, EXISTS (SELECT 1 FROM p WHERE p.k = o.k) AS found, k IN (SELECT k FROM p) AS listed "
    "FROM o",
    # scalar subqueries
    "scalar_correlated": "SELECT id, (SELECT max(name) FROM p WHERE p.k = o.k) AS top FROM o",
    "scalar_count": "SELECT id, (SELECT count(*) FROM p WHERE p.k = o.k) AS n FROM o",
    "scalar_uncorrelated": "SELECT id, k - (SELECT max(k) FROM p) AS distance FROM o",
    "scalar_in_where": "SELECT id, amount FROM o WHERE amount > (SELECT avg(amount) FROM o WHERE k > 0)",
    "scalar_of_one_row": "SELECT id, (SELECT name FROM p WHERE k = 3) AS name FROM o",
    "scalar_of_one_row_each": "SELECT name, (SELECT note FROM o WHERE o.id = p.k) AS note FROM p",
    "lateral": "SELECT o.id, t.n FROM o LEFT JOIN LATERAL (SELECT count(*) AS n FROM p WHERE p.k = o.k) AS t",
}


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    play = Play(script(CASES), tmp_path_factory.mktemp("joins"), stop_early=False)
    play.run()
    return play


@pytest.mark.parametrize("case", CASES)
def test_it_equals_its_query_after_every_round(played: Play, case: str) -> None:
    assert not [str(f) for f in played.failures if f.query == case]


@pytest.mark.parametrize("case", ["left_join", "full_join", "exists_key", "not_exists", "exists_shown", "scalar_count"])
def test_an_update_of_columns_nobody_reads_changes_nothing(played: Play, case: str) -> None:
    result = played.actions[case, ROUNDS.index(HOBBY_ONLY) + 1]
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)


def test_growing_sources_remove_only_padding(played: Play) -> None:
    """The order of customer 3 gets its partner; those of 9 and NULL bring and keep their own."""
    result = played.actions["left_join", ROUNDS.index(INSERTS) + 1]
    assert (result.rows_inserted, result.rows_deleted) == (7, 1)


@pytest.fixture
def fl(spark: SparkSession, lake_dir: Path) -> Iterator[Freshlake]:
    lake = freshlake.connect(lake_dir, settings=ANY_SHARE)
    yield lake
    lake.close()


def test_a_scalar_subquery_with_two_rows_fails_as_in_spark_and_recovers(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE a (x INT) USING delta")
    fl.sql("CREATE TABLE b (k INT, y INT) USING delta")
    fl.sql("INSERT INTO a VALUES (1), (2)")
    fl.sql("INSERT INTO b VALUES (1, 10), (2, 20)")
    query = "SELECT x, (SELECT y FROM b WHERE k = 1) AS y FROM a"
    fl.create_stream_table("s", query)
    fl.sql("INSERT INTO b VALUES (1, 11)")
    with pytest.raises(DataError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        fl.refresh("s")
    fl.sql("DELETE FROM b WHERE y = 10")
    fl.refresh("s")
    assert rows(fl, "s") == rows(fl, query)
