"""`log_level` is the level of Freshlake's logger, and `freshlake run` shows on stderr what passes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import freshlake
from freshlake.cli.logs import logged
from freshlake.config import Settings
from freshlake.service import log_level
from freshlake.service.log_level import apply_log_level
from tests.unit.test_cli_commands import Double, run

LOGGER = logging.getLogger("freshlake")


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = LOGGER.level
    monkeypatch.setattr(log_level, "_ours", logging.NOTSET)
    LOGGER.setLevel(logging.NOTSET)
    yield
    LOGGER.setLevel(before)


def test_the_level_follows_the_setting() -> None:
    for word, level in (("info", logging.INFO), ("error", logging.ERROR), ("debug", logging.DEBUG)):
        apply_log_level(Settings(log_level=word))
        assert logging.getLogger("freshlake.scheduler").getEffectiveLevel() == level


def test_a_level_that_the_program_set_stays() -> None:
    apply_log_level(Settings())
    LOGGER.setLevel(logging.CRITICAL)
    apply_log_level(Settings(log_level="debug"))
    assert LOGGER.level == logging.CRITICAL


def test_what_passes_the_level_is_on_stderr_once(capsys: pytest.CaptureFixture[str]) -> None:
    apply_log_level(Settings())
    with logged():
        LOGGER.debug("too small")
        logging.getLogger("freshlake.scheduler").info("scheduler started")
        alerts = logging.getLogger("freshlake.alerts")
        alerts.info("%s %s %s", "refresh_completed", "t", "{}")
        alerts.error("%s %s %s", "refresh_failed", "t", "{}")
    LOGGER.error("afterwards")
    lines = [line for line in capsys.readouterr().err.splitlines() if line != "afterwards"]
    assert [line.split(" freshlake", 1)[1] for line in lines] == [
        ".scheduler: scheduler started",
        ".alerts: refresh_failed t {}",
    ]


def test_the_daemon_shows_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apply_log_level(Settings())
    double = Double(answers={"start_scheduler": lambda: LOGGER.info("scheduler started")})
    monkeypatch.setattr(freshlake, "connect", lambda path: double, raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert run("run", "--for", "0", "--lake", str(tmp_path)) == 0
    shown = capsys.readouterr()
    assert "INFO freshlake: scheduler started" in shown.err
    assert "scheduler started" not in shown.out
