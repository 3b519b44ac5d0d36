"""Health in one lake: every finding comes about for real, and goes when what its hint says was done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.errors import DataError, SourceDropped
from freshlake.lake import Freshlake
from freshlake.refresh.leasing import leased
from tests.integration.lakes import ANY_SHARE, NO_RULE, folder_of, orders

TOTALS = "SELECT region, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, clock: ManualClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    """`totals` reads `orders`, and `top` reads `totals`."""
    settings = {**ANY_SHARE, "fold_after_refreshes": 1, "max_consecutive_errors": 2}
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings, clock=clock) as opened:
        orders(opened)
        opened.create_stream_table("totals", TOTALS)
        opened.create_stream_table("top", "SELECT region FROM totals WHERE total > 8")
        yield opened


@pytest.fixture
def fl(lake: Freshlake) -> Iterator[Freshlake]:
    """Healthy before and after every test."""
    assert lake.health() == []
    yield lake
    assert lake.health() == []


def found(fl: Freshlake) -> list[tuple[str, str, str]]:
    return [(str(f.severity), f.code, f.name) for f in fl.health()]


def test_a_suspended_table_until_it_is_resumed(fl: Freshlake) -> None:
    fl.alter_stream_table("top", status="SUSPENDED")
    assert found(fl) == [("WARNING", "stream-table-suspended", "top")]
    fl.sql(fl.health()[0].hint.removeprefix("resume it: "))


def test_a_table_without_data_until_it_is_loaded(fl: Freshlake) -> None:
    fl.create_stream_table("empty", TOTALS, initialize=False)
    fl.create_stream_table("above", "SELECT region FROM empty", initialize=False)
    assert found(fl) == [
        ("WARNING", "stream-table-not-populated", "above"),
        ("WARNING", "stream-table-not-populated", "empty"),
    ]
    fl.refresh("above")
    assert fl.health() == []
    fl.drop_stream_table("empty", cascade=True)


def test_a_marked_rebuild_until_it_is_done(fl: Freshlake) -> None:
    catalog = fl._engine.catalog
    catalog.update(catalog.get("top").id, needs_reinit=True)
    assert found(fl) == [("WARNING", "reinitialize-needed", "top")]
    assert str(fl.refresh("top").action) == "REINITIALIZE"


@pytest.mark.usefixtures("windows_without_rule")
def test_a_query_that_is_never_differential_until_that_is_said_to_be_intended(fl: Freshlake) -> None:
    fl.create_stream_table("pairs", NO_RULE)
    (finding,) = fl.health()
    assert (str(finding.severity), finding.code, finding.name) == ("WARNING", "not-differentiable", "pairs")
    assert "recursive query" in finding.message
    fl.alter_stream_table("pairs", refresh_mode="FULL")
    assert fl.health() == []
    fl.drop_stream_table("pairs")


def test_a_long_log_until_it_is_folded(fl: Freshlake) -> None:
    fl.alter_stream_table("totals", fold_policy="manual")
    for amount in (1, 2):
        assert fl.health() == []
        fl.sql(f"INSERT INTO orders VALUES (10, 'west', {amount})")
        fl.refresh("totals")
    assert found(fl) == [("WARNING", "log-not-folded", "totals")]
    fl.fold("totals")


def test_failing_refreshes_until_one_succeeds(fl: Freshlake) -> None:
    fl.create_stream_table("top_shares", "SELECT id, 100 / amount AS share FROM orders")
    fl.sql("INSERT INTO orders VALUES (20, 'zero', 0)")
    with pytest.raises(DataError):
        fl.refresh("top_shares")
    (finding,) = fl.health()
    assert (str(finding.severity), finding.code, finding.name) == ("WARNING", "data-error", "top_shares")
    assert finding.message.startswith("the last refresh failed: ")
    assert "DIVIDE_BY_ZERO" in finding.message
    assert "\n" not in finding.message
    with pytest.raises(DataError):
        fl.refresh("top_shares")
    fl.alter_stream_table("top", status="SUSPENDED")
    assert found(fl) == [("ERROR", "data-error", "top_shares"), ("WARNING", "stream-table-suspended", "top")]
    fl.resume("top")
    fl.sql("DELETE FROM orders WHERE id = 20")
    fl.refresh("top_shares")
    assert fl.health() == []
    fl.drop_stream_table("top_shares")


def test_a_source_that_is_gone_until_it_is_back(fl: Freshlake) -> None:
    orders(fl, "visits")
    fl.create_stream_table("seen", "SELECT id, count(*) AS n FROM visits GROUP BY id")
    fl.create_stream_table("seen_too", "SELECT region FROM visits")
    fl.sql("DROP TABLE visits")
    (finding,) = fl.health()
    assert (str(finding.severity), finding.code, finding.name) == ("ERROR", "source-dropped", "default.visits")
    assert "read by seen, seen_too" in finding.message
    with pytest.raises(SourceDropped):
        fl.refresh("seen")
    assert found(fl) == [("ERROR", "source-dropped", "default.visits"), ("ERROR", "source-dropped", "seen")]
    orders(fl, "visits")
    assert found(fl) == [("ERROR", "source-dropped", "seen")]
    fl.refresh_all()
    assert fl.health() == []
    for name in ("seen", "seen_too"):
        fl.drop_stream_table(name)


def test_a_source_whose_log_is_gone(fl: Freshlake) -> None:
    orders(fl, "broken")
    fl.create_stream_table("over_broken", "SELECT region FROM broken")
    log = folder_of(fl, "broken") / "_delta_log"
    aside = log.rename(log.with_name("aside"))
    assert found(fl) == [("ERROR", "source-dropped", "default.broken")]
    aside.rename(log)
    assert fl.health() == []
    fl.drop_stream_table("over_broken")


def test_a_lease_of_a_dead_process_until_it_is_taken_over(fl: Freshlake) -> None:
    leave_a_lease(fl.path, "top")
    (finding,) = fl.health()
    assert (str(finding.severity), finding.code, finding.name) == ("WARNING", "stale-lease", "top")
    assert "ended" in finding.message
    fl.refresh("top")


def leave_a_lease(lake: Path, table: str) -> None:
    """Another process takes the lease and ends without giving it back."""
    code = (
        "import sys; from freshlake.catalog import Catalog; catalog = Catalog.open(sys.argv[1]);"
        "catalog.acquire_lease(catalog.get(sys.argv[2]).id, 3600)"
    )
    subprocess.run([sys.executable, "-c", code, str(lake), table], check=True, timeout=120)


def test_stale_data_until_a_refresh_also_one_that_finds_nothing_new(fl: Freshlake, clock: ManualClock) -> None:
    fl.alter_stream_table("totals", schedule="5m")
    fl.refresh_all()
    clock.advance(600)
    assert ("WARNING", "stale-data", "totals") not in found(fl)
    clock.advance(1)
    assert ("WARNING", "stale-data", "totals") in found(fl)
    assert str(fl.refresh("totals").action) == "NO_DATA"
    assert ("WARNING", "stale-data", "totals") not in found(fl)
    fl.alter_stream_table("totals", schedule="calculated")


def test_schedules_that_nobody_keeps(fl: Freshlake, clock: ManualClock) -> None:
    fl.alter_stream_table("totals", schedule="5m")
    (finding,) = fl.health()
    assert (str(finding.severity), finding.code, finding.name) == ("WARNING", "no-daemon", "scheduler")
    assert "totals" in finding.message
    fl._engine.catalog.register_daemon(1000, 1)
    assert fl.health() == []
    clock.advance(60)
    assert found(fl) == [("WARNING", "scheduler-gone", "scheduler")], "it was not heard of for too long"
    fl._engine.catalog.beat_daemon(clock.now())
    assert fl.health() == []
    fl._engine.catalog.end_daemon()
    assert found(fl) == [("WARNING", "no-daemon", "scheduler")]
    fl.alter_stream_table("totals", status="SUSPENDED")
    assert [code for _, code, _ in found(fl)] == ["stream-table-suspended"]
    fl.resume("totals")
    fl.alter_stream_table("totals", schedule="calculated")


def test_no_spark_job_is_run(fl: Freshlake) -> None:
    fl._engine._sources.clear()  # as after a start
    with fl._engine.worker.counting() as count:
        assert fl.health() == []
    assert count.jobs == 0


def test_the_statement_shows_the_same(fl: Freshlake) -> None:
    assert fl.sql("SHOW STREAM TABLE HEALTH").collect() == []
    fl.alter_stream_table("top", status="SUSPENDED")
    (row,) = fl.sql("SHOW STREAM TABLE HEALTH").collect()
    (finding,) = fl.health()
    assert row.asDict() == asdict(finding)
    fl.resume("top")


def examined(fl: Freshlake, name: str) -> dict[str, tuple[str, str]]:
    lines = fl.doctor(name)
    assert [line.check for line in lines] == sorted((line.check for line in lines), key=CHECKLIST.index)
    assert {line.check for line in lines} == set(CHECKLIST)
    assert all(line.hint for line in lines if line.verdict != "OK")
    return {line.check: (str(line.verdict), line.detail) for line in lines}


CHECKLIST = ("scheduler", "sources", "status", "pending changes", "recent errors", "lease")


def test_the_doctor_says_that_all_is_well(fl: Freshlake) -> None:
    seen = examined(fl, "totals")
    assert {verdict for verdict, _ in seen.values()} == {"OK"}
    assert "default.orders" in seen["sources"][1]
    assert seen["status"][1].startswith("ACTIVE, version ")
    assert "NO_DATA" in seen["pending changes"][1]
    assert seen["lease"][1] == "nobody works on it"


def test_the_doctor_finds_what_keeps_a_table_from_being_fresh(fl: Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (901, 'north', 5), (902, 'north', 6)")
    assert examined(fl, "totals")["pending changes"][1].startswith("changed rows: 2;")
    fl.alter_stream_table("totals", status="SUSPENDED")
    seen = examined(fl, "totals")
    assert seen["status"] == ("WARNING", "stream-table-suspended: it is suspended and not refreshed")
    fl.resume("totals")
    with leased(fl._engine, [fl._engine.catalog.get("totals").id]):
        assert "works on it since" in examined(fl, "totals")["lease"][1]
    fl.sql("DELETE FROM orders WHERE id > 900")
    fl.refresh_all()


def test_the_doctor_of_a_table_whose_source_is_gone(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE brief (id BIGINT) USING delta")
    fl.create_stream_table("of_brief", "SELECT id FROM brief")
    fl.sql("DROP TABLE brief")
    with pytest.raises(SourceDropped):
        fl.refresh("of_brief")
    seen = examined(fl, "of_brief")
    assert (seen["sources"][0], seen["pending changes"][0], seen["recent errors"][0]) == ("ERROR", "ERROR", "WARNING")
    assert seen["sources"][1].startswith("source-dropped")
    assert "failed: 1 of 2," in seen["recent errors"][1]
    fl.drop_stream_table("of_brief")
