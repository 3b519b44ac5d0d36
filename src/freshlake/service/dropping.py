"""Drop stream tables: their rows, their capture, and whatever else was made for them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.errors import StreamTableInUse
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

    def drop(self, target: TableName, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a stream table; with `cascade` its readers and deliveries too."""
        table = self.engine.catalog.find(target) if if_exists else self.engine.catalog.get(target)
        if table is None:
            return
        readers = self.engine.catalog.dependents(table.source_key)
        if readers and not cascade:
            raise StreamTableInUse(
                f"stream table {table.full_name.short} is read by {', '.join(r.full_name.short for r in readers)}",
                hint="drop those first, or drop with cascade",
            )
        delivered = self.engine.catalog.deliveries(table.id)
        if delivered and not cascade:
            raise StreamTableInUse(
                f"stream table {table.full_name.short} is delivered to {', '.join(d.full_target for d in delivered)}",
                hint="end those deliveries first, or drop with cascade",
            )
        for known in delivered:
            self.deliveries.forget(known)
        for reader in readers:
            self.drop(reader.full_name, if_exists=True, cascade=True)
        if self.engine.catalog.find(target) is None:
            return  # a mirror, which went with the last of its readers
        with leased(self.engine, [table.id]):
            self.remove(table)

    def remove(self, table: StreamTable) -> None:
        """Remove a table and all that was made for it; mirrors that it alone has read go, too."""
        if table.is_mirror:
            self.captures.drop([table])
            self.announcer.dropped(table)
            return
        edges = self.engine.catalog.dependencies(table.id)
        self._forget(table)
        self.captures.unread(upstreams(edges))
        if table.requested_cdc_mode is not None:
            self.modes.follow(edges)

    def _forget(self, table: StreamTable) -> None:
        self.engine.catalog.delete(table.id)
        self.announcer.dropped(table)
        self.names.hide(table)
        self.engine.forget(table)
        self.engine.ddl += 1
        shutil.rmtree(self.engine.layout.folder(table.storage_id), ignore_errors=True)


def upstreams(edges: Sequence[Dependency]) -> list[str]:
    """The stream tables that these edges lead to, among them mirrors."""
    return [edge.source_name for edge in edges if edge.stream_table_id is not None]
