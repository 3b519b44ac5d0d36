"""TPC-H and TPC-DS data and query texts from DuckDB's extensions; nothing of them is in the repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable, write_deltalake
from duckdb_extensions import import_extension

import freshlake
from freshlake.lake import Freshlake

_GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def generate(benchmark: str, scale: float) -> duckdb.DuckDBPyConnection:
    """A database with the tables of a benchmark at a scale."""
    import_extension(benchmark)
    database = duckdb.connect()
    database.execute(f"LOAD {benchmark}")
    database.execute(f"CALL {_GENERATORS[benchmark]}(sf={scale})")
    return database


def tables(database: duckdb.DuckDBPyConnection) -> list[str]:
    return [row[0] for row in database.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]


def texts(database: duckdb.DuckDBPyConnection, benchmark: str) -> dict[int, str]:
    """The queries by number, as DuckDB has them."""
    found = database.execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY 1").fetchall()
    return {number: text.strip().rstrip(";") for number, text in found}


def lake_of(database: duckdb.DuckDBPyConnection, folder: Path) -> Freshlake:
    """A lake over Delta tables of the same names, in which no change is too large for a differential refresh.

    Dimensions are small: one store of four is a quarter of its table.
    """
    lake = freshlake.connect(folder / "lake", settings={"differential_max_change_ratio": 0})
    for table in tables(database):
        rows: Any = database.execute(f"SELECT * FROM {table}").to_arrow_reader(200_000)
        write_deltalake(folder / "data" / table, rows, configuration={"delta.enableChangeDataFeed": "true"})
        lake.sql(f"CREATE TABLE {table} USING delta LOCATION '{folder}/data/{table}'")
    return lake


@dataclass(frozen=True)
class Writer:
    """Changes the tables of such a lake without Spark, as other programs do; Spark would take most of a test's time."""

    database: duckdb.DuckDBPyConnection
    folder: Path

    def insert(self, table: str, query: str) -> None:
        """What the query finds among the rows that were generated."""
        rows = self.database.execute(query).to_arrow_table()
        assert rows.num_rows, query
        write_deltalake(self.folder / "data" / table, rows, mode="append")

    def update(self, table: str, values: Mapping[str, str], where: str) -> None:
        done = DeltaTable(self.folder / "data" / table).update(updates=dict(values), predicate=where)
        assert done["num_updated_rows"], where

    def delete(self, table: str, where: str) -> None:
        done = DeltaTable(self.folder / "data" / table).delete(where)
        assert done["num_deleted_rows"], where


def database_of(fl: Freshlake, names: list[str]) -> duckdb.DuckDBPyConnection:
    """The other way round: a database with the lake's tables as they are now."""
    database = duckdb.connect()
    for name in names:
        database.register("rows_now", fl.spark.table(name).toArrow())
        database.execute(f"CREATE TABLE {name} AS FROM rows_now")
        database.unregister("rows_now")
    return database


def create_all(fl: Freshlake, queries: Mapping[int, str]) -> None:
    for number, text in queries.items():
        fl.create_stream_table(f"q{number}", text, refresh_mode="DIFFERENTIAL")


def refresh_and_check(fl: Freshlake) -> list[str]:
    """Refresh everything; what was not differential or is not equal to its query."""
    problems = []
    for result in fl.refresh_all():
        name = result.table.removeprefix("default.")
        if str(result.action) != "DIFFERENTIAL":
            problems.append(f"{name} was refreshed {result.action}: {result.reason}")
        checked = fl.verify(name)
        if not checked.equal or checked.not_compared:
            problems.append(f"{name}: {checked}")
    return problems
