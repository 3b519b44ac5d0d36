"""Capture as people look at it: what is captured and how, what waits, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from freshlake.errors import FreshlakeError
from freshlake.service.captures import Captures
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.database import Mirrored
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.tables import refused
from freshlake.sources.postgres.trigger.buffers import BufferSize, sizes
from freshlake.sources.postgres.wal.slot import Level, SlotState, judge

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
        return [line for database in self._open() for line in self._status(database)]

    def _status(self, database: CapturedDatabase) -> Iterator[CdcStatus]:
        for mine in database.mirrored():
            table = mine.captured.table
            for reader in self.captures.engine.catalog.dependents(mine.mirror.source_key):
                yield CdcStatus(
                    stream_table=reader.full_name.short,
                    source=database.name,
                    source_table=table.full_name,
                    source_id=table.oid,
                    cdc_mode=mine.mode,
                    copy_due=mine.resync,
                    left_out_columns=tuple(refused(table, mine.captured.as_text)),
                )

    def health(self) -> list[CdcHealth]:
        """Every captured table; a database that does not answer is an alert of all its tables."""
        return [line for database in self._open() for line in _health(database, *_asked(database.gaps))]

    def slots(self) -> list[SlotInfo]:
        """The slots of all databases that are read from their logs; one that does not answer is an alert."""
        found = (database for database in self._open() if database.reads_log)
        return [self._slot(database, *_asked(database.log.slot_state)) for database in found]

    def examined(self) -> tuple[list[CdcHealth], list[SlotInfo], dict[str, tuple[str, ...]]]:
        """What `health` and `slots` tell, and who publishes buffers; each database is asked once for all of it."""
        health: list[CdcHealth] = []
        slots: list[SlotInfo] = []
        published: dict[str, tuple[str, ...]] = {}
        for database in self._open():
            found, problem = _asked(database.examined)
            gaps, slot, publications = found or (None, None, ())
            health += _health(database, gaps, problem)
            slots += [self._slot(database, slot, problem)] if database.reads_log else []
            published |= {database.name: publications} if publications else {}
        return health, slots, published

    def _slot(self, database: CapturedDatabase, slot: SlotState | None, problem: FreshlakeError | None) -> SlotInfo:
        settings, name = self.captures.engine.settings, database.name
        if problem is not None:
            return SlotInfo(name, None, False, 0, 0, Level.CRITICAL, problem.code, problem.message)
        found = judge(
            slot,
            warning_mb=settings.slot_lag_warning_threshold_mb,
            critical_mb=settings.slot_lag_critical_threshold_mb,
        )
        if slot is None:
            return SlotInfo(name, None, False, 0, 0, found.level, found.alert, found.detail)
        figures = (slot.active, slot.lag_bytes, slot.retained_bytes)
        return SlotInfo(name, slot.name, *figures, found.level, found.alert, found.detail or None)

    def buffers(self) -> list[BufferInfo]:
        """What waits in the buffers of triggers; raises if a database does not answer."""
        return [line for database in self._open() for line in _buffers(database)]

    def _open(self) -> list[CapturedDatabase]:
        return [self.captures.database(record.name) for record in self.captures.engine.catalog.databases()]


def _buffers(database: CapturedDatabase) -> Iterator[BufferInfo]:
    found = {size.oid: size for size in _sizes(database)}
    for mine in database.mirrored():
        size = found.get(mine.captured.oid)
        if size is not None:
            yield BufferInfo(
                source=database.name,
                source_table=mine.captured.table.full_name,
                source_id=size.oid,
                cdc_mode=mine.mode,
                pending_rows=size.rows,
                buffer_bytes=size.bytes,
                oldest_seconds=size.oldest_seconds,
            )


def _sizes(database: CapturedDatabase) -> list[BufferSize]:
    with database.pool.take() as connection:
        return sizes(connection, database.names)


def _health(
    database: CapturedDatabase, gaps: Mapping[int, Resync] | None, problem: FreshlakeError | None
) -> Iterator[CdcHealth]:
    for mine in database.mirrored():
        gap = (gaps or {}).get(mine.captured.oid)
        alert, detail = (gap.reason, gap.detail) if gap is not None else _copy_due(mine)
        if problem is not None:
            alert, detail = problem.code, problem.message
        yield CdcHealth(
            source=database.name,
            source_table=mine.captured.table.full_name,
            cdc_mode=mine.mode,
            selective_capture=mine.captured.is_selective,
            alert=alert,
            detail=detail,
        )


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
