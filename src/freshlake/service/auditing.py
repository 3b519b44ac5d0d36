"""Auditing: a table is looked at, a mismatch is confirmed, the table is quarantined, put right, and let go again.

The first look needs no lease, so refreshes go on. What it finds counts only if a second look finds it too, while nobody
else writes the table, and if the stream tables that it reads are sound. From then on the table is in quarantine until
its rows are right and every reader of it will follow what was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from freshlake.alerts.alert import plain
from freshlake.catalog.audits import Audit, NewAudit
from freshlake.catalog.enums import AuditOutcome, RefreshMode
from freshlake.catalog.records import Lease, StreamTable
from freshlake.errors import FreshlakeError, InvalidArgument, InvariantViolated, StorageCorrupt, StorageMissing
from freshlake.refresh.audit import Check, Inspection, Keys, inspect, never
from freshlake.refresh.choose import STORAGE_LOST
from freshlake.refresh.engine import Engine
from freshlake.refresh.failing import MAY_PASS
from freshlake.refresh.loss import damage
from freshlake.refresh.recover import held
from freshlake.refresh.refused import full_refused
from freshlake.refresh.repair import repair
from freshlake.refresh.sampling import Draw
from freshlake.service.announce import Announcer
from freshlake.service.readers import not_taken_over
from freshlake.service.rounds import Rounds

_LOOKS = 3
_WAIT_SECONDS = 60.0

REQUEST, SCHEDULER = "request", "scheduler"
"""Who asks for audits."""

_DAMAGED = (InvariantViolated, StorageCorrupt, StorageMissing)
WRONG = (AuditOutcome.MISMATCH, AuditOutcome.REPAIRED, AuditOutcome.UNREPAIRED)


@dataclass(frozen=True)
class Unseen:
    """Why a table could not be compared."""

    why: str
    is_damaged: bool = False
    """Whether what is stored cannot even be read."""


Found = Inspection | Unseen


@dataclass
class Auditing:
    engine: Engine
    rounds: Rounds
    announcer: Announcer
    stopped: Callable[[], bool] = never
    """Whether a look at a table is to end, which raises Stopped; what was found wrong is put right all the same."""

    def audit(self, table: StreamTable, asked_by: str, limit: int | None = None, keys: Keys | None = None) -> Audit:
        """Look at a table and record what was found; of one that is larger than `limit` rows at some keys only."""
        started = self.engine.clock.now()
        by = keys or (None if limit is None else Draw(limit, self._turn()))
        seen, found = self._look(table, by)
        if _is_wrong(found):
            return self._confirm(seen, started, asked_by, by)
        return self._record(seen, found, started, asked_by)

    def repair(self, table: StreamTable, asked_by: str) -> Audit:
        """Put a table right, whatever its options say about FULL if a person asks; one that is right is let go."""
        started = self.engine.clock.now()
        with held(self.engine, table.id, _WAIT_SECONDS) as (lease, current):
            found = self._found(current, None, self.stopped)
            if not _is_wrong(found) and not current.is_quarantined:
                return self._record(current, found, started, asked_by)
            known = next(iter(self.engine.catalog.audits(current.id, 1)), None)
            if known is None or known.outcome not in WRONG or not current.is_quarantined:
                known = self._quarantine(current, lease, found, started, asked_by)
            return self._put_right(current, lease, found, known, asked_by)

    # Looking ---------------------------------------------------------------------------------------------------------

    def _turn(self) -> int:
        """Another number for every audit, so that samples go round."""
        newest = next(iter(self.engine.catalog.audits(None, 1)), None)
        return 0 if newest is None else newest.id

    def _look(self, table: StreamTable, by: Draw | Keys | None) -> tuple[StreamTable, Found]:
        """As the table stands; what a fold cleans up under the look is looked at again where the table stands then."""
        for _ in range(_LOOKS):
            table = self.engine.catalog.get_by_id(table.id)
            found = self._found(table, by, self.stopped)
            now = self.engine.catalog.get_by_id(table.id)
            if isinstance(found, Inspection) or _stand(now) == _stand(table):
                break
        return table, found

    def _found(self, table: StreamTable, by: Draw | Keys | None, stopped: Callable[[], bool] = never) -> Found:
        if table.needs_reinit and (lost := damage(self.engine, table)) is not None:
            return Unseen(f"{STORAGE_LOST}: {lost}", is_damaged=True)
        try:
            found = inspect(self.engine, table, by, stopped)
        except InvalidArgument:
            raise  # keys that are none
        except FreshlakeError as error:
            is_damaged = isinstance(error, _DAMAGED) or damage(self.engine, table) is not None
            return Unseen(f"{error.code}: {error.message}", is_damaged)
        if found.is_equal:
            found.release()
        return found

    def _confirm(self, table: StreamTable, started: datetime, asked_by: str, by: Draw | Keys | None) -> Audit:
        """The cause may be above: a table over wrong rows that were changed behind its back differs too."""
        limit = by.limit if isinstance(by, Draw) else None
        for upstream in self._upstreams(table):
            wrong = upstream.is_quarantined or self.audit(upstream, asked_by, limit).outcome in WRONG
            if wrong:
                why = f"stream table {upstream.full_name.short}, which it reads, was found wrong"
                return self._record(table, Unseen(why), started, asked_by)
        with held(self.engine, table.id, _WAIT_SECONDS) as (lease, current):
            found = self._found(current, by, self.stopped)
            if not _is_wrong(found):
                return self._record(current, found, started, asked_by, "a first look differed, a second one did not")
            audit = self._quarantine(current, lease, found, started, asked_by)
            if not self.engine.settings.audit_repair:
                return audit
            return self._put_right(current, lease, self._widened(current, found, by), audit, asked_by)

    def _upstreams(self, table: StreamTable) -> list[StreamTable]:
        edges = self.engine.catalog.dependencies(table.id)
        ids = [e.stream_table_id for e in edges if e.stream_table_id is not None]
        return list(self.engine.catalog.stream_tables_by_id(ids).values()) if ids else []

    def _widened(self, table: StreamTable, found: Found, by: Draw | Keys | None) -> Found:
        """A sample that differs says nothing about the other keys: all are compared, unless FULL is forbidden too."""
        if by is None or isinstance(found, Unseen) or found.is_whole or self._no_full(table):
            return found
        found.release()
        return self._found(table, None)

    # Putting right ---------------------------------------------------------------------------------------------------

    def _quarantine(self, table: StreamTable, lease: Lease, found: Found, started: datetime, asked_by: str) -> Audit:
        new = _new_audit(table, found, started, asked_by)
        audit = self.engine.catalog.begin_quarantine(lease.epoch, replace(new, outcome=AuditOutcome.MISMATCH))
        self.engine.reached("quarantined")
        self.announcer.quarantined(table, audit, self.engine.catalog.dependents(table.source_key))
        return audit

    def _put_right(self, table: StreamTable, lease: Lease, found: Found, audit: Audit, asked_by: str) -> Audit:
        try:
            refresh_id = self._repaired(table, lease, found, by_person=asked_by == REQUEST)
        except MAY_PASS:
            raise  # it is tried again later
        except FreshlakeError as error:
            why = f"{error.code}: {error.message}"
            audit = self.engine.catalog.end_audit(audit.id, AuditOutcome.UNREPAIRED, detail=why)
            self.announcer.unrepaired(table, audit)
            return audit
        finally:
            if isinstance(found, Inspection):
                found.release()
        return self._let_go(table, lease, audit, refresh_id)

    def _repaired(self, table: StreamTable, lease: Lease, found: Found, *, by_person: bool) -> str | None:
        """The id of the refresh that put it right; None if that was done before. Raises if it could not be done.

        Where only a sample was put right, another sample must be right as well.
        """
        if isinstance(found, Unseen) and found.is_damaged:
            self.engine.catalog.update(table.id, needs_reinit=True)
        if isinstance(found, Unseen) or not found.is_verified:
            return self._recomputed(table, lease, by_person)
        refresh_id = repair(self.engine, lease, found).refresh_id if found.corrections else None
        looks = [found.by, replace(found.by, turn=found.by.turn + 1)] if isinstance(found.by, Draw) else [found.by]
        current = self.engine.catalog.get_by_id(table.id)
        if all(_is_right(self._found(current, by)) for by in looks):
            return refresh_id
        return self._recomputed(table, lease, by_person)

    def _recomputed(self, table: StreamTable, lease: Lease, by_person: bool) -> str | None:
        """Everything computed again at the newest positions, stored as a difference, and looked at once more."""
        if not by_person and (why := self._no_full(table)):
            raise full_refused(table.full_name, why)
        moment = self.rounds.begin(self.engine.catalog.dependencies(table.id))
        requested = {table.id: RefreshMode.FULL}
        outcome = self.rounds.run([table], moment, requested, leases={table.id: lease}, repairs=True)
        for error in outcome.failed.values():
            raise error
        if _is_right(self._found(self.engine.catalog.get_by_id(table.id), None)):
            return outcome.results[0].refresh_id
        raise InvariantViolated("computed again as a whole, it still differs from its query")

    def _no_full(self, table: StreamTable) -> str | None:
        return self.engine.next_choice(table).no_full

    def _let_go(self, table: StreamTable, lease: Lease, audit: Audit, refresh_id: str | None) -> Audit:
        catalog = self.engine.catalog
        current = catalog.get_by_id(table.id)
        rebuilt = not_taken_over(self.engine, current)
        with catalog.transaction():
            audit = catalog.end_audit(audit.id, AuditOutcome.REPAIRED, refresh_id=refresh_id)
            catalog.end_quarantine(table.id, lease.epoch, [reader.id for reader in rebuilt])
            if self.rounds.is_alone(table):
                catalog.publish([lease])
        self.engine.reached("let go")
        self.announcer.repaired(table, audit, rebuilt)
        return audit

    # Recording -------------------------------------------------------------------------------------------------------

    def _record(
        self, table: StreamTable, found: Found, started: datetime, asked_by: str, detail: str | None = None
    ) -> Audit:
        new = _new_audit(table, found, started, asked_by)
        return self.engine.catalog.add_audit(replace(new, detail=detail) if detail else new)


def _stand(table: StreamTable) -> tuple[Any, ...]:
    return table.generation, table.version, table.folded_version, table.nodes


def _is_wrong(found: Found) -> bool:
    return found.is_damaged if isinstance(found, Unseen) else not found.is_equal


def _is_right(found: Found) -> bool:
    return isinstance(found, Inspection) and found.is_verified and found.is_equal


def _new_audit(table: StreamTable, found: Found, started: datetime, asked_by: str) -> NewAudit:
    new = NewAudit(table.id, started, AuditOutcome.NOT_VERIFIED, asked_by, table.generation, table.version)
    if isinstance(found, Unseen):
        return replace(new, detail=found.why, evidence=_stood(table) if found.is_damaged else None)
    wrong = [check for check in found.checks if not check.is_equal]
    # what differs from the query does so because a node does, unless none does
    counted = [check for check in wrong if check.subject != "query"] or wrong
    rows = {check.subject: plain(check.sample) for check in wrong}
    return replace(
        new,
        outcome=AuditOutcome.EQUAL if found.is_verified else AuditOutcome.NOT_VERIFIED,
        checks=tuple(map(_shown, found.checks)),
        missing=sum(check.missing for check in counted),
        unexpected=sum(check.unexpected for check in counted),
        compared_rows=(table.row_count or 0) if found.is_whole else 0,
        detail="; ".join(dict.fromkeys(check.why for check in found.checks if check.why)) or None,
        evidence={**_stood(table), "rows": rows} if wrong else None,
    )


def _shown(check: Check) -> dict[str, Any]:
    return {name: plain(value) for name, value in asdict(check).items() if name != "sample" and value is not None}


def _stood(table: StreamTable) -> dict[str, Any]:
    """Where everything stood that was compared."""
    nodes = {node: asdict(state) for node, state in table.nodes.items()}
    root = {"version": table.version, "base_version": table.fold_base_version, "folded_version": table.folded_version}
    return {"frontier": plain(table.frontier), "fingerprint": table.fingerprint, "nodes": {"root": root, **nodes}}
