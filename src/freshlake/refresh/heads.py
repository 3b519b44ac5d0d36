"""The sources of stream tables: where each stands now, and which roots that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from freshlake.catalog.enums import SourceType
from freshlake.catalog.records import Dependency
from freshlake.errors import FreshlakeError, InternalError
from freshlake.refresh import roots
from freshlake.refresh.queries import Queries
from freshlake.refresh.spark_errors import translated
from freshlake.sources.current_time import TimeSource
from freshlake.sources.delta import delta_source
from freshlake.sources.protocol import Position, Source
from freshlake.sources.stream_table import StreamTableSource

Pins = Mapping[str, Position]
"""Heads of plain sources taken once for a whole round, so that all tables of the round read one point in time."""


@dataclass
class Heads(Queries):
    """What it takes to open a source; one per connection, shared by its threads."""

    _sources: dict[str, Source] = field(default_factory=dict)
    captured: Callable[[Dependency], Source] | None = None
    """What a mirror reads."""
    awaited: Callable[[Sequence[Dependency]], str | None] = lambda _: None
    """The columns that mirrors do not have yet and that edges need."""

    def source(self, edge: Dependency) -> Source:
        if edge.source_type is SourceType.STREAM_TABLE:
            assert edge.stream_table_id is not None
            return StreamTableSource(self.catalog, edge.stream_table_id, self.layout.root, edge.source_name)
        if edge.source_type is SourceType.TIME:
            return TimeSource(self.clock, self.spark, edge.columns_used or ())
        if edge.source_type is SourceType.POSTGRES:
            assert self.captured is not None
            return self.captured(edge)
        if edge.source_key not in self._sources:
            self._sources[edge.source_key] = delta_source(edge.source_name, edge.location or edge.source_key)
        return self._sources[edge.source_key]

    def head(self, edge: Dependency) -> Position:
        """The newest position of a source; whatever goes wrong with that is an error of this source."""
        try:
            with translated():
                return self.source(edge).head()
        except FreshlakeError:
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise InternalError(f"source {edge.source_name} could not be looked at", detail=told) from error

    def root_positions(self, heads: Mapping[str, Position]) -> dict[str, Any]:
        """What a frontier at these heads says about the plain tables behind them."""
        return roots.to_json(heads, self.upstream_roots(heads))

    def upstream_roots(self, heads: Mapping[str, Position]) -> dict[str, roots.Roots | None]:
        return {key: self._roots_at(head) for key, head in heads.items() if key.startswith(roots.STREAM)}

    def _roots_at(self, head: Position) -> roots.Roots | None:
        """The roots of a stream table at a version; None when it was written before roots were kept."""
        _, stream_table_id, generation = head.table_id.split(":")
        table = self.catalog.get_by_id(int(stream_table_id))
        if (table.generation, table.version) == (int(generation), head.version):
            return roots.from_json(table.frontier)
        point = self.catalog.point_at(table.id, int(generation), head.version)
        return roots.from_json({"roots": point.roots}) if point is not None else None

    def heads(self, edges: tuple[Dependency, ...], pins: Pins) -> dict[str, Position]:
        """Pinned where the round pinned it, the newest otherwise."""
        return {e.source_key: pins[e.source_key] if e.source_key in pins else self.head(e) for e in edges}

    def pinned(
        self, edges: Iterable[Dependency], unreachable: dict[str, FreshlakeError] | None = None
    ) -> dict[str, Position]:
        """The heads of all plain sources, taken once; why others have none goes to `unreachable`."""
        pins: dict[str, Position] = {}
        failed = {} if unreachable is None else unreachable
        for edge in edges:
            if edge.stream_table_id is None and edge.source_key not in pins and edge.source_key not in failed:
                try:
                    pins[edge.source_key] = self.head(edge)
                except FreshlakeError as error:
                    failed[edge.source_key] = error
        return pins
