"""What one refresh reads: sources between two pinned positions, and stored nodes at pinned versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freshlake.catalog.records import StreamTable
from freshlake.sources.protocol import Position, Source
from freshlake.storage.table import ChangeLogged, FoldPoint


@dataclass(frozen=True)
class SourceSpan:
    """A source from `start` (None before the first load) to `end`."""

    source: Source
    start: Position | None
    end: Position

    @property
    def rows(self) -> int | None:
        """How many rows the source has at the end, if its metadata knows."""
        return self.source.row_count(self.end)


def spans_of(table: StreamTable, sources: Mapping[str, Source], heads: Mapping[str, Position]) -> dict[str, SourceSpan]:
    """What a table has to read of each source; one that its frontier does not name has no start."""
    known = (table.frontier or {}).get("sources", {})
    starts = {key: Position.from_json(known[key]) if key in known else None for key in sources}
    return {key: SourceSpan(source, starts[key], heads[key]) for key, source in sources.items()}


SMALL_ROWS = 100_000
"""Reading all of so few rows costs less than preparing to read many."""


def are_small(spans: Iterable[SourceSpan]) -> bool:
    """Whether the whole of the sources is small work."""
    total = 0
    for span in spans:
        rows = span.rows
        if rows is None or total + rows > SMALL_ROWS:
            return False
        total += rows
    return True


@dataclass(frozen=True)
class StoredNode:
    """A stored node as the stream table last committed it."""

    table: ChangeLogged
    version: int
    fold: FoldPoint | None


@dataclass(frozen=True)
class Inputs:
    spans: Mapping[str, SourceSpan]
    nodes: Mapping[str, StoredNode]
