"""What Freshlake writes does not depend on settings that the user's Spark was started with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.refresh import worker
from freshlake.refresh.worker import Worker


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


def session(**given: str) -> Any:
    return SimpleNamespace(conf=Conf(given), newSession=lambda: session(**given))


def test_programs_run_under_settings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "own_catalog", lambda made: made)
    monkeypatch.setattr(worker, "Bridge", lambda made: None)
    monkeypatch.setattr(worker, "SessionNames", SimpleNamespace(of=lambda bridge: None))
    monkeypatch.setattr(worker, "settings_of", lambda session: dict(session.conf))
    own = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.databricks.delta.autoCompact.enabled": "true",
    }
    started = Worker.start(cast(Any, session(**own)))
    running = cast(Any, started.running).conf
    assert {name: running[name] for name in own} == {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.databricks.delta.autoCompact.enabled": "false",
    }
