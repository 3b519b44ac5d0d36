"""Health: what a person should act on, told from the catalog and the heads of the sources; no Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from freshlake.catalog.enums import FoldPolicy, RefreshMode, Status
from freshlake.catalog.leases import is_live
from freshlake.catalog.owner import describe, is_dead
from freshlake.catalog.records import Dependency, Lease, Refresh, StreamTable, TrackedSource
from freshlake.config import Settings
from freshlake.errors import (
    FreshlakeError,
    NotDifferentiable,
    RefreshFailed,
    StreamTableNotPopulated,
    StreamTableQuarantined,
    StreamTableSuspended,
)
from freshlake.refresh.edges import graph
from freshlake.refresh.engine import Engine
from freshlake.schedule.effective import effective_schedules
from freshlake.schedule.expression import Calculated, parse_schedule
from freshlake.service.capture_report import CaptureReport
from freshlake.service.database_findings import capture_findings, delivery_findings
from freshlake.service.deliveries import Deliveries
from freshlake.service.liveness import liveness
from freshlake.service.report import Finding, Severity, unfolded_versions
from freshlake.service.watched import limits, watched

_ORDER = tuple(Severity)


@dataclass
class Health:
    engine: Engine
    capture: CaptureReport
    deliveries: Deliveries

    def findings(self) -> list[Finding]:
        """Worst first; among equals sources come before the stream tables that may suffer from them."""
        tables = self.engine.catalog.stream_tables()
        found = [*self._sources(self.engine.catalog.tracked_sources()), *capture_findings(self.capture)]
        found += [*delivery_findings(self.deliveries), *self.scheduler(tables)]
        found += [finding for table in tables for finding in self.of_table(table)]
        return sorted(found, key=lambda finding: _ORDER.index(finding.severity))

    def of_table(self, table: StreamTable) -> list[Finding]:
        """What is wrong with a stream table itself."""
        return check(self._seen(table))

    def sources_of(self, edges: Sequence[Dependency]) -> list[Finding]:
        """What is wrong with what a stream table reads, and with its capture."""
        keys = {edge.source_key for edge in edges}
        read = [source for source in self.engine.catalog.tracked_sources() if source.source_key in keys]
        read_from = self.engine.catalog.stream_tables_by_id([i for e in edges if (i := e.stream_table_id) is not None])
        mirrors = [table.full_name for table in read_from.values() if table.is_mirror]
        names = {*map(str, mirrors), *(name.database for name in mirrors)}
        found = [finding for finding in capture_findings(self.capture) if finding.name in names] if names else []
        return [*self._sources(read), *found]

    def scheduler(self, tables: Sequence[StreamTable]) -> list[Finding]:
        """Whether somebody keeps the schedules of all stream tables, which these are."""
        engine, now = self.engine, self.engine.catalog.shared_now()
        if not engine.settings.enabled:
            return liveness(engine.catalog.daemons(), (), None, None, now)
        seen = {row.full_name: watched(row, now) for row in engine.catalog.look()}
        schedules = effective_schedules(graph(engine.catalog), seen, limits(engine.settings))
        active = [s for n, s in schedules.items() if seen[n].is_active and not s.is_immediate and not s.is_on_demand]
        shortest = min((s.shortest_seconds for s in active if s.shortest_seconds is not None), default=None)
        newest = max((t.last_refresh_at for t in tables if t.last_refresh_at is not None), default=None)
        own = [table.full_name.short for table in tables if _is_scheduled(table)]
        return liveness(engine.catalog.daemons(), own, shortest, newest, now)

    def _sources(self, sources: Iterable[TrackedSource]) -> Iterator[Finding]:
        for source in sources:
            problem = self._problem(source)
            if problem is not None:
                yield _unreadable(source, problem)

    def _problem(self, source: TrackedSource) -> FreshlakeError | None:
        edge = Dependency(source.source_key, source.source_type, source.source_name, source.location)
        try:
            self.engine.head(edge)
        except StreamTableNotPopulated:
            return None  # a stream table, which has this finding itself
        except FreshlakeError as error:
            return error
        return None

    def _seen(self, table: StreamTable) -> Seen:
        catalog, now = self.engine.catalog, self.engine.clock.now()
        lease = catalog.lease(table.id)
        left = lease if lease is not None and self.is_left(lease) else None
        failed = catalog.last_failure(table.id) if _is_failing(table) else None
        return Seen(table, self.engine.settings, now, failed, left)

    def is_left(self, lease: Lease) -> bool:
        """Whether it was not given back and keeps nobody away any more."""
        return not is_live(lease.owner, lease.expires_at, self.engine.catalog.shared_now())


@dataclass(frozen=True)
class Seen:
    """What the checks of one stream table look at."""

    table: StreamTable
    settings: Settings
    now: datetime
    failed: Refresh | None = None
    """The last refresh that failed, of a table whose refreshes fail."""
    left: Lease | None = None
    """A lease that was not given back and keeps nobody away any more."""

    def finding(self, severity: Severity, code: str, message: str, hint: str) -> Finding:
        return Finding(severity, code, self.name, message, hint)

    @property
    def name(self) -> str:
        return self.table.full_name.short


def check(seen: Seen) -> list[Finding]:
    """Everything that is found about one stream table."""
    return [finding for look in CHECKS if (finding := look(seen)) is not None]


def _is_scheduled(table: StreamTable) -> bool:
    return table.status is Status.ACTIVE and not isinstance(parse_schedule(table.schedule), Calculated)


def _is_failing(table: StreamTable) -> bool:
    return table.status is Status.ERROR or table.consecutive_errors > 0


def _failing(seen: Seen) -> Finding | None:
    """A few failures are a warning, as many as make a table go to ERROR are an error."""
    if not _is_failing(seen.table):
        return None
    errors = seen.table.consecutive_errors
    given_up = seen.table.status is Status.ERROR or errors >= seen.settings.max_consecutive_errors
    code, why, hint = _last_error(seen.failed)
    which = "the last refresh" if errors <= 1 else f"the last {errors} refreshes"
    return seen.finding(
        Severity.ERROR if given_up else Severity.WARNING,
        code,
        f"{which} failed: {why}" if why else f"{which} failed",
        hint or "correct the cause and refresh; the history has the whole message",
    )


def _suspended(seen: Seen) -> Finding | None:
    if seen.table.status is not Status.SUSPENDED:
        return None
    return seen.finding(
        Severity.WARNING,
        StreamTableSuspended.code,
        "it is suspended and not refreshed",
        f"resume it: ALTER STREAM TABLE {seen.name} RESUME",
    )


def _quarantined(seen: Seen) -> Finding | None:
    if not seen.table.is_quarantined:
        return None
    return seen.finding(
        Severity.ERROR,
        StreamTableQuarantined.code,
        f"its rows are not those of its query, as is known since {moment(seen.table.quarantined_at)}; it is not "
        "refreshed, and its readers wait",
        f"look at SHOW STREAM TABLE AUDITS {seen.name}, then repair it: REPAIR STREAM TABLE {seen.name}",
    )


def _never_loaded(seen: Seen) -> Finding | None:
    if seen.table.is_populated:
        return None
    return seen.finding(
        Severity.WARNING,
        StreamTableNotPopulated.code,
        "it was never loaded and cannot be read",
        f"load it: REFRESH STREAM TABLE {seen.name}",
    )


def _rebuild(seen: Seen) -> Finding | None:
    if not seen.table.needs_reinit:
        return None
    return seen.finding(
        Severity.WARNING,
        "reinitialize-needed",
        "it is marked for a rebuild",
        f"rebuild it: REFRESH STREAM TABLE {seen.name}",
    )


def _never_differential(seen: Seen) -> Finding | None:
    reasons = seen.table.reasons
    if seen.table.refresh_mode is not RefreshMode.AUTO or not reasons:
        return None
    return seen.finding(
        Severity.WARNING,
        NotDifferentiable.code,
        f"every refresh is FULL: {'; '.join(reason['message'] for reason in reasons)}",
        f"rewrite the query, or say that FULL is intended: ALTER STREAM TABLE {seen.name} SET REFRESH MODE FULL",
    )


def _unfolded(seen: Seen) -> Finding | None:
    """With a policy other than manual this means that folds fail or never come about."""
    policy, versions = seen.table.fold_policy, unfolded_versions(seen.table)
    # a log that has just grown long enough is no news: its fold may be running
    if versions <= (1 if policy is FoldPolicy.ALWAYS else seen.settings.fold_after_refreshes):
        return None
    return seen.finding(
        Severity.WARNING,
        "log-not-folded",
        f"{versions} versions of its log are not folded, the fold policy is {policy}",
        f"fold it: FOLD STREAM TABLE {seen.name}",
    )


def _lease_left(seen: Seen) -> Finding | None:
    lease = seen.left
    if lease is None:
        return None
    end = "ended" if is_dead(lease.owner) else f"was last heard of at {moment(lease.heartbeat_at)}"
    return seen.finding(
        Severity.WARNING,
        "stale-lease",
        f"{describe(lease.owner)} {end} and has not given its lease back",
        f"refresh it, which takes the lease over: REFRESH STREAM TABLE {seen.name}",
    )


def _stale(seen: Seen) -> Finding | None:
    """Past its schedule twice: a refresh that is due or running is no news."""
    table = seen.table
    schedule = parse_schedule(table.schedule)
    if table.status is not Status.ACTIVE or table.data_timestamp is None or isinstance(schedule, Calculated):
        return None
    if seen.now <= schedule.next_after(schedule.next_after(table.data_timestamp)):
        return None
    return seen.finding(
        Severity.WARNING,
        "stale-data",
        f"its data is of {moment(table.data_timestamp)}, its schedule is {schedule}",
        f"refresh it: REFRESH STREAM TABLE {seen.name}; and look at what should do so on schedule",
    )


CHECKS: tuple[Callable[[Seen], Finding | None], ...] = (
    _quarantined,
    _failing,
    _suspended,
    _never_loaded,
    _rebuild,
    _never_differential,
    _unfolded,
    _lease_left,
    _stale,
)


def _unreadable(source: TrackedSource, problem: FreshlakeError) -> Finding:
    readers = ", ".join(consumer.name.short for consumer in source.consumers)
    why = f"{problem.message}: {problem.detail}" if problem.detail else problem.message
    return Finding(
        Severity.ERROR,
        problem.code,
        source.source_name,
        f"{why}; read by {readers}",
        problem.hint or "make it readable again, or change or drop the stream tables that read it",
    )


def _last_error(failed: Refresh | None) -> tuple[str, str | None, str | None]:
    """Code, message with detail, and hint of a failed refresh; one line, the history has the others."""
    if failed is None or not failed.error_message:
        return RefreshFailed.code, None, None
    text, _, hint = failed.error_message.partition("\nhint: ")
    message, _, detail = text.partition("\ndetail: ")
    parts = [part.splitlines()[0] for part in (message, detail) if part]
    return failed.error_code or RefreshFailed.code, ": ".join(parts), hint or None


def moment(at: datetime | None) -> str:
    """A moment as people read it."""
    return "?" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
