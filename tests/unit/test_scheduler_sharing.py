"""A scheduler without tables: how it shares workers with others, and what it says of itself. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.alerts import Alerts
from freshlake.catalog import Catalog
from freshlake.clock import ManualClock
from freshlake.config import Settings
from freshlake.refresh.engine import Engine
from freshlake.refresh.layout import Layout
from freshlake.service.announce import Announcer
from freshlake.service.auditing import Auditing
from freshlake.service.landing import Landing
from freshlake.service.names import Names
from freshlake.service.rounds import Rounds
from freshlake.service.sampler import Sampler
from freshlake.service.scheduler import Scheduler

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SHARED = {"parallel_refresh_mode": "on", "max_concurrent_refreshes": 8, "max_dynamic_refresh_workers": 8}


class One:
    """A daemon of the lake, as a process of its own would have it."""

    def __init__(self, lake: Path, clock: ManualClock, **settings: Any) -> None:
        self.catalog = Catalog.open(lake, clock=clock)
        none = cast(Any, None)
        self.engine = Engine(self.catalog, Layout(lake, self.catalog), none, Settings(**settings), clock)
        alerts = Alerts(self.catalog, clock)
        announcer = Announcer(self.engine, alerts)
        rounds = Rounds(self.engine, cast(Names, none), announcer, cast(Landing, none), lambda table: None)
        sampler = Sampler(self.engine, cast(Auditing, none))
        self.scheduler = Scheduler(self.engine, rounds, alerts, sampler)
        self.catalog.register_daemon(1_000, 8, self.engine.settings.worker_quota)

    def ticked(self) -> int:
        """How many may run after a tick."""
        self.scheduler.tick()
        return self.scheduler._workers.room


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def lake(tmp_path: Path, clock: ManualClock) -> Iterator[tuple[One, One]]:
    both = One(tmp_path, clock, **SHARED), One(tmp_path, clock, **SHARED)
    yield both
    for one in both:
        one.catalog.close()


def test_daemons_of_a_lake_share_and_burst_until_the_other_claims_its_part(
    lake: tuple[One, One], clock: ManualClock
) -> None:
    one, other = lake
    assert one.ticked() == 6, "the other is idle"
    other.catalog.beat_daemon(NOW, running=1, waiting=3)
    assert one.ticked() == 4, "it claims its half: from the next tick on"
    other.catalog.beat_daemon(NOW, running=4, waiting=3)
    assert one.ticked() == 4
    clock.advance(60)
    assert one.ticked() == 8, "the other is not heard of any more"


def test_without_a_bound_everybody_runs_what_he_may(tmp_path: Path, clock: ManualClock) -> None:
    one = One(tmp_path, clock, parallel_refresh_mode="on", max_concurrent_refreshes=3)
    two = One(tmp_path, clock, parallel_refresh_mode="off")
    two.catalog.beat_daemon(NOW, running=0, waiting=9)
    assert (one.ticked(), two.ticked()) == (3, 1)
    two.engine.settings = Settings()
    assert two.ticked() == 4, "side by side, unless somebody says otherwise"
    one.engine.settings = Settings(parallel_refresh_mode="on", max_concurrent_refreshes=5)
    assert one.ticked() == 5, "a setting that was read again counts at the next tick"
    (daemon,) = [d for d in two.catalog.daemons() if d.owner == one.catalog.owner]
    assert (daemon.workers, daemon.running, daemon.last_tick_at) == (5, 0, NOW)
    for each in (one, two):
        each.catalog.close()


@pytest.mark.parametrize(("given", "warned"), [({}, False), ({"max_concurrent_refreshes": 4}, True)])
def test_who_chose_more_workers_than_spark_has_slots_is_told(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, given: dict[str, int], warned: bool
) -> None:
    one = One(tmp_path, clock)
    one.engine.spark = cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)))
    with caplog.at_level("WARNING", "freshlake"):
        one.scheduler._check_slots(Settings.load(None, given))
    assert ("Spark runs 2 tasks" in caplog.text) == warned
    one.catalog.close()
