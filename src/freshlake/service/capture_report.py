"""Capture as people look at it: what is captured and how, what waits, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from freshlake.catalog.source_records import SourceDatabase
from freshlake.errors import FreshlakeError
from freshlake.service.captures import Captures
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.database import Mirrored
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.tables import refused
from freshlake.sources.postgres.trigger.buffers import BufferSize, sizes
from freshlake.sources.postgres.wal.slot import Level, judge

T = TypeVar("T")


@dataclass(frozen=True)
class CdcStatus:
    """One captured table that a stream table reads."""

    stream_table: str
    source: str
    source_table: str
    source_id: int
    cdc_mode: str
    copy_due: str | None
    left_out_columns: tuple[str, ...]


@dataclass(frozen=True)
class CdcHealth:
    """One captured table; `alert` is None if all is well."""

    source: str
    source_table: str
    cdc_mode: str
    selective_capture: bool
    alert: str | None
    detail: str | None


@dataclass(frozen=True)
class BufferInfo:
    """What waits in the database to be read, of one captured table."""

    source: str
    source_table: str
    source_id: int
    cdc_mode: str
    pending_rows: int
    buffer_bytes: int
    oldest_seconds: float | None


@dataclass(frozen=True)
class SlotInfo:
    """The replication slot of a source database that is read from its log; `alert` is None if all is well."""

    source: str
    slot_name: str | None
    active: bool
    lag_bytes: int
    retained_bytes: int
    level: str
    alert: str | None
    detail: str | None


@dataclass
class CaptureReport:
    captures: Captures

    def status(self) -> list[CdcStatus]:
        """From the catalog alone: databases are not asked."""
        return [line for database in self._databases() for line in self._status(database)]

    def _status(self, record: SourceDatabase) -> Iterator[CdcStatus]:
        catalog = self.captures.engine.catalog
        modes = {c.stream_table_id: c.mode for c in catalog.captured_tables(record.name)}
        for mine in self.captures.database(record.name).mirrored():
            table = mine.captured.table
            for reader in catalog.dependents(mine.mirror.source_key):
                yield CdcStatus(
                    stream_table=reader.full_name.short,
                    source=record.name,
                    source_table=table.full_name,
                    source_id=table.oid,
                    cdc_mode=modes[mine.mirror.id],
                    copy_due=mine.resync,
                    left_out_columns=tuple(refused(table, mine.captured.as_text)),
                )

    def health(self) -> list[CdcHealth]:
        """Every captured table; a database that does not answer is an alert of all its tables."""
        return [line for database in self._databases() for line in self._health(database)]

    def _health(self, record: SourceDatabase) -> Iterator[CdcHealth]:
        database = self.captures.database(record.name)
        gaps, problem = _asked(database.gaps)
        modes = {c.stream_table_id: c.mode for c in self.captures.engine.catalog.captured_tables(record.name)}
        for mine in database.mirrored():
            gap = (gaps or {}).get(mine.captured.oid)
            alert, detail = (gap.reason, gap.detail) if gap is not None else _copy_due(mine)
            if problem is not None:
                alert, detail = problem.code, problem.message
            yield CdcHealth(
                source=record.name,
                source_table=mine.captured.table.full_name,
                cdc_mode=modes[mine.mirror.id],
                selective_capture=mine.captured.is_selective,
                alert=alert,
                detail=detail,
            )

    def slots(self) -> list[SlotInfo]:
        """The slots of all databases that are read from their logs; one that does not answer is an alert."""
        return [self._slot(database) for database in self._databases() if self._reads_log(database)]

    def _reads_log(self, record: SourceDatabase) -> bool:
        database = self.captures.database(record.name)
        return database.state().mode is Mode.WAL and bool(database.mirrored())

    def _slot(self, record: SourceDatabase) -> SlotInfo:
        settings = self.captures.engine.settings
        slot, problem = _asked(self.captures.database(record.name).log.slot_state)
        if problem is not None:
            return SlotInfo(record.name, None, False, 0, 0, Level.CRITICAL, problem.code, problem.message)
        found = judge(
            slot,
            warning_mb=settings.slot_lag_warning_threshold_mb,
            critical_mb=settings.slot_lag_critical_threshold_mb,
        )
        if slot is None:
            return SlotInfo(record.name, None, False, 0, 0, found.level, found.alert, found.detail)
        figures = (slot.active, slot.lag_bytes, slot.retained_bytes)
        return SlotInfo(record.name, slot.name, *figures, found.level, found.alert, found.detail or None)

    def buffers(self) -> list[BufferInfo]:
        """What waits in the buffers of triggers; raises if a database does not answer."""
        return [line for database in self._databases() for line in self._buffers(database)]

    def _buffers(self, record: SourceDatabase) -> Iterator[BufferInfo]:
        database = self.captures.database(record.name)
        modes = {c.stream_table_id: c.mode for c in self.captures.engine.catalog.captured_tables(record.name)}
        found = {size.oid: size for size in _sizes(database)}
        for mine in database.mirrored():
            size = found.get(mine.captured.oid)
            if size is not None:
                yield BufferInfo(
                    source=record.name,
                    source_table=mine.captured.table.full_name,
                    source_id=size.oid,
                    cdc_mode=modes[mine.mirror.id],
                    pending_rows=size.rows,
                    buffer_bytes=size.bytes,
                    oldest_seconds=size.oldest_seconds,
                )

    def _databases(self) -> tuple[SourceDatabase, ...]:
        return self.captures.engine.catalog.databases()


def _sizes(database: CapturedDatabase) -> list[BufferSize]:
    with database.pool.take() as connection:
        return sizes(connection, database.names)


def _asked(ask: Callable[[], T]) -> tuple[T | None, FreshlakeError | None]:
    try:
        return ask(), None
    except FreshlakeError as error:
        return None, error


def _copy_due(mine: Mirrored) -> tuple[str | None, str | None]:
    if mine.resync is None:
        return None, None
    reason, _, words = mine.resync.partition(": ")
    return reason, words
