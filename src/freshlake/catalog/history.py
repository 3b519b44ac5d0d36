"""The history: one row per refresh, from RUNNING to COMPLETED, FAILED or SKIPPED."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, func, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Action, RefreshStatus
from freshlake.catalog.leases import check_epoch, is_live
from freshlake.catalog.records import Json, Lease, Refresh
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.stream_tables import require
from freshlake.catalog.tables import leases, refresh_history
from freshlake.errors import FreshlakeError, InternalError, RefreshFailed

_OF_REFRESH = {column.name: column for column in refresh_history.c if column.name != "sequence"}
_NO_ROWS = {"rows_inserted": 0, "rows_deleted": 0}


class History(Database):
    """Begin, skip and look up refreshes."""

    def begin_refresh(self, lease: Lease, *, refresh_id: str | None = None) -> Refresh:
        """Add a RUNNING row; raises LeaseLost."""
        with self._write() as connection:
            check_epoch(connection, lease.stream_table_id, lease.epoch)
            return add_row(
                connection,
                refresh_id=refresh_id or new_refresh_id(),
                stream_table_id=lease.stream_table_id,
                status=RefreshStatus.RUNNING,
                start_time=self._clock.now(),
                owner=lease.owner,
                epoch=lease.epoch,
            )

    def skip_refresh(self, stream_table_id: int, reason: str) -> Refresh:
        """Record that a due refresh was not started, and why."""
        now = self._clock.now()
        with self._write() as connection:
            require(connection, stream_table_id)
            return add_row(
                connection,
                refresh_id=new_refresh_id(),
                stream_table_id=stream_table_id,
                status=RefreshStatus.SKIPPED,
                action=Action.SKIPPED,
                start_time=now,
                end_time=now,
                duration_ms=0,
                fallback_reason=reason,
                owner=self.owner,
            )

    def fail_interrupted(self, stream_table_id: int | None = None) -> tuple[Refresh, ...]:
        """Mark RUNNING refreshes FAILED whose worker is gone.

        Finish what such a worker had committed to the lake first: this only tidies the history. The lease stays until
        somebody takes it over.
        """
        error = RefreshFailed("interrupted: the process that ran this refresh ended before it was finished")
        now = self._clock.now()
        with self._write() as connection:
            running = _running(connection, stream_table_id)
            seen = self._shared_now(connection) if running else now
            gone = [row for row in running if not _is_worked_on(connection, row, seen)]
            for row in gone:
                end_row(connection, row, now, **failure(error))
            return tuple(require_row(connection, row.refresh_id) for row in gone)

    def history(self, stream_table_id: int | None = None, limit: int | None = 20) -> tuple[Refresh, ...]:
        """The refreshes of one stream table or of all, newest first."""
        query = select(*_OF_REFRESH.values()).order_by(refresh_history.c.sequence.desc())
        if stream_table_id is not None:
            query = query.where(refresh_history.c.stream_table_id == stream_table_id)
        with self._read() as connection:
            return fetch(connection, query if limit is None else query.limit(limit), Refresh)

    def decisions(self, stream_table_id: int, actions: Sequence[Action], limit: int) -> tuple[Json, ...]:
        """What the refreshes of a stream table with one of these actions were decided from, newest first."""
        history = refresh_history.c
        query = (
            select(history.decision)
            .where(
                history.stream_table_id == stream_table_id,
                history.status == RefreshStatus.COMPLETED,
                history.action.in_(actions),
                history.decision.is_not(None),
            )
            .order_by(history.sequence.desc())
            .limit(limit)
        )
        with self._read() as connection:
            return tuple(connection.execute(query).scalars())

    def newest_version_before(self, stream_table_id: int, generation: int, limit: datetime) -> int:
        """The newest version of a generation that a refresh made before a time; 0 when there is none."""
        history = refresh_history.c
        query = select(func.max(history.version)).where(
            history.stream_table_id == stream_table_id,
            history.generation == generation,
            history.status == RefreshStatus.COMPLETED,
            history.end_time < limit,
        )
        with self._read() as connection:
            return connection.execute(query).scalar() or 0

    def newest_version_at(self, stream_table_id: int, generation: int, at: datetime, *, upto: int) -> int | None:
        """The newest version of a generation, up to one, whose data is not later than a time."""
        history = refresh_history.c
        query = select(func.max(history.version)).where(
            history.stream_table_id == stream_table_id,
            history.generation == generation,
            history.status == RefreshStatus.COMPLETED,
            history.data_timestamp <= at,
            history.version <= upto,
        )
        with self._read() as connection:
            found: int | None = connection.execute(query).scalar()
            return found

    def find_refresh(self, refresh_id: str) -> Refresh | None:
        """One refresh, or None."""
        with self._read() as connection:
            return find_row(connection, refresh_id)

    def last_failure(self, stream_table_id: int) -> Refresh | None:
        """The newest refresh of a stream table that failed, or None."""
        history = refresh_history.c
        failed = (history.stream_table_id == stream_table_id) & (history.status == RefreshStatus.FAILED)
        query = select(*_OF_REFRESH.values()).where(failed).order_by(history.sequence.desc()).limit(1)
        with self._read() as connection:
            return fetch_one(connection, query, Refresh)


def new_refresh_id() -> str:
    """An id that no other refresh has."""
    return uuid4().hex


def add_row(connection: Connection, **values: Any) -> Refresh:
    """Add a row; columns that are not given are empty."""
    full: dict[str, Any] = dict.fromkeys(_OF_REFRESH.keys()) | _NO_ROWS | values
    connection.execute(insert(refresh_history), full)
    return Refresh(**full)


def end_row(connection: Connection, row: Refresh, now: datetime, **values: Any) -> None:
    """Set how a refresh ended."""
    ended = {"end_time": now, "duration_ms": milliseconds(row.start_time, now), **values}
    connection.execute(update(refresh_history).where(refresh_history.c.refresh_id == row.refresh_id).values(**ended))


def failure(error: FreshlakeError) -> dict[str, Any]:
    """The columns that say that and why a refresh failed."""
    return {"status": RefreshStatus.FAILED, "error_code": error.code, "error_message": storable(str(error))}


def storable(message: str) -> str:
    """PostgreSQL's text cannot hold the character zero, which a message may quote from data."""
    return message.replace("\0", "\\0")


