"""Source databases for users: add, drop, list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from freshlake.catalog.enums import CdcMode
from freshlake.catalog.source_records import SourceDatabase
from freshlake.errors import SourceInUse
from freshlake.refresh.edges import graph
from freshlake.service.as_text import check_as_text, take_as_text
from freshlake.service.captures import Captures
from freshlake.service.deliveries import Deliveries
from freshlake.service.dropping import Dropping
from freshlake.service.transitions import Transitions, wanted_mode
from freshlake.sources.captured.state import CaptureState
from freshlake.sources.postgres.capture import Mode
from freshlake.words import word


@dataclass(frozen=True)
class SourceDatabaseInfo:
    """A source database; `position` counts the states of it that were read."""

    name: str
    connection: str
    schemas: tuple[str, ...] | None
    tables: tuple[str, ...] | None
    cdc_mode: str
    captured_by: str
    captured_tables: tuple[str, ...]
    position: int
    created_at: datetime


@dataclass
class Sources:
    captures: Captures
    dropping: Dropping
    transitions: Transitions
    deliveries: Deliveries

    def add(
        self,
        name: str,
        connection: str,
        schemas: Sequence[str] | None,
        tables: Sequence[str] | None,
        as_text: Sequence[str] | None,
        cdc_mode: str | None,
    ) -> SourceDatabaseInfo:
        """Add a database whose tables stream tables may then name."""
        mode = _mode(cdc_mode or self.captures.engine.settings.cdc_mode)
        made = self.captures.add(name, connection, schemas=schemas, tables=tables, as_text=as_text, cdc_mode=mode)
        return self._info(made)

    def alter(self, name: str, cdc_mode: str | None, as_text: Sequence[str] | None) -> SourceDatabaseInfo:
        """Capture a database another way from now on; raises why it cannot be, and then nothing has changed."""
        catalog = self.captures.engine.catalog
        record = catalog.database(name.strip().lower())
        database = self.captures.database(record.name)
        check_as_text(database, as_text or ())
        if cdc_mode is not None:
            mode = _mode(cdc_mode)
            wanted = wanted_mode(catalog, replace(record, cdc_mode=mode))
            if wanted is not CdcMode.AUTO:
                self.transitions.move(record.name, Mode(wanted))
            catalog.update_database(record.name, cdc_mode=mode)
        if as_text is not None:
            take_as_text(catalog, database, as_text)
        return self._info(catalog.database(record.name))

    def drop(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Forget a database and everything that was made in it; with `cascade` also the stream tables that read it."""
        catalog = self.captures.engine.catalog
        word = name.strip().lower()
        found = catalog.find_database(word) if if_exists else catalog.database(word)
        if found is None:
            return
        mirrors = [t for t in catalog.stream_tables() if t.is_mirror and t.full_name.database == word]
        readers = sorted({r.full_name.short for m in mirrors for r in catalog.dependents(m.source_key)})
        if readers and not cascade:
            raise SourceInUse(
                f"source {word} is read by {', '.join(readers)}", hint="drop those first, or drop with cascade"
            )
        delivered = [known for known in catalog.deliveries() if known.database == word]
        if delivered and not cascade:
            raise SourceInUse(
                f"stream tables are delivered to {', '.join(known.full_target for known in delivered)}",
                hint="end those deliveries first, or drop with cascade",
            )
        for known in delivered:
            self.deliveries.forget(known)
        for mirror in mirrors:
            self.dropping.drop(mirror.full_name, if_exists=True, cascade=True)
        self.captures.forget(word)

    def drop_all(self) -> tuple[str, ...]:
        """Drop all stream tables, readers first, then all databases, and all groups; the names of the stream tables."""
        catalog = self.captures.engine.catalog
        names = {str(t.full_name): t.full_name for t in catalog.stream_tables() if not t.is_mirror}
        for name in reversed(graph(catalog).order(names)):
            self.dropping.drop(names[name], if_exists=True, cascade=True)
        for database in catalog.databases():
            self.drop(database.name, cascade=True)
        for group in catalog.groups():
            catalog.remove_group(group.name)
        return tuple(name.short for name in names.values())

    def list(self) -> list[SourceDatabaseInfo]:
        """All source databases, by name."""
        return [self._info(database) for database in self.captures.engine.catalog.databases()]

    def _info(self, database: SourceDatabase) -> SourceDatabaseInfo:
        captured = self.captures.engine.catalog.captured_tables(database.name)
        return SourceDatabaseInfo(
            name=database.name,
            connection=database.connection,
            schemas=database.schemas,
            tables=database.tables,
            cdc_mode=database.cdc_mode,
            captured_by=CaptureState.from_json(database.capture).word,
            captured_tables=tuple(table.table for table in captured),
            position=database.version,
            created_at=database.created_at,
        )


def _mode(text: str) -> CdcMode:
    return word(CdcMode, text, "a cdc_mode")
