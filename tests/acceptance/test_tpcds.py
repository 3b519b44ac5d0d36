"""The 99 TPC-DS queries: all compile and are differential; each stays equal to its query in two rounds of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest
from pyspark.sql import SparkSession

from freshlake.lake import Freshlake
from tests.acceptance.tpc_data import Writer, create_all, lake_of, refresh_and_check, texts
from tests.acceptance.tpcds_changes import first, second
from tests.acceptance.tpcds_data import generate_dense

NUMBERS = tuple(range(1, 100))
# Queries that run FULL, each with the code of its reason.
NOT_DIFFERENTIAL: dict[int, str] = {}
# Windows over grouping sets, and EXCEPT.
SAMPLE = (36, 87)
# Queries that find nothing even in the denser data, or only NULLs and zeros.
WITHOUT_ROWS = {4, 16, 23, 58, 73, 83, 85}


def queries(database: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """DuckDB quotes names with double quotes, which Spark takes for strings; nothing else differs."""
    return {number: text.replace('"', "`") for number, text in texts(database, "tpcds").items()}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with generate_dense() as made:
        yield made


@pytest.fixture(scope="module")
def writer(database: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Writer:
    return Writer(database, tmp_path_factory.mktemp("tpcds"))


@pytest.fixture(scope="module")
def fl(spark: SparkSession, writer: Writer) -> Iterator[Freshlake]:
    with lake_of(writer.database, writer.folder) as lake:
        yield lake


def test_nearly_all_queries_have_rows(database: duckdb.DuckDBPyConnection) -> None:
    found = {number: database.execute(text).fetchall() for number, text in texts(database, "tpcds").items()}
    assert {number for number, rows in found.items() if not any(v for row in rows for v in row)} == WITHOUT_ROWS


@pytest.mark.slow
def test_all_queries_compile_and_are_differential(fl: Freshlake, database: duckdb.DuckDBPyConnection) -> None:
    found = {number: fl.validate(text) for number, text in queries(database).items()}
    assert tuple(found) == NUMBERS
    assert {number: v.reasons[0].code for number, v in found.items() if not v.differential} == NOT_DIFFERENTIAL
    assert len(NUMBERS) - len(NOT_DIFFERENTIAL) >= 95


@pytest.mark.slow
def test_a_sample_is_refreshed_differentially_and_stays_equal(fl: Freshlake, writer: Writer) -> None:
    create_all(fl, {number: queries(writer.database)[number] for number in SAMPLE})
    first(writer)
    second(writer)
    assert refresh_and_check(fl) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
class TestAllQueries:
    @pytest.fixture(scope="class")
    def writer(self, database: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Writer:
        return Writer(database, tmp_path_factory.mktemp("tpcds-all"))

    @pytest.fixture(scope="class")
    def lake(self, spark: SparkSession, writer: Writer) -> Iterator[Freshlake]:
        with lake_of(writer.database, writer.folder) as lake:
            create_all(lake, queries(writer.database))
            yield lake

    @pytest.mark.parametrize("change", [first, second])
    def test_every_query_is_refreshed_differentially_and_stays_equal(
        self, lake: Freshlake, writer: Writer, change: Callable[[Writer], None]
    ) -> None:
        change(writer)
        assert len(lake.status()) == len(NUMBERS)
        assert refresh_and_check(lake) == []
