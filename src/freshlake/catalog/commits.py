"""How a refresh ends: what it moved and its history row are one transaction under its lease."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Action, RefreshStatus, Status
from freshlake.catalog.folds import put_fold
from freshlake.catalog.history import (
    add_row,
    end_row,
    failure,
    find_row,
    milliseconds,
    new_refresh_id,
    require_row,
)
from freshlake.catalog.leases import check_epoch, check_unheld
from freshlake.catalog.points import put_point
from freshlake.catalog.records import Commit, Fold, Json, Lease, Refresh, StreamTable
from freshlake.catalog.stream_tables import change, require
from freshlake.catalog.tables import leases, stream_tables
from freshlake.errors import FreshlakeError, InvariantViolated, NotFound

MAX_RETRIES = 5
"""Attempts at a failure that may pass, before it counts as one."""

_LONGEST_PAUSE = 60.0
_NO_RETRY = {"retries": 0, "retry_at": None}
_SEEN = ("generation", "version", "status", "quarantined_at", "needs_reinit", "fingerprint", "frontier")
_STATE = select(*(stream_tables.c[name] for name in _SEEN)).where(stream_tables.c.id == bindparam("id"))


class Commits(Database):
    """Commit, find nothing to do, or fail."""

    def commit_refresh(self, stream_table_id: int, epoch: int, commit: Commit) -> StreamTable:
        """Move version, frontier, timestamp, counts, nodes, fold and history together; raises LeaseLost.

        Also finishes a refresh that a dead process had committed to the lake: its row may be RUNNING, marked as
        interrupted, or missing.
        """
        now = self._clock.now()
        with self._write() as connection:
            check_epoch(connection, stream_table_id, epoch)
            before = require(connection, stream_table_id)
            _check_forward(before, commit)
            after = change(connection, stream_table_id, _moved(before, commit, now))
            if commit.folded_version is not None and commit.fold_base_version is not None:
                put_fold(
                    connection,
                    Fold(stream_table_id, "", commit.generation, commit.folded_version, commit.fold_base_version, now),
                )
            moved = (before.generation, before.version) != (commit.generation, commit.version)
            if moved or not _same_roots(before.frontier, commit.frontier):
                point = (commit.generation, commit.version, commit.frontier, commit.data_timestamp)
                put_point(connection, stream_table_id, *point)
            self._complete(connection, stream_table_id, epoch, commit, now)
            return after

    def publish(self, held: Iterable[Lease]) -> None:
        """Let readers see the committed versions of these tables, all at the same moment; raises LeaseLost."""
        epochs = {lease.stream_table_id: lease.epoch for lease in held}
        with self._write() as connection:
            for stream_table_id, epoch in epochs.items():
                check_epoch(connection, stream_table_id, epoch)
            connection.execute(
                update(stream_tables)
                .where(stream_tables.c.id.in_(epochs))
                .values(
                    published_generation=stream_tables.c.generation,
                    published_version=stream_tables.c.version,
                    updated_at=self._clock.now(),
                )
            )

    def record_no_data(
        self,
        seen: StreamTable,
        *,
        frontier: Json,
        data_timestamp: datetime,
        started_at: datetime | None = None,
        epoch: int | None = None,
        refresh_id: str | None = None,
        decision: Json | None = None,
        publish: bool = True,
    ) -> Refresh | None:
        """Record that nothing changed since `seen` was read, in one short transaction that needs no lease.

        Returns None when the table moved in the meantime, or when its last worker did not give the lease back: take it
        and look again. Raises RefreshInProgress while another worker holds the lease; with `epoch` the caller's own
        lease is checked instead.
        """
        now = self._clock.now()
        # the moment at which positions were seen again has a column of its own
        moved = {} if _same_positions(seen.frontier, frontier) else {"frontier": frontier}
        with self._write() as connection:
            shared_now = partial(self._shared_now, connection)
            if _is_left(connection, seen, epoch, shared_now) or not _is_as_seen(connection, seen):
                return None
            connection.execute(
                update(stream_tables)
                .where(stream_tables.c.id == seen.id)
                .values(
                    **moved,
                    data_timestamp=data_timestamp,
                    last_refresh_at=now,
                    consecutive_errors=0,
                    **_NO_RETRY,
                    status=_after_success(seen.status),
                    **_published(seen.generation, seen.version, publish),
                )
            )
            if not _same_roots(seen.frontier, frontier):
                put_point(connection, seen.id, seen.generation, seen.version, frontier, data_timestamp)
            return add_row(
                connection,
                refresh_id=refresh_id or new_refresh_id(),
                stream_table_id=seen.id,
                status=RefreshStatus.COMPLETED,
                action=Action.NO_DATA,
                data_timestamp=data_timestamp,
                start_time=started_at or now,
                end_time=now,
                duration_ms=milliseconds(started_at or now, now),
                rows_updated=0,
                source_changes=0,
                generation=seen.generation,
                version=seen.version,
                decision=decision,
                owner=self.owner,
                epoch=epoch,
            )

    def fail_refresh(
        self,
        refresh_id: str,
        error: FreshlakeError,
        *,
        max_consecutive_errors: int,
        action: Action | None = None,
        fallback_reason: str | None = None,
        decision: Json | None = None,
        fatal: bool = False,
        counted: bool = True,
        retry: bool = False,
    ) -> StreamTable:
        """Mark a refresh FAILED and count it; the table goes to ERROR at the limit, or at once when `fatal`.

        A worker that lost its lease does not count: the table is in other hands. Nor does a new definition that was
        not taken: the table goes on with its old one (`counted=False`). With `retry` it is counted only after several
        attempts, each later than the one before. A scheduler does not try again before `retry_at`.
        """
        now = self._clock.now()
        with self._write() as connection:
            row = require_row(connection, refresh_id)
            table = require(connection, row.stream_table_id)
            if row.status is RefreshStatus.COMPLETED:
                return table  # it is in the log, and whoever took the table over has recorded it
            why = {"action": action, "fallback_reason": fallback_reason, "decision": decision}
            end_row(connection, row, now, **failure(error), **why)
            if not counted or not _held_under(connection, row):
                return table
            if retry and not fatal and table.retries < MAX_RETRIES:
                return change(connection, table.id, _retried(table, now))
            return change(connection, table.id, _counted(table, max_consecutive_errors, fatal, now))

    def _complete(
        self, connection: Connection, stream_table_id: int, epoch: int, commit: Commit, now: datetime
    ) -> None:
        known = find_row(connection, commit.refresh_id)
        ended = _completed(commit)
        if known is not None:
            end_row(connection, known, now, **ended)
            return
        begun = {"refresh_id": commit.refresh_id, "stream_table_id": stream_table_id, "start_time": now}
        add_row(connection, **begun, **ended, end_time=now, duration_ms=0, owner=self.owner, epoch=epoch)


def _completed(commit: Commit) -> dict[str, Any]:
    return {
        "status": RefreshStatus.COMPLETED,
        "action": commit.action,
        "data_timestamp": commit.data_timestamp,
        "rows_inserted": commit.rows_inserted,
        "rows_deleted": commit.rows_deleted,
        "rows_updated": commit.rows_updated,
        "source_changes": commit.source_changes,
        "fallback_reason": commit.fallback_reason,
        "error_code": None,
        "error_message": None,
        "generation": commit.generation,
        "version": commit.version,
        "decision": commit.decision,
    }


def _moved(before: StreamTable, commit: Commit, now: datetime) -> dict[str, Any]:
    moved: dict[str, Any] = {
        "generation": commit.generation,
        "version": commit.version,
        "frontier": commit.frontier,
        "data_timestamp": commit.data_timestamp,
        "row_count": commit.row_count,
        "last_refresh_at": now,
        "updated_at": now,
        "is_populated": True,
        "consecutive_errors": 0,
        "status": _after_success(before.status),
        **_NO_RETRY,
    }
    if commit.action is Action.REINITIALIZE:
        moved["needs_reinit"] = False
    if commit.nodes is not None:
        moved["nodes"] = commit.nodes
    if commit.folded_version is not None or commit.generation != before.generation:
        moved |= {"fold_base_version": commit.fold_base_version, "folded_version": commit.folded_version}
    return moved | _published(commit.generation, commit.version, commit.publish) | dict(commit.changes)


def _published(generation: int, version: int, publish: bool) -> dict[str, int]:
    return {"published_generation": generation, "published_version": version} if publish else {}


def _same_positions(before: Json | None, after: Json) -> bool:
    return before is not None and {**before, "data_timestamp": None} == {**after, "data_timestamp": None}


def _same_roots(before: Json | None, after: Json) -> bool:
    return before is not None and before.get("roots") == after.get("roots")


def _after_success(status: Status) -> Status:
    """Suspension is the user's decision, and stays until the user ends it."""
    return Status.SUSPENDED if status is Status.SUSPENDED else Status.ACTIVE


