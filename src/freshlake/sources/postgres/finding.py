"""Tables by the names that queries of the lake use, which do not tell upper from lower case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from freshlake.errors import InvalidName
from freshlake.sources.postgres.describe import describe, table_names
from freshlake.sources.postgres.server import Server
from freshlake.sources.postgres.tables import Table

if TYPE_CHECKING:
    import psycopg


def find_table(cursor: psycopg.Cursor[Any], server: Server, name: str) -> Table:
    """The table `schema.table`, in this case or in another if only one is called so; raises TableNotFound."""
    names = table_names(cursor)
    like = [found for found in names if found.lower() == name.lower()]
    if name not in like and len(like) > 1:
        raise InvalidName(
            f"{name} may be any of {', '.join(like)}",
            detail="names in the lake do not tell upper from lower case",
            hint="rename all but one of them in the database",
        )
    exact = name if name in like or not like else like[0]
    return describe(cursor, server, [exact])[exact]


def check_columns(cursor: psycopg.Cursor[Any], server: Server, columns: Sequence[str]) -> None:
    """Raise TableNotFound, UnsupportedType … unless each `schema.table.column` is there."""
    names = table_names(cursor)
    for column in columns:
        if column.count(".") < 2:
            raise InvalidName(f"'{column}' is not a column of a database", hint="write schema.table.column")
        # all names may have dots; a partition is not among the tables
        like = [name for name in names if column.startswith(f"{name}.")]
        name = max(like, key=len, default=column.rpartition(".")[0])
        table = describe(cursor, server, [name])[name]
        table.column(column.removeprefix(f"{table.full_name}."))
