"""What one refresh reads: sources between two pinned positions, and stored nodes at pinned versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from freshlake.sources.protocol import Position, Source
from freshlake.storage.table import ChangeLogged, FoldPoint


@dataclass(frozen=True)
class SourceSpan:
    """A source from `start` (None before the first load) to `end`."""

    source: Source
    start: Position | None
    end: Position


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