def _check_forward(before: StreamTable, commit: Commit) -> None:
    if (commit.generation, commit.version) < (before.generation, before.version):
        raise InvariantViolated(
            f"stream table {before.full_name.short} would go back in time",
            detail=f"from generation {before.generation} version {before.version} "
            f"to generation {commit.generation} version {commit.version}",
        )


def _is_left(connection: Connection, seen: StreamTable, epoch: int | None, now: Callable[[], datetime]) -> bool:
    if epoch is not None:
        check_epoch(connection, seen.id, epoch)
        return False
    last = check_unheld(connection, seen, now)
    return last is not None and last["owner"] is not None


def _is_as_seen(connection: Connection, seen: StreamTable) -> bool:
    row = connection.execute(_STATE, {"id": seen.id}).first()
    if row is None:
        raise NotFound(f"there is no stream table {seen.full_name.short}", detail="it was dropped")
    return tuple(row) == tuple(getattr(seen, name) for name in _SEEN)


def _held_under(connection: Connection, row: Refresh) -> bool:
    epoch = connection.execute(select(leases.c.epoch).where(leases.c.stream_table_id == row.stream_table_id)).scalar()
    return bool(epoch == row.epoch)


def _counted(table: StreamTable, limit: int, fatal: bool, now: datetime) -> dict[str, Any]:
    errors = table.consecutive_errors + 1
    stop = table.status is Status.ACTIVE and (fatal or errors >= limit)
    return {
        "consecutive_errors": errors,
        "status": Status.ERROR if stop else table.status,
        "updated_at": now,
        "retries": 0,
        # a mistake in a query or in the data needs a person's time, not another attempt in the next second
        "retry_at": None if stop else _later(now, _LONGEST_PAUSE),
    }


def _retried(table: StreamTable, now: datetime) -> dict[str, Any]:
    """One second, then twice as long each time, up to a minute; give or take, so that tables do not come at once."""
    pause = min(_LONGEST_PAUSE, 2.0**table.retries)
    return {"retries": table.retries + 1, "retry_at": _later(now, pause), "updated_at": now}


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds * random.uniform(0.75, 1.25))
