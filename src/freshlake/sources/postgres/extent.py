"""How large a table is, and its parts: ranges of blocks that can be copied side by side under one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.naming import quoted
from freshlake.sources.postgres.tables import Captured

if TYPE_CHECKING:
    import psycopg

_SIZE = "SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM unnest(%s::oid[]) AS t (oid)"
_BLOCKS = """
SELECT n.nspname::text, c.relname::text,
       pg_relation_size(c.oid) / current_setting('block_size')::bigint, current_setting('block_size')::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%s::oid[]) ORDER BY c.oid
"""


@dataclass(frozen=True)
class Part:
    """Blocks of one table that holds rows; without `last` all from `first` on."""

    number: int
    relation: str
    first: int
    last: int | None

    def query(self, captured: Captured) -> str:
        """The rows of this part, each with weight 1."""
        columns = ", ".join(quoted(name) for name in captured.names)
        upto = "" if self.last is None else f" AND ctid < '({self.last},0)'::tid"
        return f"SELECT 1, {columns} FROM ONLY {self.relation} WHERE ctid >= '({self.first},0)'::tid{upto}"


def table_bytes(cursor: psycopg.Cursor[Any], captured: Captured) -> int:
    """How much room the rows take in the database."""
    (size,) = cursor.execute(_SIZE, [_holders(captured)]).fetchone() or (0,)
    return int(size)


def parts_of(cursor: psycopg.Cursor[Any], captured: Captured, part_bytes: int) -> list[Part]:
    """All of a table in parts of about so many bytes.

    A row that a snapshot sees stays where it is, and what is added later is not seen, so parts that are worked out once
    hold every row of the snapshot exactly once.
    """
    parts: list[Part] = []
    for schema, name, blocks, block_bytes in cursor.execute(_BLOCKS, [_holders(captured)]).fetchall():
        relation = f"{quoted(schema)}.{quoted(name)}"
        step = max(1, part_bytes // block_bytes)
        starts = range(0, max(1, blocks), step)
        for first in starts:
            last = None if first + step >= blocks else first + step
            parts.append(Part(len(parts), relation, first, last))
    return parts


def _holders(captured: Captured) -> list[int]:
    """A partitioned table has its rows in its partitions."""
    return [partition.oid for partition in captured.table.partitions] or [captured.oid]
