"""What is shown of daemons and their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from freshlake.catalog import Catalog
from freshlake.clock import ManualClock
from freshlake.service.pool import job_statuses, worker_pools
from freshlake.service.workers import JobState, Workers

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=clock)
    yield opened
    opened.close()


def test_jobs_are_shown_for_a_while_after_they_ended(catalog: Catalog, clock: ManualClock) -> None:
    workers = Workers(clock)
    workers.ask(("default.a", "other.b"), 2, lambda: "a: no")
    workers.go()
    workers.ask(("default.c",), 2, lambda: None)
    catalog.register_daemon(1_000, 1)
    catalog.beat_daemon(NOW, running=0, waiting=1, jobs=tuple(job.to_json() for job in workers.jobs()))
    waiting, ended = job_statuses(catalog, clock.now(), 60)
    assert (waiting.unit, waiting.tables, waiting.state, waiting.started) == (2, ("c",), JobState.WAITING, None)
    assert (ended.tables, ended.state, ended.error) == (("a", "other.b"), JobState.FAILED, "a: no")
    assert (ended.asked, ended.started, ended.ended) == (NOW, NOW, NOW)
    clock.advance(61)
    assert [job.unit for job in job_statuses(catalog, clock.now(), 60)] == [2]


def test_a_daemon_that_went_without_a_word_is_shown_as_such(catalog: Catalog, clock: ManualClock) -> None:
    catalog.register_daemon(1_000, 4)
    (pool,) = worker_pools(catalog, clock.now())
    assert (pool.is_alive, pool.workers, pool.running) == (True, 4, 0)
    clock.advance(60)
    assert not worker_pools(catalog, clock.now())[0].is_alive
    catalog.end_daemon()
    assert worker_pools(catalog, clock.now()) == []
