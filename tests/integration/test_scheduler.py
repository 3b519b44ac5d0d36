"""The scheduler: what is due is refreshed, in order and at one point in time, and what fails is tried again."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.catalog import retention
from freshlake.clock import ManualClock
from freshlake.errors import SystemFailure
from freshlake.schedule.state import Tick

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = {"differential_max_change_ratio": 0, "min_schedule_seconds": 1, "max_consecutive_errors": 2}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock
) -> Iterator[freshlake.Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("scheduler"), settings=SETTINGS, clock=clock)
    lake.sql("CREATE TABLE orders (id INT, region STRING, amount INT) USING delta")
    lake.sql("CREATE TABLE other (id INT) USING delta")
    lake.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20)")
    lake.sql("INSERT INTO other VALUES (1)")
    lake.create_stream_table("big", "SELECT * EXCEPT (region) FROM orders WHERE amount > 5")
    lake.create_stream_table("total", "SELECT sum(amount) AS s FROM big", schedule="10s")
    lake.create_stream_table("rare", "SELECT count(*) AS n FROM other", schedule="1h")
    yield lake
    lake.close()


def ticked(fl: freshlake.Freshlake) -> Tick:
    """One tick, carried out in this thread."""
    return fl._scheduler.tick()


def refreshed(fl: freshlake.Freshlake, tick: Tick) -> set[str]:
    return {name.removeprefix("default.") for unit in tick.units for name in unit.tables}


def last(fl: freshlake.Freshlake, name: str) -> Any:
    return fl.history(name, limit=1)[0]


def rows(fl: freshlake.Freshlake, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in fl.table(name).collect())


def test_nothing_is_due_at_first(fl: freshlake.Freshlake) -> None:
    assert ticked(fl).units == ()


def test_a_due_table_brings_what_it_reads(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.sql("INSERT INTO orders VALUES (3, 'north', 30)")
    clock.advance(11)
    assert refreshed(fl, ticked(fl)) == {"big", "total"}
    assert rows(fl, "total") == [(60,)]
    assert str(last(fl, "total").action) == "DIFFERENTIAL"
    moments = {t.name: t.data_timestamp for t in fl.status() if t.name != "rare"}
    assert set(moments.values()) == {clock.now()}, "both equal their queries at the moment of the tick"


def test_nothing_changed_is_recorded_for_all_at_once(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    clock.advance(11)
    steps: list[str] = []
    fl._engine.observer = steps.append
    assert refreshed(fl, ticked(fl)) == {"big", "total"}
    fl._engine.observer = None
    assert steps == [], "no refresh was begun"
    for name in ("big", "total"):
        assert str(last(fl, name).action) == "NO_DATA"
        assert fl._engine.catalog.get(name).data_timestamp == clock.now()
        assert fl.verify(name).equal
    clock.advance(5)
    assert ticked(fl).units == (), "and they are fresh again"


def test_a_failure_that_may_pass_is_tried_again_and_not_counted(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.sql("INSERT INTO orders VALUES (4, 'north', 40)")
    clock.advance(6)

    def fail(step: str) -> None:
        if step == "compute":
            raise SystemFailure("the executor was lost")

    fl._engine.observer = fail
    ticked(fl)
    table = fl._engine.catalog.get("big")
    assert (table.retries, table.consecutive_errors) == (1, 0)
    assert table.retry_at is not None
    assert 0.7 < (table.retry_at - clock.now()).total_seconds() < 1.3
    assert str(last(fl, "big").status) == "FAILED"
    assert last(fl, "total").reason == "upstream-failed"
    assert "big" not in refreshed(fl, ticked(fl)), "not before its time"
    for attempt in range(2, 6):
        clock.advance(76)
        ticked(fl)
        assert (fl._engine.catalog.get("big").retries, fl._engine.catalog.get("big").consecutive_errors) == (attempt, 0)
    clock.advance(76)
    ticked(fl)
    assert (fl._engine.catalog.get("big").retries, fl._engine.catalog.get("big").consecutive_errors) == (0, 1)
    fl._engine.observer = None
    clock.advance(76)
    ticked(fl)
    assert rows(fl, "total") == [(100,)]
    assert fl._engine.catalog.get("big").consecutive_errors == 0


def test_a_full_disk_is_tried_again_and_not_counted(
    fl: freshlake.Freshlake, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fl.sql("INSERT INTO orders VALUES (7, 'north', 7)")
    clock.advance(76)
    with monkeypatch.context() as patched:
        patched.setattr(pyarrow.parquet, "write_table", full)
        ticked(fl)
    table = fl._engine.catalog.get("big")
    assert (table.retries, table.consecutive_errors, last(fl, "big").error_code) == (1, 0, "refresh-failed")
    assert "the disk is full" in last(fl, "big").error
    clock.advance(76)
    ticked(fl)
    assert rows(fl, "total") == [(107,)]
    fl.sql("DELETE FROM orders WHERE id = 7")
    clock.advance(76)
    ticked(fl)


def test_a_failure_of_the_query_is_counted_until_the_table_stops(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.create_stream_table("shares", "SELECT id, 100 / amount AS share FROM orders", schedule="5s")
    fl.sql("INSERT INTO orders VALUES (5, 'north', 0)")
    for errors, status in ((1, "ACTIVE"), (2, "ERROR")):
        clock.advance(76)
        ticked(fl)
        table = fl._engine.catalog.get("shares")
        assert (table.consecutive_errors, str(table.status), table.retries) == (errors, status, 0)
        clock.advance(11)
        assert "shares" not in refreshed(fl, ticked(fl)), "a person needs time to correct it"
    assert rows(fl, "total") == [(100,)], "others go on"
    clock.advance(11)
    assert "shares" not in refreshed(fl, ticked(fl))
    fl.sql("DELETE FROM orders WHERE amount = 0")
    fl.resume("shares")
    clock.advance(11)
    ticked(fl)
    assert fl.verify("shares").equal
    fl.drop_stream_table("shares")


def test_a_table_that_is_being_refreshed_is_left_to_a_later_tick(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    catalog = fl._engine.catalog
    clock.advance(11)
    lease = catalog.acquire_lease(catalog.get("big").id, 600)
    assert "total" not in refreshed(fl, ticked(fl))
    assert str(last(fl, "total").action) != "SKIPPED", "what runs is the refresh that it is due for"
    clock.advance(11)
    for _ in range(3):
        assert "total" not in refreshed(fl, ticked(fl))
    skipped = [r for r in fl.history("total", limit=5) if str(r.action) == "SKIPPED" and r.started == clock.now()]
    assert len(skipped) == 1, "due again, and said once, not in every tick"
    catalog.release_lease(lease)
    assert {"big", "total"} <= refreshed(fl, ticked(fl))


def test_a_table_made_or_dropped_by_others_is_noticed(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    ticked(fl)
    fl.create_stream_table("more", "SELECT id FROM orders", schedule="10s")
    clock.advance(11)
    assert "more" in refreshed(fl, ticked(fl))
    fl.drop_stream_table("more")
    clock.advance(11)
    assert "more" not in refreshed(fl, ticked(fl))


def test_suspended_and_frozen_tables_rest(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    fl.alter_stream_table("total", tier="frozen")
    clock.advance(11)
    assert "total" not in refreshed(fl, ticked(fl))
    fl.alter_stream_table("total", tier="hot", status="SUSPENDED")
    clock.advance(11)
    assert "total" not in refreshed(fl, ticked(fl))
    fl.resume("total")
    assert "total" in refreshed(fl, ticked(fl))


def test_scheduling_can_be_switched_off(fl: freshlake.Freshlake, clock: ManualClock) -> None:
    level = logging.getLogger("freshlake").level
    (fl.path / "freshlake.toml").write_text('enabled = false\nlog_level = "error"\n', encoding="utf-8")
    fl.reload_settings()
    assert (level, logging.getLogger("freshlake").level) == (logging.INFO, logging.ERROR)
    clock.advance(3_700)
    assert ticked(fl).units == ()
    (fl.path / "freshlake.toml").unlink()
    fl.reload_settings()
    assert refreshed(fl, ticked(fl)) == {"big", "total", "rare"}


def test_the_status_says_when_a_table_is_due_and_how_its_schedule_came_about(
    fl: freshlake.Freshlake, clock: ManualClock
) -> None:
    (fl.path / "freshlake.toml").write_text("enabled = false\n", encoding="utf-8")
    fl.reload_settings()
    assert {s.next_due for s in fl.status()} == {None}
    (fl.path / "freshlake.toml").unlink()
    fl.reload_settings()
    status = {s.name: s for s in fl.status()}
    assert {n: s.next_due for n, s in status.items()} == {
        "big": clock.now() + timedelta(seconds=10),
        "total": clock.now() + timedelta(seconds=10),
        "rare": clock.now() + timedelta(hours=1),
    }
    assert [(s.level, s.schedule_note, s.is_stale) for s in status.values() if s.name == "total"] == [(1, None, False)]
    fl.alter_stream_table("rare", schedule="calculated")
    clock.advance(21)
    (shown,) = fl.sql("SHOW STREAM TABLES").where("name = 'rare'").collect()
    assert (shown["schedule_note"], shown["is_stale"]) == ("calculated, and no stream table reads it", True)
    assert {s.name: s.is_stale for s in fl.status()} == {"big": True, "total": True, "rare": True}
    fl.alter_stream_table("rare", schedule="1h")
    clock.advance(3_600)
    ticked(fl)


def test_the_history_is_pruned_once_an_hour_and_as_long_as_more_is_left(
    fl: freshlake.Freshlake, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, limits = [retention.PORTION, 7], []

    def prune(self: Any, before: datetime) -> int:
        limits.append(clock.now() - before)
        return left.pop(0) if left else 0

    monkeypatch.setattr(retention.Retention, "prune_history", prune)
    clock.advance(3_601)
    for _ in range(4):
        ticked(fl)
    assert limits == [timedelta(days=90)] * 2
    clock.advance(3_601)
    ticked(fl)
    assert len(limits) == 3


def test_a_scheduler_that_starts_looks_up_no_names_before_it_compiles_a_query(
    fl: freshlake.Freshlake, clock: ManualClock
) -> None:
    with freshlake.connect(fl.path, settings=SETTINGS, clock=clock) as again:
        clock.advance(11)
        assert refreshed(again, ticked(again)) == {"big", "total"}
        assert again._names._known == {}, "nothing had changed"
        fl.sql("INSERT INTO orders VALUES (6, 'north', 60)")
        clock.advance(11)
        ticked(again)
        assert str(last(again, "total").action) == "DIFFERENTIAL"
        assert {name.name for name in again._names._known} == {"orders", "big"}
        assert {t.name for t in again.spark.catalog.listTables()} == {"orders", "other", "big", "total", "rare"}


@pytest.mark.parametrize("parallel", ["off", "on"])
def test_it_runs_by_itself(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, parallel: str) -> None:
    settings = {**SETTINGS, "scheduler_interval_ms": 100, "parallel_refresh_mode": parallel}
    with freshlake.connect(tmp_path_factory.mktemp("alone"), settings=settings) as fl:
        fl.sql("CREATE TABLE orders (id INT, amount INT) USING delta")
        fl.sql("INSERT INTO orders VALUES (1, 10)")
        for name in ("a", "b"):
            fl.create_stream_table(name, f"SELECT id, amount AS {name} FROM orders", schedule="1s")
        fl.create_stream_table("c", "SELECT a.id, a, b FROM a JOIN b ON a.id = b.id", schedule="1s")
        results: list[Any] = []
        fl.on_refresh(results.append)
        fl.start_scheduler()
        fl.start_scheduler()
        for number in (2, 3):
            fl.sql(f"INSERT INTO orders VALUES ({number}, {number})")
            fl.wait_for("c", "orders", timeout=60)
            assert len(rows(fl, "c")) == number
        (daemon,) = fl._engine.catalog.live_daemons(30)
        assert daemon.last_tick_at is not None
        assert fl.stop_scheduler(timeout=60)
        assert fl._engine.catalog.live_daemons(30) == ()
        assert all(fl.verify(name).equal for name in "abc")
        assert {str(r.action) for r in results} <= {"DIFFERENTIAL", "NO_DATA"}
        before = len(fl.history("c", limit=1000))
        time.sleep(1.5)
        assert len(fl.history("c", limit=1000)) == before, "stopped is stopped"
