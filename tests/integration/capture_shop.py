"""A source database with mirrors in a catalog, and no lake around them: what is done for it needs no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from freshlake.catalog import Action, Catalog, Commit, StreamTable
from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.records import Lease
from freshlake.clock import ManualClock
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.compacting import Compacting
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.positions import place_of
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import connect
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.install import install
from freshlake.sources.protocol import Position
from tests.integration.capture_database import Bag, Database
from tests.integration.capture_mirror import summed
from tests.unit.catalog_cases import added

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Shop:
    """A source database with mirrors that stand where tests say, without a lake around it."""

    database: Database
    catalog: Catalog
    shop: CapturedDatabase
    mirrors: dict[str, StreamTable]

    @property
    def captured(self) -> dict[str, Captured]:
        return {mine.captured.table.name: mine.captured for mine in self.shop.mirrored()}

    def leased(self, table: str) -> Lease:
        return self.catalog.acquire_lease(self.mirrors[table].id, 60)

    def moves(self, table: str, at: Position, lease: Lease | None = None) -> None:
        """A refresh of one mirror, under a lease that it gives back."""
        catalog, held = self.catalog, lease or self.leased(table)
        before = catalog.get_by_id(self.mirrors[table].id)
        frontier = {"sources": {self.shop.key: at.to_json()}}
        refresh = catalog.begin_refresh(held).refresh_id
        done = Commit(refresh, Action.DIFFERENTIAL, 1, before.version + 1, frontier, NOW)
        catalog.commit_refresh(before.id, held.epoch, done)
        catalog.release_lease(held)

    def rows(self, table: str) -> int:
        oid = self.captured[table].oid
        return int(self.database.one(f"SELECT count(*) FROM {self.shop.names.buffer(oid)}"))

    def batch(self, table: str, start: Position, end: Position) -> tuple[bool, Bag]:
        """What a table's changes between two positions add up to, read past everything that watches over it."""
        captured = self.captured[table]
        events = self.shop.ways[Mode.TRIGGER].read(place_of(start), place_of(end), [captured])
        return summed(events).get(captured.oid, (False, Counter()))

    def compacting(self, threshold: int) -> Compacting:
        settings = SimpleNamespace(compact_threshold=threshold)
        engine = SimpleNamespace(catalog=self.catalog, settings=settings, reached=lambda step: None)
        captures = SimpleNamespace(database=lambda name: self.shop)
        return Compacting(cast(Engine, engine), cast(Captures, captures))


@contextmanager
def opened(database: Database, folder: Path, names: Sequence[str]) -> Iterator[Shop]:
    """Mirrors of these tables, all at one position."""
    catalog = Catalog.open(folder, clock=ManualClock(NOW))
    record = catalog.insert_database("shop", str(database.reference))
    captured = CapturedDatabase(catalog, cast(SparkSession, None), record, folder)
    made = Shop(database, catalog, captured, {})
    with connect(database.reference) as connection:
        tables = [database.captured(name) for name in names]
        for table in (made.captured for made in install(connection, captured.names, tables)):
            mirror = added(catalog, f"shop.{table.table.full_name}", definition_kind=DefinitionKind.CAPTURE)
            captured.put(mirror, table, captured.state())
            made.mirrors[table.table.name] = mirror
    start = captured.head()
    for name in made.mirrors:
        made.moves(name, start)
    try:
        yield made
    finally:
        captured.close()
        catalog.close()
