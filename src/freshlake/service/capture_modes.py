"""The way in which a source database is captured: what a stream table over it asks for, or what the source says.

All tables of a database are captured one way, so what one stream table asks for holds for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from freshlake.catalog import Catalog
from freshlake.catalog.enums import CdcMode, RefreshMode
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.catalog.source_records import SourceDatabase
from freshlake.errors import FreshlakeError, InvalidArgument
from freshlake.service.transitions import Transitions, wanted_mode
from freshlake.sources.postgres.capture import Mode

_log = logging.getLogger("freshlake")


@dataclass
class CaptureModes:
    catalog: Catalog
    transitions: Transitions

    def check(
        self, asked: CdcMode | None, mode: RefreshMode, edges: Iterable[Dependency], own: StreamTable | None = None
    ) -> None:
        """Raise where a stream table with these edges cannot have what it asks for; `own` is what it was before."""
        databases = self.read_by(edges)
        if mode is RefreshMode.IMMEDIATE and asked is CdcMode.WAL:
            raise InvalidArgument(
                "refresh mode IMMEDIATE and cdc_mode wal do not go together: a log is read after its writes",
                hint="use cdc_mode trigger or auto, or another refresh mode",
            )
        if asked is not None and not databases:
            _log.info("cdc_mode %s has no effect: no table of a source database is read", asked)
        for record in databases:
            if asked is not None:
                self._check(record, asked, own)
            elif mode is RefreshMode.IMMEDIATE and wanted_mode(self.catalog, record) is CdcMode.WAL:
                _log.info(
                    "source %s is captured from its log: mode IMMEDIATE follows when changes have landed", record.name
                )

    def _check(self, record: SourceDatabase, asked: CdcMode, own: StreamTable | None) -> None:
        for name, other in self.catalog.asked_modes(record.name):
            if asked is not other and CdcMode.AUTO not in (asked, other) and (own is None or name != own.full_name):
                raise InvalidArgument(
                    f"source {record.name} cannot be captured by {asked}: stream table {name.short} asks for {other}",
                    detail="all tables of a database are captured one way, so that they are read in one state",
                    hint=f"give both the same, or one none: ALTER STREAM TABLE {name.short} SET (cdc_mode = inherit)",
                )
        if asked is CdcMode.WAL and self.transitions.of(record.name).database.state().mode is not Mode.WAL:
            self.transitions.check_log(record.name)

    def follow(self, edges: Iterable[Dependency]) -> None:
        """Bring databases to what is asked of them by now; what cannot be done at once, the scheduler does."""
        for record in self.read_by(edges):
            wanted = wanted_mode(self.catalog, record)
            try:
                if wanted is not CdcMode.AUTO:
                    self.transitions.move(record.name, Mode(wanted))
            except FreshlakeError as error:
                self.transitions.owed.add(record.name)
                _log.warning("source %s goes to %s later: %s", record.name, wanted, error.message)

    def read_by(self, edges: Iterable[Dependency]) -> list[SourceDatabase]:
        """The source databases of which these edges lead to a captured table."""
        read = {edge.stream_table_id for edge in edges}
        names = {table.database for table in self.catalog.captured_tables() if table.stream_table_id in read}
        return [self.catalog.database(name) for name in sorted(names)]
