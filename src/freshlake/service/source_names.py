"""Names that are given for a source database and for its tables."""

from __future__ import annotations

from freshlake.catalog.names import SEPARATOR, TableName
from freshlake.errors import InvalidName

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
