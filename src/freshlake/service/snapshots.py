"""Several tables at one point in time: states that all read the same state of every source they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.errors import InvalidArgument, NotAligned, TableNotFound, WaitTimeout
from freshlake.refresh.engine import Engine
from freshlake.refresh.roots import Disagreement, Point, Roots, common, from_json
from freshlake.service.reading import Reading
from freshlake.sources.protocol import Position

_POLL_SECONDS = 0.05
_NEWEST, _MORE = 50, 10
"""So many states of each table are looked at first, and so many times as many each time they are not enough."""


class Snapshot(dict[str, DataFrame]):
    """The tables by the names they were asked for, and the state of the sources that all of them equal."""

    def __init__(self, frames: Mapping[str, DataFrame], roots: Mapping[str, Any]) -> None:
        super().__init__(frames)
        self.roots = dict(roots)


@dataclass
class Snapshots:
    engine: Engine
    reading: Reading
    name: Callable[[str], TableName]

    def snapshot(self, names: Sequence[str]) -> Snapshot:
        """The newest published states that agree; plain tables are read where the stream tables over them stand."""
        if not names:
            raise InvalidArgument("a snapshot needs at least one table")
        found = {name: self.engine.catalog.find(self.name(name)) for name in dict.fromkeys(names)}
        found = {name: None if table is None else self.reading.caught_up(table) for name, table in found.items()}
        streams = {name: table for name, table in found.items() if table is not None}
        chosen = self._agree(streams)
        roots = {key: at for point in chosen.values() for key, at in point.roots.items()}
        frames = {
            name: self.reading.state_at(table, chosen[name].generation, chosen[name].version)
            if table is not None
            else self._plain(name, roots)
            for name, table in found.items()
        }
        return Snapshot(frames, {key: at.to_json() for key, at in sorted(roots.items())})

    def _agree(self, streams: Mapping[str, StreamTable]) -> dict[str, Point]:
        """Tables that are refreshed together agree on their newest states, or on some that are not much older."""
        limit = _NEWEST
        while True:
            points = {name: self._points(table, limit) for name, table in streams.items()}
            chosen = common(points)
            if not isinstance(chosen, Disagreement) or all(len(known) < limit for known in points.values()):
                break
            limit *= _MORE
        if isinstance(chosen, Disagreement):
            raise NotAligned(f"{', '.join(streams)} have no common point in time", detail=self._in_words(chosen))
        return chosen

    def _points(self, table: StreamTable, limit: int) -> list[Point]:
        self.reading.check(table)
        points = self.reading.published_points(table, limit=limit)
        if not points:
            raise NotAligned(
                f"it is not known which states of its sources stream table {table.full_name.short} equals",
                hint="refresh it once",
            )
        return [Point(p.generation, p.version, from_json({"roots": p.roots}) or {}) for p in points]

    def _plain(self, name: str, roots: Roots) -> DataFrame:
        for edge in self._edges():
            if edge.source_key in roots and str(self.name(name)) == edge.source_name:
                return self.engine.source(edge).snapshot(self.engine.spark, roots[edge.source_key])
        raise TableNotFound(
            f"{name} is not a stream table, and none of the others reads it", hint="read it with fl.table"
        )

    def _edges(self) -> list[Dependency]:
        known = self.engine.catalog.all_dependencies().values()
        return [edge for edges in known for edge in edges if edge.stream_table_id is None]

    def _in_words(self, disagreement: Disagreement) -> str:
        names = {edge.source_key: edge.source_name for edge in self._edges()}
        return str(Disagreement(names.get(disagreement.root, disagreement.root), disagreement.positions))

    # Waiting ---------------------------------------------------------------------------------------------------------

    def wait_for(self, table: StreamTable, source: str, version: int | None, timeout: float) -> Position:
        """Wait until readers of a table see a version of a source, its newest by default; returns where it stands."""
        edge = self._source(table, source)
        wanted = self.engine.head(edge)
        if version is not None:
            wanted = Position(wanted.table_id, version, "")
        until = time.monotonic() + timeout
        while True:
            seen = self._seen(table, edge)
            if seen is not None and seen.table_id == wanted.table_id and seen.version >= wanted.version:
                return seen
            if time.monotonic() >= until:
                raise WaitTimeout(
                    f"{table.full_name.short} has not seen version {wanted.version} of {source} after {timeout:g} s",
                    detail=f"it stands at version {seen.version}" if seen else "it has not been loaded",
                )
            time.sleep(_POLL_SECONDS)

    def _source(self, table: StreamTable, source: str) -> Dependency:
        """An edge to a source that the table reads, directly or through others."""
        wanted = {source, str(self.name(source))}
        pending, seen = [table.id], set()
        while pending:
            current = pending.pop()
            for edge in self.engine.catalog.dependencies(current):
                if edge.source_name in wanted or edge.source_key in wanted:
                    return edge
                if edge.stream_table_id is not None and edge.stream_table_id not in seen:
                    seen.add(edge.stream_table_id)
                    pending.append(edge.stream_table_id)
        raise InvalidArgument(f"stream table {table.full_name.short} does not read {source}")

    def _seen(self, table: StreamTable, edge: Dependency) -> Position | None:
        """Where the published state stands; a table that was dropped meanwhile raises."""
        now = self.engine.catalog.get_by_id(table.id)
        if not now.is_populated:
            return None
        point = self.engine.catalog.point_at(now.id, now.published_generation, now.published_version)
        if edge.stream_table_id is None:
            roots = from_json({"roots": point.roots}) if point else None
            return (roots or {}).get(edge.source_key)
        known = (now.frontier or {}).get("sources", {}).get(edge.source_key)
        return Position.from_json(known) if known else None
