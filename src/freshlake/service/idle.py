"""Which stream tables have nothing to do: no source of theirs has moved, so no refresh has to find that out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from freshlake.catalog.idle import Standing
from freshlake.catalog.records import Dependency
from freshlake.refresh.engine import Engine
from freshlake.refresh.heads import Pins
from freshlake.refresh.roots import stands_at
from freshlake.schedule.state import Unit
from freshlake.service.known import Dag
from freshlake.service.moment import Round
from freshlake.sources.protocol import Position
from freshlake.sources.stream_table import position_of


@dataclass
class Idleness:
    engine: Engine

    def idle(
        self, units: Sequence[Unit], moment: Round, dag: Dag, left: frozenset[str] = frozenset()
    ) -> dict[int, list[Standing]]:
        """Units by their number, with their tables; upstreams come first, so a unit below a busy one is busy.

        What a worker that is gone has left is not idle: there may be something to finish.
        """
        tables = self.engine.catalog.standings()
        wanted = {dag.ids[name] for unit in units for name in unit.tables if name in dag.ids}
        unchanged = self.engine.unchanged_names()
        found: dict[int, list[Standing]] = {}
        quiet = {i: table for i, table in tables.items() if i not in wanted}
        for number, unit in enumerate(units):
            members = {name: tables[dag.ids[name]] for name in unit.tables if dag.ids.get(name) in tables}
            # inside a unit one may read the other, which is as it was if all of them are
            quiet |= {table.id: table for table in members.values()}
            complete = len(members) == len(unit.tables) and left.isdisjoint(unit.tables)
            if complete and all(
                self._is_settled(table) and _stands(table, dag.edges[name], moment.pins, quiet) and unchanged(table)
                for name, table in members.items()
            ):
                found[number] = list(members.values())
            else:
                for table in members.values():
                    del quiet[table.id]
        return found

    def _is_settled(self, table: Standing) -> bool:
        """Whether readers see what was last committed, and nothing else has to be done."""
        stands = table.is_populated and not table.needs_reinit and table.frontier is not None and table.is_published
        return stands and self.engine.layout.is_there(table.storage_id, table.generation)

    def behind(self, names: Iterable[str], dag: Dag) -> set[str]:
        """Those of these tables whose sources have moved since they were last refreshed."""
        tables = self.engine.catalog.standings()
        known = {name: tables[dag.ids[name]] for name in names if dag.ids.get(name) in tables}
        loaded = {name: table for name, table in known.items() if table.is_populated and table.frontier is not None}
        pins = self.engine.pinned(edge for name in loaded for edge in dag.edges[name])
        return {name for name, table in loaded.items() if not _stands(table, dag.edges[name], pins, tables)}


def _stands(table: Standing, edges: Sequence[Dependency], pins: Pins, upstreams: Mapping[int, Standing]) -> bool:
    """Whether a table was last refreshed to where its sources are; one that is not known is somewhere else."""
    heads: dict[str, Position] = {}
    for edge in edges:
        upstream = None if edge.stream_table_id is None else upstreams.get(edge.stream_table_id)
        if upstream is not None:
            heads[edge.source_key] = position_of(upstream, upstream.published_generation, upstream.published_version)
        elif edge.source_key in pins:
            heads[edge.source_key] = pins[edge.source_key]
        else:
            return False
    return stands_at(table, heads)
