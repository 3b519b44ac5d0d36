"""A lake without Spark: stream tables over sources that stand still, or fail, and what refreshes them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from freshlake.alerts import Alerts
from freshlake.catalog import Catalog, StreamTable, TableName
from freshlake.clock import ManualClock
from freshlake.config import Settings
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
from freshlake.storage.layout import BASE, LOG
from tests.unit.catalog_cases import added, committed, frontier, reads

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Plain:
    """A source that stands still, or fails."""

    def __init__(self, name: str) -> None:
        self.name, self.version, self.looked_at = name, 1, 0
        self.error: Exception | None = None

    def head(self) -> Position:
        self.looked_at += 1
        if self.error is not None:
            raise self.error
        return Position(self.name, self.version, "f")


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
            self.loaded(table, frontier(**{source: 1}))

    def loaded(self, table: StreamTable, at: dict[str, Any]) -> None:
        after = committed(self.catalog, table, 1, START, generation=1, frontier=at)
        for part in (BASE, LOG):
            Path(self.engine.layout.root(after, 1).path, part, "_delta_log").mkdir(parents=True)

    def ticked(self, seconds: float = 2) -> Tick:
        self.clock.advance(seconds)
        return self.scheduler.tick()

    def table(self, name: str) -> StreamTable:
        return self.catalog.get(name)

    def failures(self, name: str) -> list[str | None]:
        return [r.error_code for r in self.catalog.history(self.table(name).id) if str(r.status) == "FAILED"]

    def alerts(self) -> list[str]:
        told = [alert.event for alert in reversed(self.catalog.alerts())]
        return [event for event in told if event != "stale_data"]
