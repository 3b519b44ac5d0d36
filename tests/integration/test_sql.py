"""In fl.sql the name of a stream table means its published state at the moment of the call, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, bag, orders, rows


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    """`totals` and `sales.totals` are stream tables ahead of their last fold, `other.totals` is a plain table."""
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        lake.sql("CREATE SCHEMA sales")
        lake.sql("CREATE SCHEMA other")
        lake.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
        lake.create_stream_table("sales.totals", "SELECT region, count(*) AS n FROM default.orders GROUP BY region")
        lake.sql("CREATE TABLE other.totals (region STRING, word STRING) USING delta")
        lake.sql("INSERT INTO other.totals VALUES ('north', 'plain')")
        lake.sql("INSERT INTO orders VALUES (8, 'east', 40), (9, 'north', 1)")
        lake.refresh_all()
        yield lake


def values(fl: Freshlake, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in fl.sql(query).collect()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT total FROM totals WHERE region = 'east'", [(40,)]),
        ("SELECT totals.total FROM totals WHERE totals.region = 'east'", [(40,)]),
        ("SELECT t.total FROM totals t WHERE t.region = 'east'", [(40,)]),
        ("SELECT totals.total FROM default.totals WHERE region = 'east'", [(40,)]),
        ("SELECT default.totals.total FROM default.totals WHERE region = 'east'", [(40,)]),
        ("SELECT x.total FROM spark_catalog.default.totals AS x WHERE region = 'east'", [(40,)]),
        ("SELECT `total` FROM `default`.`totals` WHERE region = 'east'", [(40,)]),
        ("SELECT TOTAL FROM Totals WHERE REGION = 'east'", [(40,)]),
        ("SELECT n FROM sales.totals WHERE region = 'north'", [(3,)]),
        ("SELECT totals.n, sales.totals.region FROM sales.totals WHERE totals.region = 'north'", [(3, "north")]),
        ("SELECT word FROM other.totals", [("plain",)]),
        ("SELECT a.total, b.n FROM totals a JOIN sales.totals b ON a.region = b.region WHERE b.n = 3", [(16, 3)]),
        ("SELECT a.total, b.n FROM totals a, sales.totals b WHERE a.region = b.region AND b.n = 3", [(16, 3)]),
        ("SELECT s.n, w.word FROM sales.totals s JOIN other.totals w USING (region)", [(3, "plain")]),
        ("SELECT o.id FROM orders o JOIN totals t ON o.region = t.region WHERE t.total = 40", [(8,)]),
        ("SELECT id FROM orders WHERE region IN (SELECT region FROM totals WHERE total = 40)", [(8,)]),
        (
            "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM sales.totals t WHERE t.region = o.region AND n = 1) "
            "ORDER BY id",
            [(4,), (8,)],
        ),
        ("SELECT (SELECT max(total) FROM totals) AS m", [(40,)]),
        ("WITH t AS (SELECT * FROM totals) SELECT total FROM t WHERE region = 'east'", [(40,)]),
        ("WITH totals AS (SELECT 7 AS total) SELECT total FROM totals", [(7,)]),
        ("SELECT sum(total) FROM (SELECT * FROM totals UNION ALL TABLE totals)", [(130,)]),
        ("FROM totals |> WHERE region = 'east' |> SELECT total", [(40,)]),
        ("SELECT count(*) FROM totals", [(4,)]),
        ("SELECT total AS totals FROM totals ORDER BY totals DESC LIMIT 1", [(40,)]),
        ("SELECT region /* from totals */ FROM totals -- from sales.totals\nWHERE total = 40", [("east",)]),
        ("SELECT total FROM IDENTIFIER('totals') WHERE IDENTIFIER('totals.region') = 'east'", [(40,)]),
        ("SELECT 'from totals' AS x FROM totals LIMIT 1", [("from totals",)]),
    ],
)
def test_a_stream_table_can_stand_wherever_a_table_can(
    fl: Freshlake, query: str, expected: list[tuple[object, ...]]
) -> None:
    assert values(fl, query) == expected


def test_the_current_schema_decides_what_a_bare_name_means(fl: Freshlake) -> None:
    for schema, column in (("sales", "n"), ("other", "word"), ("default", "total")):
        fl.sql(f"USE {schema}")
        assert fl.sql("SELECT * FROM totals").columns == ["region", column]
        assert fl.table("totals").columns == ["region", column]
        assert values(fl, "SELECT n FROM sales.totals WHERE region = 'north'") == [(3,)]


def test_a_statement_reads_the_records_of_the_tables_that_it_mentions(
    fl: Freshlake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fl.sql("SELECT 1")
    found: list[str] = []
    catalog, find = fl._engine.catalog, fl._engine.catalog.find
    monkeypatch.setattr(catalog, "stream_tables", lambda *_: pytest.fail("the records of all tables were read"))
    monkeypatch.setattr(catalog, "find", lambda name: found.append(str(name)) or find(name))
    assert values(fl, "SELECT count(*) FROM orders") == [(7,)]
    assert not found
    assert values(fl, "SELECT total FROM totals WHERE region = 'east'") == [(40,)]
    assert {*found} == {"default.totals", "sales.totals"}
    fl.sql("INSERT INTO other.totals SELECT 'none', 'plain' WHERE false")


def test_the_session_is_left_as_it_was(fl: Freshlake) -> None:
    fl.sql("SELECT * FROM totals JOIN sales.totals USING (region)")
    assert not [t.name for t in fl.spark.catalog.listTables() if t.isTemporary]
    with pytest.raises(e.InvalidQuery):
        fl.sql("SELECT nothing FROM totals")
    assert not [t.name for t in fl.spark.catalog.listTables() if t.isTemporary]


def test_plain_spark_sees_the_last_fold(fl: Freshlake) -> None:
    assert fl.spark.table("totals").count() == 3
    fl.fold("totals")
    assert fl.spark.table("totals").count() == 4
    assert fl.spark.table("totals").columns == ["region", "total"]


def test_a_result_stays_as_it_was_when_the_table_moves_on(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE moving (a INT) USING delta")
    fl.sql("INSERT INTO moving VALUES (1), (1)")
    fl.create_stream_table("moved", "SELECT a FROM moving")
    held = [fl.table("moved"), fl.sql("SELECT * FROM moved"), fl.sql("SELECT a FROM default.moved m WHERE a = 1")]
    before = bag([(1,), (1,)])
    for change in ("INSERT INTO moving VALUES (1)", "DELETE FROM moving"):
        fl.sql(change)
        fl.refresh("moved", mode="DIFFERENTIAL" if "INSERT" in change else None)
        assert all(bag(tuple(r) for r in frame.collect()) == before for frame in held)
    fl.fold("moved")
    assert all(bag(tuple(r) for r in frame.collect()) == before for frame in held)
    assert not rows(fl, "moved")


def test_a_table_made_from_a_stream_table_is_a_copy(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE kept USING delta AS SELECT * FROM totals")
    fl.sql("CREATE TABLE kept_too USING delta AS SELECT t.region, n FROM sales.totals t")
    assert rows(fl, "kept") == rows(fl, "totals")
    assert rows(fl, "kept_too") == rows(fl, "sales.totals")
    fl.sql("INSERT INTO kept TABLE totals")
    assert rows(fl, "SELECT count(*) FROM kept") == rows(fl, "SELECT 8L")
    fl.sql("DROP TABLE kept")
    fl.sql("DROP TABLE kept_too")


def test_a_view_over_a_stream_table_follows_its_refreshes(fl: Freshlake, tmp_path: Path) -> None:
    fl.sql("CREATE TABLE ticks (a INT) USING delta")
    fl.create_stream_table("sums", "SELECT count(*) AS n, sum(a) AS s FROM ticks")
    fl.sql("CREATE VIEW twice AS SELECT n, 2 * s AS twice FROM sums")
    fl.sql("CREATE VIEW sales.thrice AS SELECT n, twice * 1.5 AS thrice FROM twice")
    fl.create_stream_table("over_view", "SELECT n FROM twice WHERE n > 0")
    for n in (1, 2):
        fl.sql("INSERT INTO ticks VALUES (10)")
        fl.refresh_all()
        assert values(fl, "SELECT n, twice FROM twice") == [(n, 20 * n)]
        assert values(fl, "SELECT cast(thrice AS INT) FROM sales.thrice") == [(30 * n,)]
        assert values(fl, "SELECT t.n FROM twice t JOIN sums s ON t.n = s.n") == [(n,)]
        assert values(fl, "SELECT n FROM over_view") == [(n,)]
    assert fl.table("twice").columns == ["n", "twice"]
    with freshlake.connect(fl.path) as again:
        assert values(again, "SELECT cast(thrice AS INT) FROM sales.thrice") == [(60,)]
    fl.sql("CREATE TEMPORARY VIEW passing AS SELECT s FROM sums")
    fl.sql("INSERT INTO ticks VALUES (10)")
    fl.refresh("sums")
    assert values(fl, "SELECT * FROM passing") == [(20,)]  # the rows at the moment it was made
    fl.sql("DROP VIEW passing")


def test_a_cached_query_keeps_the_rows_of_its_moment(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE cached_source (a INT) USING delta")
    fl.create_stream_table("counted", "SELECT count(*) AS n FROM cached_source")
    fl.sql("INSERT INTO cached_source VALUES (1)")
    fl.refresh("counted")
    for cache in ("CACHE LAZY TABLE cached AS", "CACHE TABLE cached"):
        fl.sql(f"{cache} SELECT n FROM counted")
        assert values(fl, "SELECT n FROM cached") == [(1,)]
        fl.sql("UNCACHE TABLE cached")
        assert values(fl, "SELECT n FROM cached") == [(1,)]
        fl.sql("DROP VIEW cached")


def test_a_statement_in_a_string_is_refused(fl: Freshlake) -> None:
    for inner in ("SELECT total FROM totals", "DROP VIEW totals"):
        with pytest.raises(e.Unsupported):
            fl.sql(f"EXECUTE IMMEDIATE '{inner}'")
    assert values(fl, "SELECT total FROM totals WHERE region = 'east'") == [(40,)]


def test_a_view_with_names_for_its_columns_shows_these(fl: Freshlake) -> None:
    fl.sql("CREATE VIEW named (area, `sum of it` COMMENT 'all', area2) AS SELECT region, total, region FROM totals --")
    fl.sql("CREATE VIEW listed (x) AS SELECT id FROM orders")
    fl.create_stream_table("over_listed", "SELECT x FROM listed WHERE x > 3")
    fl.sql("CREATE VIEW over_named AS SELECT `sum of it` AS s FROM named WHERE area = 'east'")
    fl.sql("CREATE OR REPLACE VIEW listed (x) AS SELECT id FROM orders")
    assert str(fl.refresh("over_listed").action) == "NO_DATA"
    assert fl.sql("SELECT * FROM named").columns == ["area", "sum of it", "area2"]
    assert values(fl, "SELECT `sum of it`, area2 FROM named WHERE area = 'east'") == [(40, "east")]
    assert values(fl, "SELECT s FROM over_named") == [(40,)]
    with freshlake.connect(fl.path, settings=ANY_SHARE) as again:
        assert values(again, "SELECT s FROM over_named") == [(40,)]
        assert again.sql("SELECT * FROM listed").columns == ["x"]
        assert str(again.refresh("over_listed").action) == "NO_DATA"


def test_a_view_with_names_for_its_columns_goes_without_columns_that_are_added_later(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE growing (a INT) USING delta")
    fl.sql("CREATE VIEW grown (b) AS SELECT * FROM growing")
    fl.sql("ALTER TABLE growing ADD COLUMN c INT")
    with freshlake.connect(fl.path, settings=ANY_SHARE) as again:
        assert again.sql("SELECT * FROM grown").columns == ["b"]


def test_changes_are_weighted_rows(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE pairs (a INT, b INT) USING delta")
    fl.sql("INSERT INTO pairs VALUES (1, 1), (1, 1), (2, NULL)")
    fl.create_stream_table("pair_copy", "SELECT a, b FROM pairs")
    fl.sql("DELETE FROM pairs WHERE a = 1")
    fl.refresh("pair_copy")
    fl.sql("INSERT INTO pairs VALUES (3, 3), (1, 1)")
    fl.refresh("pair_copy")
    assert bag(tuple(r) for r in fl.changes("pair_copy", since=1).collect()) == bag([(1, 1, -1), (3, 3, 1)])
    assert bag(tuple(r) for r in fl.changes("pair_copy", since=2).collect()) == bag([(1, 1, 1), (3, 3, 1)])
    assert fl.changes("pair_copy", since=3).columns == ["a", "b", "__fl_weight"]
    assert not fl.changes("pair_copy", since=3).collect()


def test_columns_with_any_name_come_out_as_they_went_in(fl: Freshlake) -> None:
    query = "SELECT region, count(*), sum(amount), 1 AS `odd name, with; signs=` FROM orders GROUP BY region"
    fl.create_stream_table("odd", query)
    assert fl.table("odd").columns == fl.sql(query).columns
    assert values(fl, "SELECT `odd name, with; signs=` FROM odd WHERE `count(1)` = 3 AND `sum(amount)` = 16") == [(1,)]
    fl.create_stream_table("odder", "SELECT `count(1)` + 1 AS more FROM odd")
    fl.sql("INSERT INTO orders VALUES (90, 'odd', 1)")
    fl.refresh_all()
    assert fl.verify("odd").equal
    assert fl.verify("odder").equal
    fl.sql("DELETE FROM orders WHERE id = 90")
    fl.refresh_all()
