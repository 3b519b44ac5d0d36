"""Names that are given for a source database: its own, those of its tables, and of columns that are taken as text."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from freshlake.catalog.names import SEPARATOR, TableName
from freshlake.errors import InvalidName
from freshlake.sources.postgres.tables import Table

_log = logging.getLogger("freshlake")

_RESERVED = ("spark_catalog", "delta", "parquet", "default")


def database_name(name: str) -> str:
    """A name for a source; it begins the names of its tables, in the lake and in Spark."""
    parsed = TableName.parse(name, "x")
    word = parsed.name
    if parsed.schema != "x" or SEPARATOR in word or word.endswith("_") or word in _RESERVED or len(word) > 63:
        raise InvalidName(
            f"'{name}' is not a name for a source",
            detail="it is one plain identifier of at most 63 characters, without two underscores in a row",
        )
    return word


def qualified(table: str) -> str:
    if table.count(".") != 1:
        raise InvalidName(f"'{table}' is not a table of a database", hint="write schema.table")
    return table


def taken_as_text(name: TableName, table: Table, columns: Iterable[str]) -> list[str]:
    """The columns that are taken as text; one of them may have been dropped since that was asked for."""
    wanted, there = of_table(table, columns), {column.name.lower() for column in table.columns}
    for column in (column for column in wanted if column.lower() not in there):
        _log.warning("%s has no column %s, which is to be taken as text", name, column)
    return [column for column in wanted if column.lower() in there]


def of_table(table: Table, columns: Iterable[str]) -> list[str]:
    """Those of these columns (`schema.table.column`) that are a table's, by their own names."""
    start = f"{table.full_name}."
    return [column.removeprefix(start) for column in columns if column.startswith(start)]
