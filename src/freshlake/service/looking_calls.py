"""The calls of a lake that only look: what there is, what happened, what would happen, and what is wrong."""

from __future__ import annotations

from freshlake.service.audits import AuditRecord, Audits
from freshlake.service.calls import Calls
from freshlake.service.choices import Choice, PastChoice, next_choice, past_choices
from freshlake.service.doctor import Diagnosis, Doctor
from freshlake.service.health import Health
from freshlake.service.quiet import quietly
from freshlake.service.report import Finding, RefreshRecord, Report, SourceInfo, StreamTableStatus, TreeLine
from freshlake.service.settings import SettingInfo, setting_infos


class LookingCalls(Calls):
    """What users call; a lake has them among its own."""

    _report: Report
    _audits: Audits
    _health: Health
    _doctor: Doctor

    def explain_choice(self, name: str) -> Choice:
        """What the next refresh would do, and why; no Spark job is run."""
        with quietly():
            return next_choice(self._engine, self._stream_table(name))

    def replay_choices(self, name: str, limit: int = 20) -> list[PastChoice]:
        """Past decisions, newest first, each made again from the inputs that the history keeps."""
        return past_choices(self._engine, self._stream_table(name), limit)

    def status(self) -> list[StreamTableStatus]:
        return self._report.status()

    def history(self, name: str | None = None, limit: int = 20) -> list[RefreshRecord]:
        """Refreshes, newest first."""
        return self._report.history(self._stream_table(name) if name else None, limit)

    def audits(self, name: str | None = None, limit: int = 20) -> list[AuditRecord]:
        """Audits, newest first."""
        return self._audits.records(self._stream_table(name) if name else None, limit)

    def sources(self, name: str | None = None) -> list[SourceInfo]:
        return self._report.sources(self._stream_table(name) if name else None)

    def health(self) -> list[Finding]:
        """What a person should act on, worst first; an empty list means healthy. No Spark job is run."""
        return self._health.findings()

    def doctor(self, name: str) -> list[Diagnosis]:
        """All that keeps a stream table fresh, looked at in turn: what is well, too. No Spark job is run."""
        with quietly():
            return self._doctor.examine(self._stream_table(name))

    def settings(self) -> list[SettingInfo]:
        """The settings in force, each with where it comes from."""
        return setting_infos(self._engine.settings)

    def dependency_tree(self) -> list[TreeLine]:
        return self._report.tree()
