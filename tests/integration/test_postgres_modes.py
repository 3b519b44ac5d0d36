"""Modes of capture and of refreshes together: what a FULL leaves behind, first loads, and modes that do not fit."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.sources.postgres.capture import Mode
from tests.integration.capture_database import Database, new_database
from tests.integration.lakes import bag
from tests.integration.postgres_server import LOGICAL, binaries, server

TOTALS = "SELECT region, count(*) AS n, sum(amount) AS total FROM shop.public.orders GROUP BY region"
MANY = "INSERT INTO orders SELECT i, 'r' || i % 7, i FROM generate_series({0}, {1}) i"


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with server(binaries(), LOGICAL) as running, new_database(running) as made:
        made.run("CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount int)")
        yield made


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[freshlake.Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("modes"), settings={"wal_min_changes_per_second": 0}) as opened:
        yield opened


@pytest.fixture(params=list(Mode))
def mode(request: pytest.FixtureRequest) -> Mode:
    return Mode(request.param)


@pytest.fixture
def fl(lake: freshlake.Freshlake, database: Database, mode: Mode) -> Iterator[freshlake.Freshlake]:
    """A source of 200 rows, captured in one mode, and the stream table `totals` over it."""
    database.run(f"TRUNCATE orders; {MANY.format(1, 200)}")
    lake.add_postgres("shop", str(database.reference), cdc_mode=str(mode))
    lake.create_stream_table("totals", TOTALS)
    yield lake
    lake.drop_source("shop", cascade=True)


def refreshed(fl: freshlake.Freshlake, **how: str) -> tuple[str, str | None]:
    result = fl.refresh("totals", **how)
    return str(result.action), result.reason


def assert_as_in(fl: freshlake.Freshlake, database: Database) -> None:
    theirs = database.application.execute(TOTALS.replace("shop.", "").encode()).fetchall()
    assert bag(map(tuple, fl.table("totals").collect())) == bag(theirs)


def waits(fl: freshlake.Freshlake, database: Database, mode: Mode) -> bool:
    """Whether the database keeps something for us that was not read: rows in a buffer, or log behind the slot."""
    if mode is Mode.TRIGGER:
        return any(size.pending_rows for size in fl.change_buffer_sizes())
    confirmed = database.one("SELECT confirmed_flush_lsn::text FROM pg_replication_slots")
    return bool(confirmed != (fl._engine.catalog.database("shop").position or {})["lsn"])


def confirmed(database: Database) -> int:
    """How many bytes of log the slot lets the server forget."""
    return int(database.one("SELECT coalesce(max(confirmed_flush_lsn - '0/0'), 0)::bigint FROM pg_replication_slots"))


def assert_next_row_is_differential(fl: freshlake.Freshlake, database: Database, mode: Mode) -> None:
    database.run("INSERT INTO orders VALUES (100000, 'one more', 1)")
    assert refreshed(fl) == ("DIFFERENTIAL", None)
    assert not waits(fl, database, mode)
    assert_as_in(fl, database)


@pytest.mark.parametrize("table", ["totals", "shop.public.orders"])
def test_a_full_refresh_leaves_nothing_that_waits_and_the_next_row_is_differential(
    fl: freshlake.Freshlake, database: Database, mode: Mode, table: str
) -> None:
    before = confirmed(database)
    database.run("UPDATE orders SET amount = amount + 1 WHERE id < 10; DELETE FROM orders WHERE id = 11")
    written = int(database.one("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"))
    assert fl.refresh(table, mode="FULL").reason == "requested"
    assert not waits(fl, database, mode)
    if mode is Mode.WAL:
        assert confirmed(database) >= written > before, "the server may forget the log that was not needed"
    fl.refresh("totals")
    assert_next_row_is_differential(fl, database, mode)


def test_a_fallback_to_full_leaves_nothing_that_waits_and_the_next_row_is_differential(
    fl: freshlake.Freshlake, database: Database, mode: Mode
) -> None:
    database.run(MANY.format(1000, 1500))
    assert refreshed(fl) == ("FULL", "change-ratio-exceeded")
    assert not waits(fl, database, mode)
    assert_as_in(fl, database)
    assert_next_row_is_differential(fl, database, mode)
    database.run(f"TRUNCATE orders; {MANY.format(1, 300)}")
    assert refreshed(fl)[0] == "FULL", "almost every row is another one"
    assert not waits(fl, database, mode)
    assert_next_row_is_differential(fl, database, mode)


def test_a_table_without_data_is_loaded_by_the_first_refresh_by_hand(
    fl: freshlake.Freshlake, database: Database, mode: Mode
) -> None:
    fl.drop_stream_table("totals")
    fl.create_stream_table("totals", TOTALS, initialize=False)
    database.run("DELETE FROM orders WHERE id = 1")
    with pytest.raises(e.StreamTableNotPopulated):
        fl.table("totals")
    assert refreshed(fl, mode="DIFFERENTIAL") == ("FULL", "first-load")
    assert_as_in(fl, database)
    assert_next_row_is_differential(fl, database, mode)


def test_a_stream_table_that_asks_for_triggers_under_a_global_auto_gets_no_slot(
    lake: freshlake.Freshlake, database: Database
) -> None:
    assert lake._engine.settings.cdc_mode == "auto"
    lake.add_postgres("shop", str(database.reference))
    lake.create_stream_table("totals", TOTALS, cdc_mode="trigger")
    for _ in range(2):
        lake._upkeep.run(lake._engine.clock.now())
        database.run("INSERT INTO orders SELECT max(id) + 1 FROM orders")
        lake.refresh("totals")
    assert database.one("SELECT count(*) FROM pg_replication_slots") == 0
    assert {line.cdc_mode for line in lake.cdc_status()} == {"trigger"}
    lake.alter_stream_table("totals", cdc_mode="inherit")
    lake._upkeep.run(lake._engine.clock.now())
    assert database.one("SELECT count(*) FROM pg_replication_slots") == 1, "auto goes to the log where nobody objects"
    lake.drop_source("shop", cascade=True)


def test_immediate_and_the_log_are_refused_where_asked_for_and_told_where_not(
    fl: freshlake.Freshlake, database: Database, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(e.InvalidArgument, match="IMMEDIATE and cdc_mode wal"):
        fl.create_stream_table("at_once", TOTALS, refresh_mode="IMMEDIATE", cdc_mode="wal")
    assert "at_once" not in {line.name for line in fl.status()}
    with caplog.at_level(logging.INFO, "freshlake"):
        fl.create_stream_table("at_once", TOTALS, refresh_mode="IMMEDIATE")
    assert ("source shop is captured from its log" in caplog.text) == (mode is Mode.WAL)
    database.run("INSERT INTO orders VALUES (100001, 'soon', 1)")
    fl.refresh("shop.public.orders")
    assert ("soon", 1, 1) in map(tuple, fl.table("at_once").collect())


def test_a_mode_of_capture_without_a_captured_table_is_told(
    lake: freshlake.Freshlake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.sql("CREATE TABLE plain (a INT) USING delta")
    with caplog.at_level(logging.INFO, "freshlake"):
        lake.create_stream_table("counted", "SELECT count(*) AS n FROM plain", cdc_mode="wal")
    assert "cdc_mode wal has no effect" in caplog.text
    lake.drop_stream_table("counted")
