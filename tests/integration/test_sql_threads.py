"""Threads of a user share one Spark session, with its temporary views and its current schema."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake.lake import Freshlake
from tests.integration.beside import LONGEST, Beside, Watched
from tests.integration.lakes import ANY_SHARE, orders, rows


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    """`totals` is ahead of its last fold; `sales.doubled` is a view over it."""
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        lake.sql("CREATE SCHEMA sales")
        lake.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
        lake.sql("INSERT INTO orders VALUES (8, 'east', 40)")
        lake.refresh("totals")
        lake.sql("CREATE FUNCTION sales.twice(x BIGINT) RETURNS BIGINT RETURN 2 * x")
        lake.sql("USE sales")
        lake.sql("CREATE VIEW doubled AS SELECT region, twice(total) AS doubled FROM default.totals")
        lake.sql("USE default")
        yield lake


def test_a_thread_that_analyzes_keeps_its_views_while_another_one_reads(
    fl: Freshlake, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, beside, it_came = "SELECT total FROM totals WHERE region = 'east'", [], threading.Event()
    in_spark = fl._names.in_spark

    def between(text: str) -> str:
        """The views are made, and the text is not analyzed yet: now the other thread reads as far as it can."""
        if not beside:
            beside.append(Beside(lambda: fl.sql(query).collect(), it_came))
            assert it_came.wait(LONGEST)
        return in_spark(text)

    monkeypatch.setattr(fl._sql.shown, "_alone", Watched(it_came))
    monkeypatch.setattr(fl._names, "in_spark", between)
    assert [tuple(row) for row in fl.sql(query).collect()] == [(40,)]
    assert [tuple(row) for row in beside[0].returned()] == [(40,)]


def test_nobody_waits_for_a_write_that_reads_stream_tables(fl: Freshlake, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out, seen = fl._sql.shown.carried_out, []

    def while_it_writes(plan: Any) -> DataFrame:
        seen.append(Beside(lambda: rows(fl, "totals")).returned())
        return carried_out(plan)

    monkeypatch.setattr(fl._sql.shown, "carried_out", while_it_writes)
    fl.sql("CREATE TABLE copied USING delta AS SELECT * FROM totals")
    fl.sql("INSERT INTO copied SELECT * FROM totals WHERE region = 'east'")
    fl.sql("MERGE INTO copied c USING totals t ON c.region = t.region WHEN MATCHED THEN UPDATE SET total = -t.total")
    fl.sql("CREATE TABLE counted USING delta AS SELECT explode(array(1, 2, 3)) AS totals")
    fl.sql("UPDATE counted SET totals = totals + 1 WHERE totals < 3")
    fl.sql("DELETE FROM counted WHERE totals = 2")
    assert seen == [rows(fl, "totals")] * 6
    assert rows(fl, "counted") == rows(fl, "VALUES (3), (3)")
    negative = "SELECT region, -total FROM totals"
    assert rows(fl, "copied") == rows(
        fl,
        f"{negative} WHERE region = 'east' UNION ALL {negative} WHERE region IS NOT NULL"
        " UNION ALL SELECT * FROM totals WHERE region IS NULL",
    )


def test_a_temporary_view_of_the_users_comes_back(fl: Freshlake) -> None:
    fl.spark.sql("SELECT 'mine' AS word").createTempView("totals")
    try:
        assert rows(fl, "SELECT total FROM totals WHERE region = 'east'") == rows(fl, "VALUES (40L)")
        assert fl.spark.table("totals").columns == ["word"]
        with pytest.raises(freshlake.errors.InvalidQuery):
            fl.sql("SELECT nothing FROM totals")
        assert fl.spark.table("totals").columns == ["word"]
    finally:
        fl.spark.catalog.dropTempView("totals")


def test_the_current_schema_is_the_users_alone(fl: Freshlake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views and functions are made known in the schemas they were written in; other threads go on meanwhile."""
    with freshlake.connect(fl.path) as again:
        catalog = again._engine.spark.catalog

        def moved(name: str) -> None:
            raise AssertionError(f"the current schema of the user's session became {name}")

        monkeypatch.setattr(catalog, "setCurrentDatabase", moved)
        monkeypatch.setattr(type(again._engine.spark), "catalog", property(lambda session: catalogs(session, catalog)))
        assert rows(again, "SELECT doubled FROM sales.doubled WHERE region = 'east'") == rows(again, "VALUES (80L)")
        assert catalog.currentDatabase() == "default"


def catalogs(session: SparkSession, watched: Any) -> Any:
    from pyspark.sql.catalog import Catalog

    return watched if watched._sparkSession is session else Catalog(session)


def test_a_function_that_another_process_replaced_is_used_by_the_next_call(fl: Freshlake) -> None:
    query = "SELECT doubled FROM sales.doubled WHERE region = 'east'"
    with freshlake.connect(fl.path) as again:
        assert rows(again, query) == rows(again, "SELECT sales.twice(40L)") == rows(again, "VALUES (80L)")
        fl.sql("CREATE OR REPLACE FUNCTION sales.twice(x BIGINT) RETURNS BIGINT RETURN 3 * x")
        assert rows(again, query) == rows(again, "SELECT sales.twice(40L)") == rows(again, "VALUES (120L)")
        again.sql("CREATE OR REPLACE FUNCTION sales.twice(x BIGINT) RETURNS BIGINT RETURN 2 * x")
        assert rows(again, query) == rows(again, "SELECT sales.twice(40L)") == rows(again, "VALUES (80L)")
