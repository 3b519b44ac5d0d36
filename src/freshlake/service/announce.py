"""Announcing: what refreshes, alterations and verifications tell the alerts, wherever they were asked for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from freshlake.alerts import Alerts, Event
from freshlake.catalog.audits import Audit
from freshlake.catalog.enums import Action, RefreshMode, Status
from freshlake.catalog.records import Json, Refresh, StreamTable
from freshlake.errors import FreshlakeError, FullRefused, FuseBlown, SourceSchemaChanged
from freshlake.refresh.failing import ELSEWHERE
from freshlake.refresh.result import RefreshResult, Verification
from freshlake.refresh.situation import BLOWN
from freshlake.refresh.terms import DEFAULT_TERMS, Terms

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine
    from freshlake.refresh.heads import Pins

_log = logging.getLogger("freshlake")
RESTED = (Status.SUSPENDED, Status.ERROR, Status.QUARANTINED)


@dataclass
class Announcer:
    engine: Engine
    alerts: Alerts
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _partial: dict[str, set[str]] = field(default_factory=dict)
    """Groups that were told to have failed, by their last table, and who has failed in them since."""

    def refresh(
        self,
        table: StreamTable,
        pins: Pins,
        requested: RefreshMode | None = None,
        terms: Terms = DEFAULT_TERMS,
    ) -> RefreshResult:
        """One refresh by the engine, with its alerts."""
        try:
            result = self.engine.refresh(table, pins, requested, terms)
        except FreshlakeError as error:
            with _harmless():
                self._failed(table, error)
            raise
        self.refreshed(table, result)
        return result

    def refreshed(self, before: StreamTable, result: RefreshResult) -> None:
        """After a refresh that succeeded; one that found nothing to do is no alert."""
        with _harmless():
            if result.action is not Action.NO_DATA and result.refresh_id is not None:
                self._completed(before, self.engine.catalog.find_refresh(result.refresh_id))
            if before.status is Status.ERROR:
                self._resumed(before, "refresh")
            self.alerts.clear_condition(Event.REINITIALIZE_NEEDED, _name(before))

    def altered(self, before: StreamTable, after: StreamTable) -> None:
        """After a change of definition, which may have rebuilt the table and may have ended a suspension."""
        with _harmless():
            if after.generation != before.generation:
                self._completed(before, self._load_of(after))
                self.alerts.clear_condition(Event.REINITIALIZE_NEEDED, _name(before))
            if before.shown_status in RESTED and after.shown_status not in RESTED:
                self._resumed(before, "request")

    def dropped(self, table: StreamTable) -> None:
        self._settle({_name(table)})
        self.alerts.forget(_name(table))

    def together(self, tables: Sequence[StreamTable], failed: Mapping[str, FreshlakeError]) -> None:
        """After tables were to be published at once: that they were not is told until those that failed have come."""
        self._settle({_name(table) for table in tables if str(table.full_name) not in failed})
        if len(tables) == 1 or all(isinstance(error, ELSEWHERE) for error in failed.values()):
            return
        with _harmless():
            members = [_name(table) for table in tables]
            missing = sorted(_name(table) for table in tables if str(table.full_name) in failed)
            with self._lock:
                self._partial.setdefault(members[-1], set()).update(missing)
            told = {"members": members, "failed": missing}
            self.alerts.raise_condition(Event.DIAMOND_PARTIAL_FAILURE, members[-1], told)

    def _settle(self, well: set[str]) -> None:
        with self._lock:
            for missing in self._partial.values():
                missing -= well
            settled = [last for last, missing in self._partial.items() if not missing]
            for last in settled:
                del self._partial[last]
        for last in settled:
            self.alerts.clear_condition(Event.DIAMOND_PARTIAL_FAILURE, last)

    def verified(self, table: StreamTable, found: Verification) -> None:
        if not found.equal:
            counts = {"missing": found.missing, "unexpected": found.unexpected, "compared_rows": found.compared_rows}
            self.alerts.emit(Event.VERIFICATION_FAILED, _name(table), **counts)

    def quarantined(self, table: StreamTable, audit: Audit, readers: Sequence[StreamTable]) -> None:
        """After an audit found wrong rows."""
        counts = {"missing": audit.missing, "unexpected": audit.unexpected}
        waiting = [_name(reader) for reader in readers]
        self.alerts.emit(Event.QUARANTINED, _name(table), audit_id=audit.id, **counts, readers=waiting)

    def repaired(self, table: StreamTable, audit: Audit, rebuilt: Sequence[StreamTable]) -> None:
        """After wrong rows were put right and a quarantine ended."""
        with _harmless():
            done = self.engine.catalog.find_refresh(audit.refresh_id) if audit.refresh_id else None
            self._completed(table, done)
            self.alerts.emit(
                Event.REPAIRED,
                _name(table),
                audit_id=audit.id,
                refresh_id=audit.refresh_id,
                rows_inserted=done.rows_inserted if done else 0,
                rows_deleted=done.rows_deleted if done else 0,
                rebuilt_readers=[_name(reader) for reader in rebuilt],
            )

    def unrepaired(self, table: StreamTable, audit: Audit) -> None:
        self.alerts.emit(Event.REPAIR_FAILED, _name(table), audit_id=audit.id, reason=audit.detail)

    def _completed(self, before: StreamTable, refresh: Refresh | None) -> None:
        if refresh is None:
            return
        told = {
            "refresh_id": refresh.refresh_id,
            "action": refresh.action,
            "reason": refresh.fallback_reason,
            "rows_inserted": refresh.rows_inserted,
            "rows_deleted": refresh.rows_deleted,
        }
        self.alerts.emit(
            Event.REFRESH_COMPLETED,
            _name(before),
            **told,
            rows_updated=refresh.rows_updated,
            duration_ms=refresh.duration_ms,
            version=refresh.version,
            data_timestamp=refresh.data_timestamp,
        )
        if before.is_populated and refresh.action in (Action.FULL, Action.REINITIALIZE):
            rows = self.engine.catalog.get_by_id(before.id).row_count
            self.alerts.emit(Event.FULL_REFRESH_REPLACED, _name(before), **told, rows=rows)

    def _load_of(self, table: StreamTable) -> Refresh | None:
        """The refresh that began the table's generation; others may have followed already."""
        newest = self.engine.catalog.history(table.id, 10)
        loads = (r for r in newest if r.action is Action.REINITIALIZE and r.generation == table.generation)
        return next(loads, None)

    def _resumed(self, before: StreamTable, by: str) -> None:
        self.alerts.emit(Event.RESUMED, _name(before), previous_status=before.shown_status, by=by)

    def _failed(self, before: StreamTable, error: FreshlakeError) -> None:
        """A refresh that could not begin, or that another process has taken over, changes nothing and is no alert."""
        after = self.engine.catalog.get_by_id(before.id)
        what = {"error_code": error.code, "error": error.message}
        errors = after.consecutive_errors
        if errors > before.consecutive_errors:
            told = {**what, "detail": error.detail, "hint": error.hint, "consecutive_errors": errors}
            self.alerts.emit(Event.REFRESH_FAILED, _name(before), **told)
            if (reason := self._rebuild_needed(after, error)) is not None:
                self.alerts.raise_condition(Event.REINITIALIZE_NEEDED, _name(before), {"reason": reason, **what})
            self._bounded(before, error)
        if after.status is Status.ERROR and before.status is not Status.ERROR:
            self.alerts.emit(Event.AUTO_SUSPENDED, _name(before), consecutive_errors=errors, **what)

    def _bounded(self, before: StreamTable, error: FreshlakeError) -> None:
        """An option of the table has refused the refresh."""
        failed = self.engine.catalog.last_failure(before.id)
        inputs = (failed.decision if failed else None) or {}
        if isinstance(error, FuseBlown) and before.fuse_state != BLOWN:
            changed = max((_changed(source) for source in inputs.get("sources", {}).values()), default=None)
            self.alerts.emit(Event.FUSE_BLOWN, _name(before), changed_rows=changed, fuse_rows=before.fuse_rows)
        if isinstance(error, FullRefused):
            reason = (failed.fallback_reason if failed else None) or error.detail
            self.alerts.emit(Event.FULL_REFUSED, _name(before), reason=reason, **_bound(before, inputs))

    def _rebuild_needed(self, after: StreamTable, error: FreshlakeError) -> str | None:
        failed = self.engine.catalog.last_failure(after.id)
        if failed is not None and failed.action is Action.REINITIALIZE:
            return failed.fallback_reason
        if isinstance(error, SourceSchemaChanged):
            return "schema-changed"
        return "reinitialize" if after.needs_reinit else None


def _changed(source: Json) -> int:
    """Of a source that was replaced any row may be another."""
    changed = source["changed_rows"]
    return int((source["rows"] if changed is None else changed) or 0)


def _bound(table: StreamTable, inputs: Json) -> dict[str, Any]:
    if table.never_full:
        return {"bound": "never_full", "rows": None, "seconds": None, "limit": None}
    rows = [source["rows"] for source in inputs.get("sources", {}).values()]
    known = None if not rows or None in rows else sum(rows)
    if table.max_full_rows is not None and (known is None or known > table.max_full_rows):
        return {"bound": "max_full_rows", "rows": known, "seconds": None, "limit": table.max_full_rows}
    ms = inputs.get("full_ms")
    seconds = None if ms is None else ms / 1000
    return {"bound": "max_full_seconds", "rows": known, "seconds": seconds, "limit": table.max_full_seconds}


def _name(table: StreamTable) -> str:
    return table.full_name.short


@contextmanager
def _harmless() -> Iterator[None]:
    """What happened is done: not finding the words for it must not undo it."""
    try:
        yield
    except Exception as error:
        _log.warning("an alert could not be made: %s: %s", type(error).__name__, error)
