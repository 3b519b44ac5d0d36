"""The doctor: everything that keeps one stream table fresh, looked at in turn; no Spark job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from freshlake.catalog.daemons import is_awake
from freshlake.catalog.enums import RefreshStatus
from freshlake.catalog.owner import describe
from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.service.choices import next_choice
from freshlake.service.health import Health, moment
from freshlake.service.report import Finding

_RECENT = 20


class Verdict(StrEnum):
    """How something is; OK also for what is worth knowing, but nothing to act on."""

    OK = "OK"
    WARNING = "WARNING"
    ERROR = "ERROR"


@dataclass(frozen=True)
class Diagnosis:
    """One line of the checklist."""

    check: str
    verdict: Verdict
    detail: str
    hint: str | None = None


@dataclass
class Doctor:
    engine: Engine
    health: Health

    def examine(self, table: StreamTable) -> list[Diagnosis]:
        """Every check at least once, in the order in which they depend on one another."""
        return [
            *self._scheduler(),
            *self._sources(table),
            *self._status(table),
            *self._pending(table),
            *self._errors(table),
            *self._lease(table),
        ]

    def _scheduler(self) -> Iterator[Diagnosis]:
        findings = self.health.scheduler(self.engine.catalog.stream_tables())
        yield from (_from("scheduler", finding) for finding in findings)
        if findings:
            return
        now = self.engine.catalog.shared_now()
        awake = [daemon for daemon in self.engine.catalog.daemons() if is_awake(daemon, now)]
        names = ", ".join(describe(daemon.owner) for daemon in awake)
        yield _ok("scheduler", f"awake: {names}" if awake else "none, and no stream table has a schedule of its own")

    def _sources(self, table: StreamTable) -> Iterator[Diagnosis]:
        edges = self.engine.catalog.dependencies(table.id)
        findings = self.health.sources_of(edges)
        yield from (_from("sources", finding) for finding in findings)
        if not findings:
            names = ", ".join(edge.source_name for edge in edges)
            yield _ok("sources", f"there, and changes of them can be followed: {names}" if names else "it reads none")

    def _status(self, table: StreamTable) -> Iterator[Diagnosis]:
        findings = self.health.of_table(table)
        yield from (_from("status", finding) for finding in findings)
        if not findings:
            yield _ok("status", f"{table.shown_status}, version {table.version}, of {moment(table.data_timestamp)}")

    def _pending(self, table: StreamTable) -> Iterator[Diagnosis]:
        try:
            choice = next_choice(self.engine, table)
        except FreshlakeError as error:
            hint = error.hint or "put right what else this list names"
            yield Diagnosis("pending changes", Verdict.ERROR, f"{error.code}: {error.message}", hint)
            return
        seen = f"changed rows: {'unknown' if choice.changed_rows is None else f'{choice.changed_rows:,}'}"
        if choice.error is not None:
            hint = f'fl.explain_choice("{table.full_name.short}") has all that decides it'
            yield Diagnosis("pending changes", Verdict.WARNING, f"{seen}; a refresh is refused: {choice.error}", hint)
            return
        why = ", ".join(word for word in (choice.reason, choice.detail) if word)
        yield _ok("pending changes", f"{seen}; the next refresh is {choice.action}{f' ({why})' if why else ''}")

    def _errors(self, table: StreamTable) -> Iterator[Diagnosis]:
        rows = self.engine.catalog.history(table.id, _RECENT)
        failed = [row for row in rows if row.status is RefreshStatus.FAILED]
        if not failed:
            yield _ok("recent errors", f"none; refreshes looked at: {len(rows)}")
            return
        last = failed[0]
        message = (last.error_message or "").partition("\n")[0]
        yield Diagnosis(
            "recent errors",
            Verdict.WARNING,
            f"failed: {len(failed)} of {len(rows)}, last at {moment(last.start_time)}: {message}",
            "the history has the whole messages",
        )

    def _lease(self, table: StreamTable) -> Iterator[Diagnosis]:
        held = self.engine.catalog.lease(table.id)
        if held is None or self.health.is_left(held):
            yield _ok("lease", "nobody works on it")
        else:
            yield _ok("lease", f"{describe(held.owner)} works on it since {moment(held.acquired_at)}")


def _ok(check: str, detail: str) -> Diagnosis:
    return Diagnosis(check, Verdict.OK, detail)


def _from(check: str, found: Finding) -> Diagnosis:
    return Diagnosis(check, Verdict(found.severity), f"{found.code}: {found.message}", found.hint)
