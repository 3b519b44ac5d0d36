"""A scheduler whose sources fail: what is left in the catalog, who waits, and who goes on all the same. No Spark."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from freshlake.alerts import Alerts
from freshlake.catalog import Catalog, StreamTable, TableName
from freshlake.clock import ManualClock
from freshlake.config import Settings
from freshlake.errors import SourceUnreadable
from freshlake.refresh.engine import Engine
from freshlake.refresh.layout import Layout
from freshlake.schedule.state import Tick
from freshlake.service.announce import Announcer
from freshlake.service.auditing import Auditing
from freshlake.service.captures import Captures
from freshlake.service.landing import Landing
from freshlake.service.names import Names
from freshlake.service.rounds import Rounds
from freshlake.service.sampler import Sampler
from freshlake.service.scheduler import Scheduler
from freshlake.service.transitions import Transitions
from freshlake.sources.protocol import Position, Source
from tests.unit.catalog_cases import added, committed, frontier, reads

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
UNFORESEEN = [SourceUnreadable("no"), OSError(errno.ESTALE, "Stale file handle"), ValueError("not foreseen")]


class Plain:
    """A source that stands still, or fails."""

    def __init__(self, name: str) -> None:
        self.name, self.error = name, cast(Exception | None, None)
        self.looked_at = 0

    def head(self) -> Position:
        self.looked_at += 1
        if self.error is not None:
            raise self.error
        return Position(self.name, 1, "f")


class Lake:
    """Stream tables `good` over `calm` and `bad` over `wild`, loaded and due every second."""

    def __init__(self, path: Path) -> None:
        none = cast(Any, None)
        self.clock = ManualClock(START)
        self.catalog = Catalog.open(path, clock=self.clock)
        self.sources = {name: Plain(name) for name in ("calm", "wild")}
        settings = Settings(min_schedule_seconds=1, max_consecutive_errors=2)
        self.engine = Engine(self.catalog, Layout(path, self.catalog), none, settings, self.clock)
        self.engine._sources = {f"delta:/lake/{name}": cast(Source, s) for name, s in self.sources.items()}
        alerts = Alerts(self.catalog, self.clock)
        announcer = Announcer(self.engine, alerts)
        landing = Landing(self.engine, cast(Captures, none), cast(Transitions, none))
        self.rounds = Rounds(self.engine, cast(Names, none), announcer, landing, lambda table: None)
        self.scheduler = Scheduler(self.engine, self.rounds, alerts, Sampler(self.engine, cast(Auditing, none)))
        for name, source in (("good", "calm"), ("bad", "wild")):
            self.catalog.register_table(TableName.parse(source))
            table = added(self.catalog, name, schedule="1s")
            self.catalog.replace_dependencies(table.id, reads(source))
            committed(self.catalog, table, 1, START, generation=1, frontier=frontier(**{source: 1}))

    def ticked(self, seconds: float = 2) -> Tick:
        self.clock.advance(seconds)
        return self.scheduler.tick()

    def table(self, name: str) -> StreamTable:
        return self.catalog.get(name)

    def failures(self, name: str) -> list[str | None]:
        return [r.error_code for r in self.catalog.history(self.table(name).id) if str(r.status) == "FAILED"]

    def alerts(self) -> list[str]:
        return [alert.event for alert in reversed(self.catalog.alerts())]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    opened = Lake(tmp_path)
    yield opened
    opened.catalog.close()


def refreshed(tick: Tick) -> set[str]:
    return {name.removeprefix("default.") for unit in tick.units for name in unit.tables}


@pytest.mark.parametrize("error", UNFORESEEN)
def test_a_source_that_fails_stops_nobody_else(lake: Lake, error: Exception) -> None:
    lake.sources["wild"].error = error
    assert refreshed(lake.ticked()) == {"good", "bad"}
    assert lake.table("good").data_timestamp == lake.clock.now()
    assert lake.table("bad").data_timestamp == START
    results = {r.table: str(r.action) for r in lake.rounds.refresh_all()}
    assert results == {"default.good": "NO_DATA", "default.bad": "SKIPPED"}


def test_a_daemon_is_heard_of_before_it_looks_at_sources(lake: Lake) -> None:
    lake.catalog.register_daemon(1_000, 1)
    heard: list[bool] = []

    def look() -> Position:
        heard.append(lake.catalog.daemons()[0].heartbeat_at == lake.clock.now())
        return Position("calm", 1, "f")

    lake.sources["calm"].head = look  # type: ignore[method-assign]
    lake.ticked()
    assert heard
    assert all(heard)
