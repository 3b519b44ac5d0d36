"""TPC-H at scale 0.1: eight queries as strictly differential stream tables, equal to their queries after changes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from tests.acceptance.tpch_queries import NUMBERS, TABLES, generate, query, write

SCALE = 0.1
# 0.1 % of the orders, spread over all of them.
CHOSEN = "pmod(hash({}), 1000) = {}"


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with generate(SCALE) as made:
        yield made


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, database: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Freshlake]:
    folder = tmp_path_factory.mktemp("tpch")
    write(database, folder / "data")
    with freshlake.connect(folder / "lake") as lake:
        for table in TABLES:
            lake.sql(f"CREATE TABLE {table} USING delta LOCATION '{folder}/data/{table}'")
        for number in NUMBERS:
            lake.create_stream_table(f"q{number}", query(database, number), refresh_mode="DIFFERENTIAL")
        yield lake


@pytest.fixture(scope="module")
def refreshed(fl: Freshlake) -> dict[str, RefreshResult]:
    """Delete 0.1 % of the orders with their lineitems, and add copies of another 0.1 % as new orders."""
    before = fl.spark.table("orders").count()
    for table, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
        rest = ", ".join(c for c in fl.spark.table(table).columns if c != key)
        fl.sql(f"INSERT INTO {table} SELECT {key} + 100000000, {rest} FROM {table} WHERE {CHOSEN.format(key, 1)}")
        fl.sql(f"DELETE FROM {table} WHERE {CHOSEN.format(key, 2)}")
    share = abs(fl.spark.table("orders").where("o_orderkey > 100000000").count()) / before
    assert 0.0005 < share < 0.002
    return {result.table.removeprefix("default."): result for result in fl.refresh_all()}


@pytest.mark.parametrize(("number", "column"), [(5, "revenue"), (6, "revenue"), (12, "low_line_count")])
def test_the_first_load_agrees_with_another_engine(
    fl: Freshlake, database: duckdb.DuckDBPyConnection, number: int, column: str
) -> None:
    theirs = database.execute(f"SELECT sum({column}) FROM ({query(database, number)})").fetchone()
    ours = fl.sql(f"SELECT sum({column}) FROM q{number}").first()
    assert ours is not None
    assert theirs is not None
    assert Decimal(ours[0]) == Decimal(str(theirs[0]))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_small_change_is_applied_differentially_and_exactly(
    fl: Freshlake, refreshed: dict[str, RefreshResult], number: int
) -> None:
    result = refreshed[f"q{number}"]
    assert (str(result.action), result.reason) == ("DIFFERENTIAL", None)
    assert fl.verify(f"q{number}").equal
