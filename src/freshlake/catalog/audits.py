"""Audits: what was compared with its query, when, and what came of it; and the quarantine of what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import AuditOutcome
from freshlake.catalog.history import storable
from freshlake.catalog.leases import check_epoch
from freshlake.catalog.records import Json
from freshlake.catalog.rows import fetch, fetch_one
from freshlake.catalog.stream_tables import change
from freshlake.catalog.tables import audits, meta, stream_tables
from freshlake.catalog.upsert import upsert

_CLAIMED = "audited_at"
_DULL = (AuditOutcome.EQUAL, AuditOutcome.NOT_VERIFIED)
KEPT = 50
"""Audits of a table that found nothing, as many as stay; those that found something stay as long as the table."""


@dataclass(frozen=True)
class NewAudit:
    """What an audit found, as it is recorded.

    `checks` say for every stored node how it was compared, or why not. `missing` rows the query has and the node has
    not, `unexpected` ones the other way round; `evidence` has some of them, and where everything stood.
    """

    stream_table_id: int
    started_at: datetime
    outcome: AuditOutcome
    asked_by: str
    generation: int
    version: int
    checks: tuple[Json, ...] = ()
    missing: int = 0
    unexpected: int = 0
    compared_rows: int = 0
    evidence: Json | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Audit:
    """One audit of a stream table; `refresh_id` is the refresh that repaired it."""

    id: int
    stream_table_id: int
    started_at: datetime
    ended_at: datetime
    outcome: AuditOutcome
    asked_by: str
    generation: int
    version: int
    checks: tuple[Json, ...]
    missing: int
    unexpected: int
    compared_rows: int
    evidence: Json | None
    detail: str | None
    refresh_id: str | None


class Audits(Database):
    """Claim, record and list audits; begin and end a quarantine."""

    def claim_audit(self, interval_seconds: float) -> bool:
        """Whether it is this process's turn: one audit in so many seconds, however many processes there are.

        The first turn of a lake comes after the first interval.
        """
        now = self._clock.now()
        claim = {"value": now.isoformat()}
        with self._write() as connection:
            known = connection.execute(select(meta.c.value).where(meta.c.key == _CLAIMED)).scalar()
            if known is not None and now < datetime.fromisoformat(known) + timedelta(seconds=interval_seconds):
                return False
            statement = upsert(connection, meta).values(key=_CLAIMED, **claim)
            connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=claim))
            return known is not None

    def add_audit(self, new: NewAudit) -> Audit:
        """Record an audit; the oldest ones that found nothing are forgotten."""
        values = {field.name: getattr(new, field.name) for field in fields(new)}
        values["detail"] = new.detail and storable(new.detail)
        with self._write() as connection:
            row = insert(audits).values(**values, ended_at=self._clock.now()).returning(audits.c.id)
            added = connection.execute(row).scalar_one()
            _prune(connection, new.stream_table_id)
            return _require(connection, added)

    def end_audit(
        self, audit_id: int, outcome: AuditOutcome, *, detail: str | None = None, refresh_id: str | None = None
    ) -> Audit:
        """Record what became of a mismatch."""
        known = {"detail": detail and storable(detail), "refresh_id": refresh_id}
        given = {name: value for name, value in known.items() if value is not None}
        ended = update(audits).where(audits.c.id == audit_id)
        with self._write() as connection:
            connection.execute(ended.values(outcome=outcome, ended_at=self._clock.now(), **given))
            return _require(connection, audit_id)

    def audits(self, stream_table_id: int | None = None, limit: int | None = 20) -> tuple[Audit, ...]:
        """The audits of one stream table or of all, newest first."""
        query = select(audits).order_by(audits.c.id.desc())
        if stream_table_id is not None:
            query = query.where(audits.c.stream_table_id == stream_table_id)
        with self._read() as connection:
            return fetch(connection, query if limit is None else query.limit(limit), Audit)

    def last_audits(self) -> Mapping[int, Audit]:
        """The newest audit of every stream table that has one."""
        newest = select(func.max(audits.c.id)).group_by(audits.c.stream_table_id)
        with self._read() as connection:
            found = fetch(connection, select(audits).where(audits.c.id.in_(newest)), Audit)
        return {audit.stream_table_id: audit for audit in found}

    def begin_quarantine(self, epoch: int, found: NewAudit) -> Audit:
        """Record a mismatch and quarantine its table, in one transaction under the table's lease; raises LeaseLost."""
        now = self._clock.now()
        with self._write() as connection:
            check_epoch(connection, found.stream_table_id, epoch)
            change(connection, found.stream_table_id, {"quarantined_at": now, "updated_at": now})
            return self.add_audit(found)

    def end_quarantine(self, stream_table_id: int, epoch: int, rebuilt: Sequence[int] = ()) -> None:
        """Let a table be refreshed and followed again; readers that must be rebuilt first are marked with it."""
        now = self._clock.now()
        with self._write() as connection:
            check_epoch(connection, stream_table_id, epoch)
            ended: dict[str, Any] = {"quarantined_at": None, "updated_at": now}
            change(connection, stream_table_id, ended)
            # one of them may have been dropped
            marked = update(stream_tables).where(stream_tables.c.id.in_(rebuilt))
            connection.execute(marked.values(needs_reinit=True, updated_at=now))


def _prune(connection: Connection, stream_table_id: int) -> None:
    dull = (audits.c.stream_table_id == stream_table_id) & audits.c.outcome.in_(_DULL)
    oldest = select(audits.c.id).where(dull).order_by(audits.c.id.desc()).offset(KEPT).limit(1)
    if (last := connection.execute(oldest).scalar()) is not None:
        connection.execute(delete(audits).where(dull, audits.c.id <= last))


def _require(connection: Connection, audit_id: int) -> Audit:
    found = fetch_one(connection, select(audits).where(audits.c.id == audit_id), Audit)
    assert found is not None
    return found
