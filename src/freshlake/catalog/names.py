"""Names of tables: `schema.table`, case-insensitive as in Spark, plain identifiers only.

A table of a source database has three parts, `shop.public.orders`. Spark knows schemas of one part only, so there it is
`shop__public.orders`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from freshlake.errors import InvalidName

DEFAULT_SCHEMA = "default"
SESSION_CATALOG = "spark_catalog"
HIDDEN_PREFIX = "__fl_"
SEPARATOR = "__"
"""Between database and schema in the name of a schema that Spark knows."""

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,127}")


@dataclass(frozen=True, order=True)
class TableName:
    """A validated name in lower case."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str, default_schema: str = DEFAULT_SCHEMA) -> TableName:
        """Read `table`, `schema.table`, `spark_catalog.schema.table` or `database.schema.table`; each part may stand in
        backticks."""
        return cls.of([_unquoted(part) for part in text.strip().split(".")], default_schema)

    @classmethod
    def of(cls, parts: Sequence[str], default_schema: str = DEFAULT_SCHEMA) -> TableName:
        """Make a name from its parts, which are checked."""
        text = ".".join(parts)
        parts = [part.lower() for part in parts]
        if len(parts) == 3 and parts[0] == SESSION_CATALOG:
            parts = parts[1:]
        if len(parts) == 1:
            parts = [default_schema.lower(), *parts]
        if len(parts) not in (2, 3):
            raise InvalidName(
                f"'{text}' is not a table name", detail="a name has one part or two, that of a captured table three"
            )
        for part in parts:
            _check(part, text)
        return cls(".".join(parts[:-1]), parts[-1])

    @property
    def database(self) -> str | None:
        """The source database of a captured table; None for a table of the lake."""
        database, dot, _ = self.schema.partition(".")
        return database if dot else None

    @property
    def spark_schema(self) -> str:
        """The schema under which Spark knows the table."""
        return self.schema.replace(".", SEPARATOR)

    @property
    def short(self) -> str:
        """The name as a person writes it: without the default schema."""
        return self.name if self.schema == DEFAULT_SCHEMA else str(self)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def _unquoted(part: str) -> str:
    part = part.strip()
    if len(part) > 1 and part.startswith("`") and part.endswith("`"):
        part = part[1:-1]
    return part


def _check(part: str, text: str) -> None:
    if part.startswith(HIDDEN_PREFIX):
        raise InvalidName(f"'{text}' is not a table name", detail=f"names that start with {HIDDEN_PREFIX} are reserved")
    if not _IDENTIFIER.fullmatch(part):
        reason = "a part is empty" if not part else f"'{part}' is not a plain identifier of at most 128 characters"
        raise InvalidName(f"'{text}' is not a table name", detail=reason)
