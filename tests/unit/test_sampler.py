"""The sampler of a scheduler that stops does not let an audit go through all it had before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.config import Settings
from freshlake.refresh.audit import Stopped, never
from freshlake.refresh.engine import Engine
from freshlake.schedule.audit import Candidate
from freshlake.schedule.graph import Graph
from freshlake.service.auditing import Auditing
from freshlake.service.sampler import Sampler


@dataclass
class Endless:
    """An audit of more and more steps."""

    begun: threading.Event
    stopped: Callable[[], bool] = never

    def audit(self, *_: Any) -> None:
        self.begun.set()
        while not self.stopped():
            pass
        raise Stopped


def test_an_audit_ends_at_its_next_step(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None))
    catalog = SimpleNamespace(claim_audit=lambda _: True, get=lambda _: SimpleNamespace())
    engine = SimpleNamespace(settings=Settings(), spark=spark, catalog=catalog)
    auditing, now = Endless(threading.Event()), datetime(2026, 5, 1, tzinfo=UTC)
    sampler = Sampler(cast(Engine, engine), cast(Auditing, auditing))
    monkeypatch.setattr(sampler, "choose", lambda *_: Candidate("default.t", None))
    for _ in range(2):
        sampler._not_before = now
        sampler.start()
        with caplog.at_level("INFO", "freshlake.audit"):
            assert sampler.consider(cast(Graph, None), now, is_idle=True)
            assert auditing.begun.wait(60)
            assert sampler.stop(60)
        assert caplog.messages == ["the audit of default.t was stopped; it is audited again later"]
        caplog.clear()
        auditing.begun.clear()
