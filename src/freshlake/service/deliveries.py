"""Deliveries: stream tables whose published rows are kept in tables of a PostgreSQL database, too."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from freshlake.alerts import Alerts, Event
from freshlake.catalog.deliveries import Delivery
from freshlake.catalog.records import StreamTable
from freshlake.delivery.columns import columns_of
from freshlake.delivery.target import Place, Target
from freshlake.errors import DeliveryConflict, DeliveryUnsupported, FreshlakeError, InvalidName, StorageMissing
from freshlake.refresh.engine import Engine
from freshlake.refresh.inputs import SMALL_ROWS
from freshlake.refresh.refused import defect
from freshlake.refresh.spark_errors import translated
from freshlake.service.captures import Captures
from freshlake.service.reading import Reading
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.pool import Pool
from freshlake.storage.relation import Relation, exactly

_log = logging.getLogger("freshlake")

_NEVER = -1
"""The version of a table that was made and not yet filled."""


@dataclass(frozen=True)
class DeliveryInfo:
    """A stream table and where its rows are kept, too; `version` is the one that is there."""

    stream_table: str
    target: str
    version: int | None
    published_version: int
    rows: int | None
    reason: str | None
    delivered_at: datetime | None
    attempts: int
    error: str | None


@dataclass
class Deliveries:
    engine: Engine
    captures: Captures
    alerts: Alerts
    lock_seconds: float = LOCK_SECONDS
    """So long others may keep a delivered table to themselves before its delivery is put off."""

    def __post_init__(self) -> None:
        self.reading = Reading(self.engine)

    # What users ask for ----------------------------------------------------------------------------------------------

    def add(self, table: StreamTable, to: str) -> DeliveryInfo:
        """Keep a stream table in a table of a database from now on; the same again only brings it up to date."""
        database, target = self._parsed(to)
        self.reading.check(table)
        columns_of(self._schema(table))
        self._check_uncaptured(database, target)
        catalog = self.engine.catalog
        known = catalog.find_delivery(database, target)
        if known is None or known.stream_table_id != table.id:
            known = catalog.insert_delivery(table.id, database, target)
            try:
                self._bring(known)
            except BaseException:
                catalog.delete_delivery(known)
                raise
        else:
            self._bring(known)
        return self._info(catalog.delivery(database, target))

    def end(self, to: str, *, if_exists: bool = False) -> None:
        """Drop the table in the database and deliver no more; if it does not answer, the table is dropped later."""
        database, target = self._parsed(to)
        known = self.engine.catalog.find_delivery(database, target)
        if known is None and if_exists:
            return
        self.forget(known or self.engine.catalog.delivery(database, target))

    def forget(self, known: Delivery) -> None:
        """End one delivery."""
        catalog = self.engine.catalog
        with catalog.transaction():
            what = {"delivered": known.target, "lake": catalog.lake_id}
            removal = catalog.add_removal(known.database, catalog.database(known.database).connection, what)
            catalog.delete_delivery(known)
        self.captures.removals.remove(removal)

    def list(self) -> list[DeliveryInfo]:
        """All deliveries, by their targets."""
        return [self._info(known) for known in self.engine.catalog.deliveries()]

    # What happens by itself ------------------------------------------------------------------------------------------

    def published(self, table: StreamTable) -> None:
        """After new rows were published: whatever goes wrong here is not the refresh's."""
        for known in self.engine.catalog.deliveries(table.id):
            self._try(known)

    def bring_late(self) -> None:
        """Try again what could not be delivered."""
        for known in self.engine.catalog.late_deliveries():
            self._try(known)

    def _try(self, known: Delivery) -> None:
        catalog, number = self.engine.catalog, known.stream_table_id
        table = catalog.stream_tables_by_id([number]).get(number)
        if table is None or catalog.find_delivery(known.database, known.target) is None:
            return  # it has ended since it was looked for
        try:
            self._bring(known)
        except Exception as error:
            told = error if isinstance(error, FreshlakeError) else defect(table.full_name, error)
            catalog.delivery_failed(known, f"{told.code}: {told.message}")
            _log.warning("delivery into %s: %s", known.full_target, told.message)
            what = {"target": known.full_target, "error_code": told.code, "error": told.message}
            self.alerts.emit(Event.DELIVERY_FAILED, str(table.full_name), **what)

    # One delivery ----------------------------------------------------------------------------------------------------

    def _bring(self, known: Delivery) -> None:
        """Bring the table in the database to the published version; who does so at the same time is waited for."""
        with translated():
            while True:
                at = self._place(known)
                # looked at afterwards: what is there was published before, unless the lake was put back
                table = self.engine.catalog.get_by_id(known.stream_table_id)
                wanted = Place(table.storage_id, table.published_generation, table.published_version)
                done = (0, None) if at == wanted else self._moved(known, table, at, wanted)
                if done is not None:
                    self._delivered(known, wanted, *done)
                    return

    def _delivered(self, known: Delivery, at: Place, rows: int, reason: str | None) -> None:
        self.engine.catalog.delivered(known, generation=at.generation, version=at.version, rows=rows, reason=reason)

    def _target(self, known: Delivery, table: StreamTable) -> Target:
        schema, _, name = known.target.partition(".")
        return Target(self.engine.catalog.lake_id, schema, name, columns_of(self._schema(table)))

    def _place(self, known: Delivery) -> Place:
        """Which version is there; a table that is not there is made."""
        table = self.engine.catalog.get_by_id(known.stream_table_id)
        target = self._target(known, table)
        with self._pool(known).take() as connection:
            with transaction(connection, read_only=True, lock_seconds=self.lock_seconds) as cursor:
                at = target.place(cursor)
            if at is None:
                at = Place(table.storage_id, table.published_generation, _NEVER)
                with transaction(connection, lock_seconds=self.lock_seconds) as cursor:
                    target.make(cursor, at)
            return at

    def _moved(self, known: Delivery, table: StreamTable, at: Place, wanted: Place) -> tuple[int, str | None] | None:
        """Rows sent and why all of them, if so; None when somebody else was there in between."""
        target = self._target(known, table)
        changes, reason = self._changes(table, at, wanted)
        if changes is not None:
            try:
                with self._batches(changes, table) as batches:
                    return self._sent(known, target, at, wanted, batches, None)
            except DeliveryConflict as error:
                reason = error.code
                _log.warning("%s: %s; all rows are sent again", error.message, error.detail)
        state = self.reading.state_at(table, wanted.generation, wanted.version)
        with self._batches(state, table) as batches:
            return self._sent(known, target, at, wanted, batches, reason)

    def _changes(self, table: StreamTable, at: Place, wanted: Place) -> tuple[Relation | None, str | None]:
        """What leads from one version to the other, or why nothing does."""
        if at.version == _NEVER:
            return None, "first-delivery"
        if not at.precedes(wanted):
            return None, "rebuilt"
        storage = self.engine.layout.root(table, wanted.generation)
        try:
            columns = self._schema(table).names
            return storage.changes(self.engine.spark, at.version, wanted.version, columns=columns), None
        except StorageMissing:
            return None, "history-lost"

    def _sent(
        self,
        known: Delivery,
        target: Target,
        at: Place,
        wanted: Place,
        batches: Iterator[pa.RecordBatch],
        reason: str | None,
    ) -> tuple[int, str | None] | None:
        with (
            self._pool(known).take() as connection,
            transaction(connection, lock_seconds=self.lock_seconds) as cursor,
        ):
            if target.place(cursor, lock=True) != at:
                return None
            rows = target.apply(cursor, batches) if reason is None else target.replace(cursor, batches)
            target.moved(cursor, wanted)
        return rows, reason

    @contextmanager
    def _batches(self, rows: Relation | DataFrame, table: StreamTable) -> Iterator[Iterator[pa.RecordBatch]]:
        """Rows in pieces: few of them at once, many through files, so that memory does not limit them."""
        if isinstance(rows, Relation) and rows.arrow is not None:
            yield iter(exactly(rows.arrow, rows.schema).to_batches())
            return
        frame = rows.dataframe(self.engine.spark) if isinstance(rows, Relation) else rows
        if isinstance(rows, DataFrame) and (table.row_count or SMALL_ROWS) < SMALL_ROWS:
            yield iter(exactly(frame.toArrow(), frame.schema).to_batches())
            return
        folder = self.engine.layout.staging / uuid4().hex
        try:
            frame.write.parquet(str(folder))
            yield _read(folder, frame.schema)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # Names and columns -----------------------------------------------------------------------------------------------

    def _pool(self, known: Delivery) -> Pool:
        return self.captures.database(known.database).pool

    def _schema(self, table: StreamTable) -> StructType:
        """The columns of the published rows."""
        return self.engine.layout.root(table, table.published_generation).visible

    def _parsed(self, to: str) -> tuple[str, str]:
        parts = [part.strip() for part in to.split(".")]
        if len(parts) != 3 or not all(parts):
            raise InvalidName(f"'{to}' is not a table of a source database", hint="write source.schema.table")
        database = self.engine.catalog.database(parts[0].lower())
        return database.name, f"{parts[1]}.{parts[2]}"

    def _check_uncaptured(self, database: str, target: str) -> None:
        """What is delivered into a table that is read would change what it is made of."""
        reading = {c.database for c in self.engine.catalog.captured_tables() if c.table == target}
        if any(self.captures.is_same(database, name) for name in reading):
            raise DeliveryUnsupported(
                f"table {target} of {database} is read by stream tables", hint="deliver into another table"
            )

    def _info(self, known: Delivery) -> DeliveryInfo:
        table = self.engine.catalog.get_by_id(known.stream_table_id)
        return DeliveryInfo(
            stream_table=str(table.full_name),
            target=known.full_target,
            version=known.version,
            published_version=table.published_version,
            rows=known.rows,
            reason=known.reason,
            delivered_at=known.delivered_at,
            attempts=known.attempts,
            error=known.error,
        )


def _read(folder: Path, schema: StructType) -> Iterator[pa.RecordBatch]:
    for file in sorted(folder.glob("*.parquet")):
        # beyond the year 2262 nanoseconds would be wrong
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
            for batch in parquet.iter_batches():
                yield from exactly(pa.Table.from_batches([batch]), schema).to_batches()
