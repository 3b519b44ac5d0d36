"""The 99 TPC-DS queries: all compile and are differential; each stays equal to its query in two rounds of changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from freshlake.lake import Freshlake
from tests.acceptance import tpcds_changes as changes
from tests.acceptance.tpc_data import create_all, generate, lake_of, refresh_and_check, texts
from tests.acceptance.tpcds_data import generate_dense

NUMBERS = tuple(range(1, 100))
# Queries that run FULL, each with the code of its reason.
NOT_DIFFERENTIAL: dict[int, str] = {}
# Grouping sets, windows over them, full joins, INTERSECT, EXCEPT, EXISTS beside NOT EXISTS, top-k.
SAMPLE = (16, 36, 51, 87, 97)
GROUPS = tuple(tuple(n for n in NUMBERS if n % 11 == group) for group in range(11))
# Queries that find nothing even in the denser data, or only NULLs and zeros.
WITHOUT_ROWS = frozenset({4, 16, 23, 58, 73, 83, 85})


def queries(database: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """DuckDB quotes names with double quotes, which Spark takes for strings; nothing else differs."""
    return {number: text.replace('"', "`") for number, text in texts(database, "tpcds").items()}


@pytest.fixture(scope="module")
def empty_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with generate("tpcds", 0) as made, lake_of(made, tmp_path_factory.mktemp("tpcds-empty")) as lake:
        yield lake


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with generate_dense() as made:
        yield made


def test_all_queries_compile_and_are_differential(empty_lake: Freshlake, database: duckdb.DuckDBPyConnection) -> None:
    found = {number: empty_lake.validate(text) for number, text in queries(database).items()}
    assert tuple(found) == NUMBERS
    exceptions = {number: v.reasons[0].code for number, v in found.items() if not v.differential}
    assert exceptions == NOT_DIFFERENTIAL
    assert len(NUMBERS) - len(exceptions) >= 95


def test_a_sample_is_refreshed_differentially_and_stays_equal(
    spark: SparkSession, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with lake_of(database, tmp_path) as fl:
        create_all(fl, {number: queries(database)[number] for number in SAMPLE})
        changes.second(fl)
        assert refresh_and_check(fl) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"q{group[0]}-q{group[-1]}")
def test_every_query_is_refreshed_differentially_and_stays_equal(
    spark: SparkSession,
    database: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    group: tuple[int, ...],
) -> None:
    with lake_of(database, tmp_path) as fl:
        create_all(fl, {number: queries(database)[number] for number in group})
        without_rows = {number for number in group if _shows_nothing(fl, number)}
        changes.first(fl)
        problems = refresh_and_check(fl)
        changes.second(fl)
        problems += refresh_and_check(fl)
        assert problems == []
        assert without_rows <= WITHOUT_ROWS


def _shows_nothing(fl: Freshlake, number: int) -> bool:
    rows: list[Any] = fl.table(f"q{number}").limit(100).collect()
    return not any(value for row in rows for value in row)