def find_row(connection: Connection, refresh_id: str) -> Refresh | None:
    """One refresh inside a transaction, or None."""
    return fetch_one(
        connection, select(*_OF_REFRESH.values()).where(refresh_history.c.refresh_id == refresh_id), Refresh
    )


def require_row(connection: Connection, refresh_id: str) -> Refresh:
    """One refresh inside a transaction that must exist."""
    found = find_row(connection, refresh_id)
    if found is None:
        raise InternalError(f"there is no refresh {refresh_id} in the history")
    return found


def milliseconds(start: datetime, end: datetime) -> int:
    """The time between two moments; never negative, also when the machine's clock was set back."""
    return max(0, round((end - start).total_seconds() * 1000))


def _running(connection: Connection, stream_table_id: int | None) -> tuple[Refresh, ...]:
    query = select(*_OF_REFRESH.values()).where(refresh_history.c.status == RefreshStatus.RUNNING)
    if stream_table_id is not None:
        query = query.where(refresh_history.c.stream_table_id == stream_table_id)
    return fetch(connection, query.order_by(refresh_history.c.sequence), Refresh)


def _is_worked_on(connection: Connection, row: Refresh, now: datetime) -> bool:
    held = connection.execute(select(leases).where(leases.c.stream_table_id == row.stream_table_id)).mappings().first()
    return held is not None and held["epoch"] == row.epoch and is_live(held["owner"], held["expires_at"], now)
