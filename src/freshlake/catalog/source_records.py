"""What the catalog keeps of source databases and of the tables that are captured there, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from freshlake.catalog.records import Json, database_key


@dataclass(frozen=True)
class SourceDatabase:
    """A PostgreSQL database whose tables may be captured.

    `connection` says where the address is kept, never the address itself. `schemas` and `tables` limit what may be
    captured; None means all. `version` counts the positions that were pinned, of which `position` is the newest.
    """

    name: str
    connection: str
    schemas: tuple[str, ...] | None
    tables: tuple[str, ...] | None
    as_text: tuple[str, ...]
    """Columns (`schema.table.column`) that are taken as text, whatever their type."""
    cdc_mode: str
    version: int
    position: Json | None
    capture: Json
    """What the capture side has to find again after a restart."""
    created_at: datetime

    @property
    def source_key(self) -> str:
        """How dependencies and frontiers name this database."""
        return database_key(self.name)


@dataclass(frozen=True)
class CapturedTable:
    """A table of a source database, by its name in that (`schema.table`), and the mirror that holds it."""

    stream_table_id: int
    database: str
    table: str
    captured: Json
    """The description that capture was made with."""
    mode: str
    resync: str | None
    """Why the table has to be copied anew, `reason: words`; kept until it is."""
    created_at: datetime


@dataclass(frozen=True)
class Removal:
    """Something to be removed from a source database that could not be reached, or not yet; tried until it is done."""

    id: int
    database: str
    connection: str
    what: Json
    since: datetime
    tried_at: datetime | None
    attempts: int
    error: str | None
