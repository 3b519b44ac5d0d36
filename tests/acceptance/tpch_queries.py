"""TPC-H data and query texts from DuckDB's extension, written as Delta tables; nothing of it is in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
from deltalake import write_deltalake
from duckdb_extensions import import_extension

NUMBERS = (1, 3, 5, 6, 10, 12, 14, 19)
TABLES = ("customer", "lineitem", "nation", "orders", "part", "region", "supplier")

# A stream table holds all rows; the first ten or twenty are a matter of the query that reads it. ORDER BY alone is
# accepted and has no meaning for a stored table.
_LIMITED = (3, 10)


def generate(scale: float) -> duckdb.DuckDBPyConnection:
    """A database with the TPC-H tables at a scale."""
    import_extension("tpch")
    database = duckdb.connect()
    database.execute("LOAD tpch")
    database.execute(f"CALL dbgen(sf={scale})")
    return database


def query(database: duckdb.DuckDBPyConnection, number: int) -> str:
    """A query's text, which Spark understands as it is, without ORDER BY … LIMIT."""
    found = database.execute("SELECT query FROM tpch_queries() WHERE query_nr = ?", [number]).fetchone()
    assert found is not None
    text = str(found[0]).strip().rstrip(";")
    return text[: text.rindex("ORDER BY")] if number in _LIMITED else text


def write(database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Every table as a Delta table of its name below the folder."""
    for table in TABLES:
        rows: Any = database.execute(f"SELECT * FROM {table}").to_arrow_reader(200_000)
        write_deltalake(folder / table, rows)
