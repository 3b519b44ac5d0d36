"""What a mirror holds of its table: the columns that somebody reads."""

from __future__ import annotations

from freshlake.catalog.records import StreamTable
from freshlake.catalog.store import Catalog
from freshlake.sources.postgres.tables import Captured


def held_columns(catalog: Catalog, table: StreamTable) -> frozenset[str] | None:
    """The columns that a mirror has values of; None for any other table, which has all of them."""
    record = catalog.captured_table(table.id) if table.is_mirror else None
    return None if record is None else Captured.from_json(record.captured).shown


def left_out(catalog: Catalog, table: StreamTable) -> frozenset[str]:
    """The columns of a captured table that its mirror has no values of."""
    held = held_columns(catalog, table)
    if held is None or table.output_schema is None:
        return frozenset()
    return frozenset(field["name"] for field in table.output_schema["fields"]) - held
