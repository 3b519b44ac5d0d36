"""Which units of a tick have nothing to do: no source of theirs has moved, so no refresh has to find that out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from freshlake.catalog.records import Dependency, StreamTable
from freshlake.refresh.engine import Engine
from freshlake.refresh.roots import stands_at
from freshlake.schedule.state import Unit
from freshlake.service.rounds import Round, committed

Edges = Mapping[str, tuple[Dependency, ...]]


@dataclass
class Idleness:
    engine: Engine

    def idle(
        self, units: Sequence[Unit], moment: Round, edges: Edges, left: frozenset[str] = frozenset()
    ) -> dict[int, list[StreamTable]]:
        """Units by their number, with their tables; upstreams come first, so a unit below a busy one is busy.

        What a worker that is gone has left is not idle: there may be something to finish.
        """
        wanted = {name for unit in units for name in unit.tables}
        reads = {e.stream_table_id for name in wanted for e in edges.get(name, ()) if e.stream_table_id is not None}
        names = self.engine.catalog.ids_of(wanted)
        tables = self.engine.catalog.stream_tables_by_id({*names.values(), *reads})
        unchanged = self.engine.unchanged_names()
        found: dict[int, list[StreamTable]] = {}
        quiet: set[int] = {i for i in tables if i not in set(names.values())}
        for number, unit in enumerate(units):
            members = [tables[names[name]] for name in unit.tables if name in names and names[name] in tables]
            stands = {t.id for t in members} | quiet
            if (
                len(members) == len(unit.tables)
                and left.isdisjoint(unit.tables)
                and all(
                    self._is_quiet(t, edges.get(str(t.full_name), ()), moment, tables, stands) and unchanged(t)
                    for t in members
                )
            ):
                found[number] = members
                quiet |= {t.id for t in members}
        return found

    def _is_quiet(
        self,
        table: StreamTable,
        edges: Sequence[Dependency],
        moment: Round,
        tables: Mapping[int, StreamTable],
        quiet: set[int],
    ) -> bool:
        seen_by_readers = (table.generation, table.version) == (table.published_generation, table.published_version)
        if not table.is_populated or table.needs_reinit or table.frontier is None or not seen_by_readers:
            return False
        heads = {}
        for edge in edges:
            if edge.stream_table_id is None:
                head = moment.pins.get(edge.source_key)
            else:
                upstream = tables.get(edge.stream_table_id)
                head = committed(upstream) if upstream is not None and upstream.id in quiet else None
            if head is None:
                return False
            heads[edge.source_key] = head
        return stands_at(table, heads)
