"""The sampler: audits one stream table after the other in the background, when a scheduler has nothing else to do."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from freshlake.catalog.audits import Audit
from freshlake.catalog.enums import AuditOutcome
from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError, NotFound
from freshlake.refresh.audit import Stopped
from freshlake.refresh.engine import Engine
from freshlake.schedule.audit import Candidate, next_audit
from freshlake.schedule.graph import Graph
from freshlake.service.auditing import SCHEDULER, Auditing

_log = logging.getLogger("freshlake.audit")
_BUSY = 4
"""So many intervals an audit may be late before it no longer waits for a quiet moment."""
_REPAIR_SECONDS = 60
"""A repair that was interrupted is taken up sooner than the next audit: readers wait for it."""
_LOOK_SECONDS = 10
"""Whose turn it is need not be asked in every tick."""


class Sampler:
    """One per scheduler, and one audit at a time in a lake: whose turn it is says the catalog."""

    def __init__(self, engine: Engine, auditing: Auditing) -> None:
        self._engine, self._auditing = engine, auditing
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._stopping = threading.Event()
        self._not_before = datetime.min.replace(tzinfo=UTC)

    def start(self) -> None:
        self._stopping.clear()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="freshlake-audit")

    def stop(self, timeout: float | None = None) -> bool:
        """Begin no more audits, and wait until the one that runs has ended its step; False after the timeout."""
        self._stopping.set()
        if self._pool is None:
            return True
        ended = self._running is None or not wait([self._running], timeout).not_done
        self._pool.shutdown(wait=ended, cancel_futures=True)
        self._pool = None
        return ended

    def consider(self, known: Graph, now: datetime, *, is_idle: bool) -> bool:
        """Begin an audit if it is time for one; whether it was begun."""
        settings = self._engine.settings
        if self._pool is None or not settings.audit_interval_seconds or not settings.enabled:
            return False
        if now < self._not_before or (self._running is not None and not self._running.done()):
            return False
        self._not_before = now + timedelta(seconds=min(settings.audit_interval_seconds, _LOOK_SECONDS))
        chosen = self.choose(known, now)
        if chosen is None:
            return False
        interval = settings.audit_interval_seconds * (1 if is_idle else _BUSY)
        interval = min(interval, _REPAIR_SECONDS) if chosen.is_unrepaired else interval
        if not self._engine.catalog.claim_audit(interval):
            return False
        self._running = self._pool.submit(self._audit, chosen)
        return True

    def choose(self, known: Graph, now: datetime) -> Candidate | None:
        """The table whose turn it is."""
        tables = {str(table.full_name): table for table in self._engine.catalog.stream_tables()}
        audits = self._engine.catalog.last_audits()
        wrong = {name for name, table in tables.items() if table.is_quarantined}
        found = (self._candidate(table, audits.get(table.id), known, wrong) for table in tables.values())
        return next_audit(found, now)

    def _candidate(self, table: StreamTable, last: Audit | None, known: Graph, wrong: set[str]) -> Candidate:
        name = str(table.full_name)
        unrepaired = table.is_quarantined and last is not None and last.outcome is AuditOutcome.MISMATCH
        unrepaired = unrepaired and self._engine.settings.audit_repair
        # to audit a mirror is to copy its table once more: for a person to ask
        unread = not table.is_populated or table.is_mirror
        over_wrong = bool(wrong & set(known.inputs(name))) if name in known.reads else True
        return Candidate(
            name,
            audited_at=last.started_at if last else None,
            readers=len(known.downstream(name)),
            is_changed=last is None or (last.generation, last.version) != (table.generation, table.version),
            is_unrepaired=unrepaired,
            is_left_out=unread or over_wrong or (table.is_quarantined and not unrepaired),
        )

    def _audit(self, chosen: Candidate) -> None:
        """Never raises: whatever happened to one audit, the next one may be better."""
        try:
            context = self._engine.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
            table = self._engine.catalog.get(chosen.name)
            auditing = replace(self._auditing, stopped=self._stopping.is_set)
            if chosen.is_unrepaired:
                audit = auditing.repair(table, SCHEDULER)
            else:
                audit = auditing.audit(table, SCHEDULER, self._engine.settings.audit_max_rows)
            _log.info("%s: %s", table.full_name.short, audit.outcome)
        except Stopped:
            _log.info("the audit of %s was stopped; it is audited again later", chosen.name)
        except NotFound:
            _log.info("%s was dropped before it could be audited", chosen.name)
        except FreshlakeError as error:
            _log.warning("the audit of %s did not end: %s: %s", chosen.name, error.code, error.message)
        except Exception:
            _log.exception("the audit of %s failed in a way that was not expected", chosen.name)
