"""How `freshlake run` ends: it waits for what runs, and once more asked it does not. The lake is played by a double."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import freshlake
from freshlake.cli import main
from freshlake.errors import CatalogUnavailable

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Daemon:
    """Is sent SIGTERM when it has begun, and the given signals while it drains."""

    def __init__(self, *while_draining: signal.Signals, drains: bool = True) -> None:
        self.while_draining, self.error = while_draining, None if drains else CatalogUnavailable("no answer")
        self.released, self.reloads, self.is_closed = threading.Event(), 0, False

    def on_refresh(self, told: object) -> None: ...

    def start_scheduler(self) -> None:
        signal.raise_signal(signal.SIGTERM)

    def stop_scheduler(self) -> bool:
        for asked in self.while_draining:
            os.kill(os.getpid(), asked)
        if signal.SIGTERM in self.while_draining or signal.SIGINT in self.while_draining:
            self.released.wait()  # a refresh that does not end
        if self.error is not None:
            raise self.error
        return True

    def reload_settings(self) -> None:
        self.reloads += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def code(daemon: Daemon, lake: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(freshlake, "connect", lambda path: daemon)
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        main(["--lake", str(lake), "run"])
    daemon.released.set()
    return int(ended.value.code or 0)


def test_it_waits_for_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(signal.SIGHUP)
    assert code(daemon, tmp_path, monkeypatch) == 0
    assert daemon.is_closed
    assert daemon.reloads == 0, "it has ended"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], second: signal.Signals
) -> None:
    assert code(Daemon(second), tmp_path, monkeypatch) == 1
    assert "ended before refreshes were finished" in capfd.readouterr().err


def test_what_goes_wrong_with_ending_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert code(Daemon(drains=False), tmp_path, monkeypatch) != 0
    assert "catalog-unavailable" in capfd.readouterr().err
