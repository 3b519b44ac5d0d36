"""One moment for all tables of a unit: where each of their sources is read, and whether that is what they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from freshlake.catalog.enums import Action, Status
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.errors import FreshlakeError
from freshlake.refresh import roots
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import ROOTS_DISAGREE, Engine
from freshlake.refresh.heads import Pins
from freshlake.refresh.result import RefreshResult
from freshlake.refresh.situation import BLOWN
from freshlake.schedule.state import Tier
from freshlake.sources.protocol import Position
from freshlake.sources.stream_table import position_of

_POINTS = 50
"""So many states of a stream table are looked at to find one of the same moment as others."""


@dataclass
class Pinning:
    engine: Engine

    def pins(self, tables: Sequence[StreamTable], pins: Pins) -> dict[str, Position]:
        """The pins of a round for tables that nobody else moves: none of them goes back, and all go to one place.

        Stream tables outside are pinned too, or each table would find them where others have brought them by then.
        Another scheduler may have brought them, or one of the tables, further than the round began with.
        """
        catalog = self.engine.catalog
        edges = [edge for table in tables for edge in catalog.dependencies(table.id)]
        outside = {name: t for name, t in self._outside(tables, edges).items() if t.source_key not in pins}
        chosen = self._chosen(outside)
        stands = (roots.from_json(table.frontier) or {} for table in catalog.stream_tables_by_id(_ids(tables)).values())
        wanted = roots.furthest(pins, [*stands, *(point.roots for point in chosen.values())])
        found = {
            key: at if at == pins[key] else self._reachable(edges, key, pins[key], at) for key, at in wanted.items()
        }
        streams = {t.source_key: position_of(t, chosen[k].generation, chosen[k].version) for k, t in outside.items()}
        return {**found, **streams}

    def torn(self, tables: Sequence[StreamTable], results: Iterable[RefreshResult]) -> str | None:
        """Why tables that were to be brought to one moment do not show one, although nothing above them rests."""
        skipped = {result.table: result for result in results if result.action is Action.SKIPPED}
        moved = [table for table in tables if str(table.full_name) not in skipped]
        known = self.engine.catalog.stream_tables_by_id(_ids(moved)).values()
        found = roots.disagreement(shown for table in known if (shown := roots.from_json(table.frontier)) is not None)
        told = [str(found)] if found else [r.detail or "" for r in skipped.values() if r.reason == ROOTS_DISAGREE]
        return told[0] if told and not self._rest_above(tables) else None

    def _outside(self, tables: Sequence[StreamTable], edges: Sequence[Dependency]) -> dict[str, StreamTable]:
        """The stream tables that these read and that are not among them."""
        read = {edge.stream_table_id for edge in edges if edge.stream_table_id is not None} - set(_ids(tables))
        found = self.engine.catalog.stream_tables_by_id(read) if read else {}
        return {str(table.full_name): table for table in found.values() if table.is_populated}

    def _chosen(self, outside: Mapping[str, StreamTable]) -> dict[str, roots.Point]:
        """Their newest published states that agree; where there are none, the newest."""
        points = {name: self._points(table) for name, table in outside.items()}
        agreed = roots.common(points)
        return {name: known[0] for name, known in points.items()} if isinstance(agreed, roots.Disagreement) else agreed

    def _points(self, table: StreamTable) -> list[roots.Point]:
        generation, version = table.published_generation, table.published_version
        known = self.engine.catalog.points(table.id, _POINTS)
        seen = [p for p in known if p.generation == generation and p.version <= version]
        found = [roots.Point(p.generation, p.version, roots.from_json({"roots": p.roots}) or {}) for p in seen]
        newest = found[0] if found else None
        if newest is None or newest.version < version:  # of several moments at once, or from before points were kept
            return [roots.Point(generation, version, {})]
        return found

    def _reachable(self, edges: Sequence[Dependency], key: str, pin: Position, wanted: Position) -> Position:
        """A source may have been put back in place of itself since: then it is where the round found it."""
        edge = next((edge for edge in edges if edge.source_key == key), None)
        if edge is None:
            return wanted  # read by nobody here
        try:
            head = self.engine.head(edge)
        except FreshlakeError:
            return pin  # the table that reads it says so
        return wanted if head.table_id == wanted.table_id and head.version >= wanted.version else pin

    def _rest_above(self, tables: Sequence[StreamTable]) -> bool:
        known = graph(self.engine.catalog)
        above = frozenset().union(*(known.upstream(str(table.full_name)) for table in tables))
        return any(_rests(t) for t in self.engine.catalog.stream_tables() if str(t.full_name) in above)


def _rests(table: StreamTable) -> bool:
    """Whether it may stay where it is for long."""
    waits = table.retry_at is not None or table.fuse_state == BLOWN or table.tier == Tier.FROZEN
    return waits or table.shown_status is not Status.ACTIVE


def _ids(tables: Sequence[StreamTable]) -> list[int]:
    return [table.id for table in tables]
