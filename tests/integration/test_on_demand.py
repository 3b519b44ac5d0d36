"""Cold and frozen stream tables: nobody refreshes them until somebody reads them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.errors import SystemFailure

SETTINGS = {"differential_max_change_ratio": 0, "min_schedule_seconds": 1, "lazy_refresh_timeout": 120}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock
) -> Iterator[freshlake.Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("demand"), settings=SETTINGS, clock=clock) as lake:
        lake.sql("CREATE TABLE orders (id INT) USING delta")
        lake.sql("INSERT INTO orders VALUES (1)")
        lake.create_stream_table("frozen", "SELECT id FROM orders", schedule="1m", tier="frozen")
        lake.create_stream_table("cold", "SELECT count(*) AS n FROM frozen", schedule="1m", tier="cold")
        yield lake


def read(fl: freshlake.Freshlake) -> int:
    return int(fl.table("cold").collect()[0][0])


def more(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    """A change, and the schedule is over."""
    fl.sql("INSERT INTO orders VALUES (2)")
    clock.advance(61)


@pytest.fixture
def steps(fl: freshlake.Freshlake) -> Iterator[list[str]]:
    """What refreshes do."""
    found: list[str] = []
    fl._engine.observer = found.append
    yield found
    fl._engine.observer = None


def test_a_read_refreshes_it_and_all_it_reads(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    more(fl, clock)
    assert fl._scheduler.tick().units == (), "nobody has read it"
    assert read(fl) == 2
    assert [str(fl.history(name, limit=1)[0].action) for name in ("frozen", "cold")] == ["DIFFERENTIAL"] * 2
    assert all(fl.verify(name).equal for name in ("frozen", "cold"))


def test_a_read_makes_it_no_fresher_than_its_schedule(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    before = read(fl)
    fl.sql("INSERT INTO orders VALUES (3)")
    clock.advance(30)
    assert read(fl) == before
    clock.advance(31)
    assert [row[0] for row in fl.sql("SELECT n FROM cold").collect()] == [before + 1], "in SQL as well"


def test_a_read_of_what_has_not_changed_begins_nothing(
    fl: freshlake.Freshlake, clock: ManualClock, steps: list[str]
) -> None:
    clock.advance(61)
    read(fl)
    fl.verify("cold")
    assert steps == []
    assert not [row for row in fl._engine.catalog.look() if row.is_wanted]


def test_refreshes_and_verifications_are_no_reads(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.create_stream_table("counted", "SELECT id FROM orders", schedule="1m", tier="auto")
    fl.create_stream_table("above", "SELECT id FROM counted", schedule="1m")
    more(fl, clock)
    fl.refresh("above")
    fl.verify("counted")
    fl.explain("counted")
    catalog, table = fl._engine.catalog, fl._engine.catalog.get("counted")
    fl._on_demand._flush()
    assert catalog.readership(table.id).last_read_at is None
    for _ in range(60):
        fl.table("counted")
    fl._on_demand._flush()
    assert catalog.readership(table.id).reads_per_minute == pytest.approx(12)
    assert {t.name: t.tier for t in fl.status()}["counted"] == "hot"
    clock.advance(4_000)
    assert {t.name: t.tier for t in fl.status()}["counted"] == "frozen"
    for name in ("above", "counted"):
        fl.drop_stream_table(name)


def test_a_read_waits_no_longer_than_allowed_and_the_refresh_goes_on(
    fl: freshlake.Freshlake, clock: ManualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, hold = read(fl), threading.Event()

    def slow(step: str) -> None:
        assert hold.wait(60)

    monkeypatch.setattr(fl._engine, "settings", fl._engine.settings.model_copy(update={"lazy_refresh_timeout": 0.2}))
    more(fl, clock)
    fl._engine.observer = slow
    assert read(fl) == before
    assert "takes longer than 0.2 s" in caplog.text
    assert read(fl) == before, "a second reader begins no second refresh"
    hold.set()
    fl._on_demand.close()
    fl._engine.observer = None
    assert read(fl) == before + 1


def test_a_refresh_that_fails_leaves_what_there_is(
    fl: freshlake.Freshlake, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    before = read(fl)

    def fail(step: str) -> None:
        raise SystemFailure("the executor was lost")

    more(fl, clock)
    fl._engine.observer = fail
    assert read(fl) == before
    fl._on_demand.close()
    fl._engine.observer = None
    assert "could not be refreshed for a read" in caplog.text
    clock.advance(80)
    assert read(fl) == before + 1


def test_a_running_scheduler_is_woken(
    fl: freshlake.Freshlake, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fl._engine, "settings", fl._engine.settings.model_copy(update={"scheduler_interval_ms": 60_000})
    )
    before, results = read(fl), list[Any]()
    fl.on_refresh(results.append)
    fl.start_scheduler()
    more(fl, clock)
    assert read(fl) == before + 1
    assert fl.stop_scheduler(timeout=60)
    assert {r.table for r in results} == {"default.frozen", "default.cold"}
    jobs = fl.parallel_job_status()
    assert [job.tables for job in jobs if str(job.state) == "DONE"] == [("cold",), ("frozen",)]


def test_a_table_that_was_never_loaded_is_loaded_by_its_first_reader(fl: freshlake.Freshlake) -> None:
    fl.create_stream_table("late", "SELECT max(id) AS n FROM orders", tier="cold", initialize=False)
    assert fl._scheduler.tick().units == ()
    assert [row[0] for row in fl.table("late").collect()] == [3]
    fl.drop_stream_table("late")
