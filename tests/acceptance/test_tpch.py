"""All 22 TPC-H queries as strictly differential stream tables, equal to their queries after every round of changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from freshlake.lake import Freshlake
from tests.acceptance.tpc_data import (
    Writer,
    create_all,
    database_of,
    generate,
    lake_of,
    refresh_and_check,
    tables,
    texts,
)
from tests.acceptance.tpch_changes import ROUNDS, change

NUMBERS = tuple(range(1, 23))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with generate("tpch", 0.01) as made:
        yield made


@pytest.fixture(scope="module")
def writer(database: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Writer:
    return Writer(database, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def fl(spark: SparkSession, writer: Writer) -> Iterator[Freshlake]:
    with lake_of(writer.database, writer.folder) as lake:
        create_all(lake, texts(writer.database, "tpch"))
        yield lake


@pytest.fixture(scope="module")
def changed(fl: Freshlake, writer: Writer) -> list[str]:
    change(writer, 0, share=97)
    change(writer, 2, share=97)
    return refresh_and_check(fl)


@pytest.fixture(scope="module")
def other_engine(
    fl: Freshlake, database: duckdb.DuckDBPyConnection, changed: list[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    with database_of(fl, tables(database)) as copied:
        yield copied


def test_every_query_is_refreshed_differentially_and_stays_equal(fl: Freshlake, changed: list[str]) -> None:
    assert len(fl.status()) == len(NUMBERS)
    assert changed == []


@pytest.mark.parametrize("number", NUMBERS)
def test_another_engine_has_the_same_rows(
    fl: Freshlake, database: duckdb.DuckDBPyConnection, other_engine: duckdb.DuckDBPyConnection, number: int
) -> None:
    theirs = other_engine.execute(texts(database, "tpch")[number]).fetchall()
    ours = fl.table(f"q{number}").collect()
    assert theirs, "a query without rows shows nothing"
    for mine, other in zip(_sorted(ours), _sorted(theirs), strict=True):
        assert all(map(_close, mine, other)), (mine, other)


def _sorted(rows: list[Any]) -> list[list[Any]]:
    plain = [[float(v) if isinstance(v, Decimal) else v for v in row] for row in rows]
    return sorted(plain, key=lambda row: ([str(v) for v in row if not isinstance(v, float)], _floats(row)))


def _floats(row: list[Any]) -> list[float]:
    return [round(v, 2) for v in row if isinstance(v, float)]


def _close(mine: Any, other: Any) -> bool:
    """Quotients of decimals have six digits after the point in Spark, and are floating in DuckDB."""
    if isinstance(mine, float):
        return math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(mine == other) and isinstance(mine, str | int | date | None)


@pytest.mark.slow
@pytest.mark.timeout(3600)
class TestFiveRounds:
    """Scale 0.1: orders with their lineitems come and go, and values change in four more tables, in every round."""

    @pytest.fixture(scope="class")
    def writer(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
        with generate("tpch", 0.1) as made:
            yield Writer(made, tmp_path_factory.mktemp("tpch-rounds"))

    @pytest.fixture(scope="class")
    def lake(self, spark: SparkSession, writer: Writer) -> Iterator[Freshlake]:
        with lake_of(writer.database, writer.folder) as lake:
            create_all(lake, texts(writer.database, "tpch"))
            yield lake

    @pytest.mark.parametrize("number", range(ROUNDS))
    def test_every_query_is_refreshed_differentially_and_stays_equal(
        self, lake: Freshlake, writer: Writer, number: int
    ) -> None:
        change(writer, number)
        assert refresh_and_check(lake) == []
