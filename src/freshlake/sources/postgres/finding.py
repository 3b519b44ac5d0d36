"""Tables by the names that queries of the lake use, which do not tell upper from lower case."""

from __future__ import annotations

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
