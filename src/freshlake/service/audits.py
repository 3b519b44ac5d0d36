"""Audits as people see and ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freshlake.catalog.audits import Audit
from freshlake.catalog.enums import AuditOutcome
from freshlake.catalog.records import StreamTable
from freshlake.errors import InvalidArgument, SourceHistoryLost
from freshlake.refresh.audit import Keys
from freshlake.refresh.result import Verification
from freshlake.refresh.verify import verify
from freshlake.service.auditing import REQUEST, Auditing

_LOOKS = 3


@dataclass(frozen=True)
class AuditRecord:
    """`checks` has one entry for every comparison; `evidence` says what differed, and where everything stood."""

    table: str
    audit_id: int
    started: datetime
    ended: datetime
    outcome: AuditOutcome
    asked_by: str
    version: int
    missing: int
    unexpected: int
    compared_rows: int
    checks: tuple[Mapping[str, Any], ...]
    detail: str | None
    evidence: Mapping[str, Any] | None
    refresh_id: str | None


@dataclass
class Audits:
    auditing: Auditing

    def verify(self, table: StreamTable) -> Verification:
        """Only look: nothing is recorded but an alert, and nothing is done about it."""
        found = self._verified(table)
        self.auditing.announcer.verified(table, found)
        return found

    def _verified(self, table: StreamTable, looks: int = _LOOKS) -> Verification:
        """As the table stands; one that moved under the look, with what its sources keep, is looked at again."""
        engine = self.auditing.engine
        table = engine.catalog.get_by_id(table.id)
        try:
            found = verify(engine, table)
        except SourceHistoryLost:
            if looks == 1 or not self._has_moved(table):
                raise
        else:
            if found.equal or looks == 1 or not self._has_moved(table):
                return found
        return self._verified(table, looks - 1)

    def _has_moved(self, table: StreamTable) -> bool:
        now = self.auditing.engine.catalog.get_by_id(table.id)
        return (now.generation, now.version, now.frontier) != (table.generation, table.version, table.frontier)

    def audit(self, table: StreamTable, keys: Mapping[str, Sequence[Any]] | None) -> AuditRecord:
        return _record(table, self.auditing.audit(table, REQUEST, keys=_chosen(table, keys)))

    def repair(self, table: StreamTable) -> AuditRecord:
        return _record(table, self.auditing.repair(table, REQUEST))

    def records(self, table: StreamTable | None, limit: int) -> list[AuditRecord]:
        """Newest first."""
        catalog = self.auditing.engine.catalog
        tables = {t.id: t for t in ((table,) if table else catalog.stream_tables())}
        found = catalog.audits(table.id if table else None, limit)
        return [_record(tables[audit.stream_table_id], audit) for audit in found if audit.stream_table_id in tables]


def _record(table: StreamTable, audit: Audit) -> AuditRecord:
    return AuditRecord(
        table=table.full_name.short,
        audit_id=audit.id,
        started=audit.started_at,
        ended=audit.ended_at,
        outcome=audit.outcome,
        asked_by=audit.asked_by,
        version=audit.version,
        missing=audit.missing,
        unexpected=audit.unexpected,
        compared_rows=audit.compared_rows,
        checks=audit.checks,
        detail=audit.detail,
        evidence=audit.evidence,
        refresh_id=audit.refresh_id,
    )


def _chosen(table: StreamTable, keys: Mapping[str, Sequence[Any]] | None) -> Keys | None:
    """The keys that somebody asks for, of a column that the table has."""
    if keys is None:
        return None
    if len(keys) != 1:
        raise InvalidArgument("keys are values of one column", hint='keys={"region": ["north", None]}')
    ((column, values),) = keys.items()
    known = [field["name"] for field in (table.output_schema or {}).get("fields", ())]
    if column.lower() not in {name.lower() for name in known}:
        raise InvalidArgument(
            f"stream table {table.full_name.short} has no column {column}", hint=f"its columns are {', '.join(known)}"
        )
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgument(f"the keys of column {column} are not a list", hint=f'keys={{"{column}": [value]}}')
    return Keys(column, tuple(values))
