"""Drop stream tables: their rows, their capture, and whatever else was made for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.errors import StreamTableInUse
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine
from freshlake.refresh.leasing import leased
from freshlake.service.announce import Announcer
from freshlake.service.capture_modes import CaptureModes
from freshlake.service.captures import Captures
from freshlake.service.deliveries import Deliveries
from freshlake.service.names import Names


@dataclass
class Dropping:
    engine: Engine
    names: Names
    announcer: Announcer
    captures: Captures
    modes: CaptureModes
    deliveries: Deliveries

    def __post_init__(self) -> None:
        self.captures.dropped = self.announcer.dropped

    def drop(self, target: TableName, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a stream table; with `cascade` its readers and deliveries too.

        Nobody refreshes any of them meanwhile, so either all of them go, or, if somebody does for too long, none.
        """
        table = self.engine.catalog.find(target) if if_exists else self.engine.catalog.get(target)
        if table is None:
            return
        while True:
            tables = self._with_readers(table)
            self._check(table, tables, cascade)
            ids = {one.id for one in tables}
            with leased(self.engine, ids, wait_seconds=self.engine.settings.immediate_wait_seconds):
                if {one.id for one in self._with_readers(table)} <= ids:
                    self._drop(tables)
                    return

    def _with_readers(self, table: StreamTable) -> list[StreamTable]:
        """A table after all that read it, directly or through others, each after its own readers."""
        known, name = graph(self.engine.catalog), str(table.full_name)
        names = reversed(known.order({name, *known.downstream(name)}))
        return [found for found in map(self.engine.catalog.find, names) if found is not None]

    def _check(self, table: StreamTable, tables: Sequence[StreamTable], cascade: bool) -> None:
        if cascade:
            return
        if len(tables) > 1:
            readers = self.engine.catalog.dependents(table.source_key)
            raise StreamTableInUse(
                f"stream table {table.full_name.short} is read by {', '.join(r.full_name.short for r in readers)}",
                hint="drop those first, or drop with cascade",
            )
        if delivered := self.engine.catalog.deliveries(table.id):
            raise StreamTableInUse(
                f"stream table {table.full_name.short} is delivered to {', '.join(d.full_target for d in delivered)}",
                hint="end those deliveries first, or drop with cascade",
            )

    def _drop(self, tables: Sequence[StreamTable]) -> None:
        for known in (known for table in tables for known in self.engine.catalog.deliveries(table.id)):
            self.deliveries.forget(known)
        for table in tables:
            # a mirror goes with the last of its readers
            if self.engine.catalog.find(table.full_name) is not None:
                self.remove(table)

    def remove(self, table: StreamTable) -> None:
        """Remove a table and all that was made for it; mirrors that it alone has read go, too."""
        if table.is_mirror:
            self.captures.drop([table])
            return
        edges = self.engine.catalog.dependencies(table.id)
        self._forget(table)
        self.captures.unread(upstreams(edges))
        if table.requested_cdc_mode is not None:
            self.modes.follow(edges)

    def _forget(self, table: StreamTable) -> None:
        self.engine.layout.doom(table.storage_id)
        self.engine.catalog.delete(table.id)
        self.announcer.dropped(table)
        self.names.hide(table)
        self.engine.forget(table)
        self.engine.ddl += 1
        self.engine.layout.remove(table.storage_id)


def upstreams(edges: Sequence[Dependency]) -> list[str]:
    """The stream tables that these edges lead to, among them mirrors."""
    return [edge.source_name for edge in edges if edge.stream_table_id is not None]
