"""Bags are compared exactly, within rounding where values are floating, and without order where it is open."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from freshlake.refresh.compare import alike, compare, correction

ROWS = """
SELECT * FROM VALUES
  (1, 'a', 10.5D, float(0.5), array(1.5D, 2.5D), array(1, 2, 2), map('x', 1.25D), named_struct('p', 1, 'q', 0.1D)),
  (2, 'b', -3.25D, NULL, array(), array(3), map(), named_struct('p', 2, 'q', 1e30D)),
  (3, NULL, double('nan'), float('nan'), NULL, NULL, NULL, NULL),
  (4, 'd', double('infinity'), float(1), array(NULL, double('-infinity')), array(NULL), map('y', NULL),
   named_struct('p', NULL, 'q', double('nan'))),
  (5, 'e', 0D, float(0), array(0D), array(7, 8), map('z', 0D), named_struct('p', 5, 'q', 0D)),
  (5, 'e', 0D, float(0), array(0D), array(7, 8), map('z', 0D), named_struct('p', 5, 'q', 0D))
AS t(id, s, d, f, ds, list, m, st)
"""

SAME = {
    "nothing": "SELECT * FROM t",
    "rounding": "SELECT id, s, d * (1 + 1e-13) AS d, f, transform(ds, x -> x * (1 + 1e-13)) AS ds, list, "
    "transform_values(m, (k, v) -> v * (1 + 1e-13)) AS m, "
    "if(st IS NULL, NULL, named_struct('p', st.p, 'q', st.q * (1 - 1e-13))) AS st FROM t",
    "the sign of zero": "SELECT id, s, if(id = 5, -d, d) AS d, f, ds, list, m, st FROM t",
    "the order of the list": "SELECT id, s, d, f, ds, reverse(list) AS list, m, st FROM t",
}
OTHER = {
    "one value": "SELECT id, s, if(id = 1, d * (1 + 1e-6), d) AS d, f, ds, list, m, st FROM t",
    "values at each other's rows": "SELECT id, s, case id when 1 then -3.25D when 2 then 10.5D else d end AS d, "
    "f, ds, list, m, st FROM t",
    "NaN": "SELECT id, s, if(id = 3, 0D, d) AS d, f, ds, list, m, st FROM t",
    "the sign of infinity": "SELECT id, s, if(id = 4, -d, d) AS d, f, ds, list, m, st FROM t",
    "NULL": "SELECT id, s, d, coalesce(f, float(0)) AS f, ds, list, m, st FROM t",
    "a number in a list": "SELECT id, s, d, f, if(id = 1, array(1.5D, 2.75D), ds) AS ds, list, m, st FROM t",
    "the order of another list": "SELECT id, s, d, f, reverse(ds) AS ds, list, m, st FROM t",
    "a copy in the list": "SELECT id, s, d, f, ds, array_distinct(list) AS list, m, st FROM t",
    "a number in a map": "SELECT id, s, d, f, ds, list, transform_values(m, (k, v) -> v + 1) AS m, st FROM t",
    "a number in a struct": "SELECT id, s, d, f, ds, list, m, named_struct('p', st.p, 'q', st.q * 2) AS st FROM t",
    "a copy of a row": "SELECT * FROM (SELECT DISTINCT id, s, d, f, ds, list, st FROM t WHERE id = 5) "
    "JOIN (SELECT first(m) AS m FROM t WHERE id = 5) UNION ALL SELECT id, s, d, f, ds, list, st, m FROM t WHERE id < 5",
    "everything": "SELECT * FROM t WHERE false",
}


@pytest.mark.parametrize("what", [*SAME, *OTHER])
def test_two_bags_are_the_same_or_not(spark: SparkSession, what: str) -> None:
    spark.sql(ROWS).createOrReplaceTempView("t")
    expected = spark.table("t")
    actual = spark.sql((SAME | OTHER)[what]).select(*expected.columns)
    difference = compare(expected, actual, unordered=["list"])
    assert (difference.missing, difference.unexpected) == (0, 0) if what in SAME else difference.missing > 0
    assert bool(difference.sample) is (what in OTHER)
    assert alike(expected, actual, unordered=["list"]) is (what in SAME)


def test_rows_that_only_hold_floats_are_told_apart_by_any_of_them(spark: SparkSession) -> None:
    """The first numbers are the same up to rounding, and stand in another order on each side."""
    rows = "SELECT * FROM VALUES ({}, 5D), ({}, 7D) AS t(s, a)"
    one, other = (
        spark.sql(rows.format(*pair)) for pair in (("0.30000000000000004D", "0.3D"), ("0.3D", "0.30000000000000004D"))
    )
    assert compare(one, other).missing == 0
    assert compare(one, spark.sql(rows.format("5D", "0.3D"))).missing > 0


def test_lists_of_any_type_may_be_unordered_and_microseconds_count(spark: SparkSession) -> None:
    one = spark.sql("SELECT array(map('a', 1), map('b', 2)) AS l, TIMESTAMP'2024-01-01 00:00:00.000001' AS at")
    same = spark.sql("SELECT array(map('b', 2), map('a', 1)) AS l, TIMESTAMP'2024-01-01 00:00:00.000001' AS at")
    later = spark.sql("SELECT array(map('a', 1), map('b', 2)) AS l, TIMESTAMP'2024-01-01 00:00:00.000002' AS at")
    assert alike(one, same, unordered=["l"])
    assert compare(one, same, unordered=["l"]).missing == 0
    for other, unordered in ((later, ["l"]), (same, [])):
        assert not alike(one, other, unordered=unordered)
        assert compare(one, other, unordered=unordered).missing == 1


def test_exact_columns_alone_and_floating_columns_alone(spark: SparkSession) -> None:
    exact, floating = spark.sql("SELECT 1 AS a, map('k', 1) AS m"), spark.sql("SELECT 2.5D AS d UNION ALL SELECT 2.5D")
    for frame, other in ((exact, spark.sql("SELECT 1 AS a, map('k', 2) AS m")), (floating, floating.distinct())):
        assert alike(frame, frame)
        assert compare(frame, frame).missing == 0
        assert not alike(frame, other)
        assert compare(frame, other).missing == 1


def corrected(spark: SparkSession, expected: str, actual: str, closed: list[str], unordered: list[str]) -> list[tuple]:
    rows, held = correction(spark.sql(expected), spark.sql(actual), closed, unordered)
    found = sorted(tuple(row) for row in rows.collect())
    held.unpersist()
    return found


def test_a_correction_replaces_what_really_differs_and_leaves_the_rest_with_its_rounding(spark: SparkSession) -> None:
    """Group 1 is rounded otherwise, 2 is wrong, 3 is missing, 4 has an open value of its own, 5 a copy too many."""
    expected = "VALUES (1, 0.3D, 'a'), (2, 2D, 'b'), (3, 3D, 'c'), (4, 4D, 'd'), (5, 5D, 'e') AS t(k, d, open)"
    actual = (
        "VALUES (1, 0.1D + 0.2D, 'a'), (2, 2.5D, 'x'), (4, 4D, 'other'), (5, 5D, 'e'), (5, 5D, 'e') AS t(k, d, open)"
    )
    found = corrected(spark, f"SELECT * FROM {expected}", f"SELECT * FROM {actual}", ["k", "d"], [])
    assert found == [(2, 2.0, "b", 1), (2, 2.5, "x", -1), (3, 3.0, "c", 1), (5, 5.0, "e", -1)]


def test_a_correction_of_exact_rows_is_their_difference(spark: SparkSession) -> None:
    expected = "SELECT * FROM VALUES (1, 'a'), (1, 'a'), (NULL, NULL) AS t(k, s)"
    actual = "SELECT * FROM VALUES (1, 'a'), (2, NULL), (NULL, NULL), (NULL, NULL) AS t(k, s)"
    rows, held = correction(spark.sql(expected), spark.sql(actual), ["k", "s"])
    assert {tuple(row) for row in rows.collect()} == {(1, "a", 1), (2, None, -1), (None, None, -1)}
    held.unpersist()


def test_a_correction_does_not_mind_an_open_order_but_minds_the_elements(spark: SparkSession) -> None:
    expected = "SELECT * FROM VALUES (1, array(1, 2)), (2, array(1, 2)) AS t(k, l)"
    actual = "SELECT * FROM VALUES (1, array(2, 1)), (2, array(1, 1)) AS t(k, l)"
    found = corrected(spark, expected, actual, ["k", "l"], ["l"])
    assert found == [(2, [1, 1], -1), (2, [1, 2], 1)]


def test_without_a_closed_column_only_the_number_of_rows_counts(spark: SparkSession) -> None:
    one, two = "SELECT 1 AS a", "SELECT explode(array(2, 3)) AS a"
    assert corrected(spark, one, "SELECT 5 AS a", [], []) == []
    assert corrected(spark, one, two, [], []) == [(1, 1), (2, -1), (3, -1)]
