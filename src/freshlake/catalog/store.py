"""The catalog of a lake: everything Freshlake knows about its stream tables, safe for many threads and processes."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from freshlake.catalog.alerts import AlertLog
from freshlake.catalog.audits import Audits
from freshlake.catalog.commits import Commits
from freshlake.catalog.daemons import Daemons
from freshlake.catalog.deliveries import Deliveries
from freshlake.catalog.dependencies import Dependencies
from freshlake.catalog.folds import Folds
from freshlake.catalog.groups import Groups
from freshlake.catalog.history import History
from freshlake.catalog.idle import Idle
from freshlake.catalog.leases import Leases
from freshlake.catalog.opening import EMBEDDED, open_engine
from freshlake.catalog.owner import Owner
from freshlake.catalog.points import Points
from freshlake.catalog.reading import Reading
from freshlake.catalog.registry import Registry
from freshlake.catalog.retention import Retention
from freshlake.catalog.source_databases import SourceDatabases
from freshlake.catalog.stream_tables import StreamTables
from freshlake.catalog.watching import Watching
from freshlake.clock import Clock, SystemClock


class Catalog(
    StreamTables,
    Dependencies,
    Leases,
    History,
    Commits,
    Folds,
    Points,
    Registry,
    Groups,
    Watching,
    Daemons,
    Idle,
    Retention,
    Reading,
    AlertLog,
    Audits,
    Deliveries,
    SourceDatabases,
):
    """One lake's catalog; all errors are Freshlake errors."""

    def __init__(self, engine: Engine, clock: Clock, lake_id: str, owner: str) -> None:
        super().__init__(engine, clock, owner)
        self.lake_id = lake_id

    @classmethod
    def open(
        cls,
        lake: Path | str,
        *,
        url: str = EMBEDDED,
        create: bool = True,
        clock: Clock | None = None,
        owner: str | None = None,
        busy_seconds: float = 30.0,
    ) -> Catalog:
        """Open the catalog of a lake, make it when missing, and bring it to the current version.

        It is in the lake folder, or in PostgreSQL when `url` says so. Raises LakeNotFound (with create=False),
        LakeNotWritable, InvalidSetting, DriverNotFound, CatalogDenied, CatalogCorrupt, CatalogTooNew,
        CatalogUnavailable.
        """
        engine, lake_id = open_engine(Path(lake), url=url, create=create, busy_seconds=busy_seconds)
        return cls(engine, clock or SystemClock(), lake_id, owner or str(Owner.new()))
