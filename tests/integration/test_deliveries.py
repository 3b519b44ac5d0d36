"""Stream tables that are kept in a real PostgreSQL, too: always one published version, whatever happens in between."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.delivery import target as target_module
from freshlake.errors import (
    AlreadyExists,
    CaptureUnsupported,
    DeliveryUnsupported,
    InvalidName,
    NotFound,
    SourceInUse,
    StreamTableInUse,
)
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE
from tests.integration.postgres_server import Server


@pytest.fixture(scope="module")
def fl(spark: SparkSession, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    postgres_server.run("DROP DATABASE IF EXISTS reports")
    postgres_server.run("CREATE DATABASE reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPORTS", postgres_server.url("reports"))
        with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
            lake.add_postgres("reports", "env:REPORTS", cdc_mode="trigger")
            lake.sql("CREATE TABLE orders (id BIGINT, region STRING, amount DECIMAL(10,2)) USING delta")
            lake.sql("INSERT INTO orders VALUES (1,'north',10),(2,'north',20),(3,NULL,5),(4,'south',NULL)")
            lake.create_stream_table(
                "per_region", "SELECT region, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY region"
            )
            lake.create_stream_table("regions", "SELECT region FROM orders")
            yield lake


def there(server: Server, table: str) -> Counter[tuple[Any, ...]]:
    with psycopg.connect(server.url("reports")) as connection:
        return Counter(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def here(fl: Freshlake, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in fl.table(name).collect())


def info(fl: Freshlake, target: str) -> tuple[int | None, str | None, int]:
    found = next(d for d in fl.deliveries() if d.target == target)
    return found.version, found.reason, found.attempts


def test_a_delivered_table_follows_every_refresh(fl: Freshlake, postgres_server: Server) -> None:
    made = fl.deliver("per_region", "reports.public.per_region")
    assert (made.version, made.reason, made.rows) == (1, "first-delivery", 3)
    assert there(postgres_server, "public.per_region") == here(fl, "per_region")
    fl.sql("INSERT INTO orders VALUES (5,'west',1.5),(6,'north',2.25)")
    fl.sql("DELETE FROM orders WHERE id = 4")
    fl.sql("UPDATE orders SET region = 'south' WHERE id = 3")
    assert fl.refresh("per_region").version == 2
    assert info(fl, "reports.public.per_region") == (2, None, 0)
    assert there(postgres_server, "public.per_region") == here(fl, "per_region")
    assert ("north", 3, Decimal("32.25")) in there(postgres_server, "public.per_region")


def test_a_delivery_does_not_wait_for_who_keeps_its_table(
    fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fl._deliveries, "lock_seconds", 0.05)
    with psycopg.connect(postgres_server.url("reports")) as other:
        other.execute("LOCK TABLE public.per_region IN ROW EXCLUSIVE MODE")
        fl.sql("INSERT INTO orders VALUES (7,'west',1)")
        assert str(fl.refresh("per_region").action) == "DIFFERENTIAL"
        late = next(d for d in fl.deliveries() if d.target == "reports.public.per_region")
        assert (late.attempts, (late.error or "").split(":")[0]) == (1, "capture-busy")
    fl._deliveries.bring_late()
    assert info(fl, "reports.public.per_region")[2] == 0
    assert there(postgres_server, "public.per_region") == here(fl, "per_region")


def test_duplicates_are_delivered_as_often_as_they_are_there(fl: Freshlake, postgres_server: Server) -> None:
    fl.refresh("regions")
    fl.deliver("regions", "reports.public.regions")
    for change in (
        "INSERT INTO orders VALUES (20,'north',1),(21,'north',1),(22,NULL,1)",
        "DELETE FROM orders WHERE id = 20",
    ):
        fl.sql(change)
        fl.refresh("regions")
        assert there(postgres_server, "public.regions") == here(fl, "regions")
    assert info(fl, "reports.public.regions")[1] is None


def test_what_others_wrote_there_is_put_right_and_said(
    fl: Freshlake, postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    postgres_server.run("DELETE FROM public.per_region WHERE region = 'north'", "reports")
    fl.sql("INSERT INTO orders VALUES (30,'north',1)")
    with caplog.at_level(logging.WARNING, "freshlake"):
        fl.refresh("per_region")
    assert info(fl, "reports.public.per_region")[1] == "delivery-conflict"
    assert "does not hold the rows that were delivered" in caplog.text
    assert there(postgres_server, "public.per_region") == here(fl, "per_region")


def test_a_crash_after_the_commit_delivers_nothing_twice(
    fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database knows the version, the catalog does not yet."""
    fl.sql("INSERT INTO orders VALUES (40,'north',1)")
    with monkeypatch.context() as patch:
        patch.setattr(fl._engine.catalog, "delivered", _dies)
        with pytest.raises(KeyboardInterrupt):
            fl.refresh("regions")
    assert there(postgres_server, "public.regions") == here(fl, "regions")
    assert [late.target for late in fl._engine.catalog.late_deliveries()] == ["public.regions"]
    fl._deliveries.bring_late()
    assert not fl._engine.catalog.late_deliveries()
    assert there(postgres_server, "public.regions") == here(fl, "regions")


def test_a_crash_before_the_commit_loses_nothing(
    fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = there(postgres_server, "public.regions")
    fl.sql("INSERT INTO orders VALUES (41,'north',1)")
    with monkeypatch.context() as patch:
        patch.setattr(target_module.Target, "moved", _dies)
        with pytest.raises(KeyboardInterrupt):
            fl.refresh("regions")
    assert there(postgres_server, "public.regions") == before
    fl._deliveries.bring_late()
    assert there(postgres_server, "public.regions") == here(fl, "regions") != before


def _dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_database_that_does_not_answer_fails_no_refresh(
    fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fl.sql("INSERT INTO orders VALUES (50,'east',1)")
    heard: list[Any] = []
    fl.on_alert(heard.append)
    with monkeypatch.context() as patch:
        patch.setenv("REPORTS", "postgresql://nobody@127.0.0.1:1/reports")
        fl._captures.close()
        assert str(fl.refresh("regions").action) == "DIFFERENTIAL"
    assert [str(alert.event) for alert in heard if "delivery" in str(alert.event)] == ["delivery_failed"]
    version, _, attempts = info(fl, "reports.public.regions")
    assert attempts == 1
    assert [f.name for f in fl.health() if f.code == "delivery-failed"] == ["reports.public.regions"]
    assert version is not None
    fl._captures.close()
    fl._deliveries.bring_late()
    assert info(fl, "reports.public.regions") == (version + 1, None, 0)
    assert there(postgres_server, "public.regions") == here(fl, "regions")


def test_a_lake_that_was_put_back_sends_all_rows(fl: Freshlake, postgres_server: Server) -> None:
    """The version there is one that the stream table has not reached (again)."""
    ahead = "UPDATE freshlake_delivered.positions SET version = 1000 WHERE target = 'public.regions'"
    postgres_server.run(ahead, "reports")
    fl.sql("INSERT INTO orders VALUES (55,'east',1)")
    fl.refresh("regions")
    assert info(fl, "reports.public.regions")[1] == "rebuilt"
    assert there(postgres_server, "public.regions") == here(fl, "regions")


def test_a_defect_fails_no_refresh(fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    fl.sql("INSERT INTO orders VALUES (56,'east',1)")
    with monkeypatch.context() as patch:
        patch.setattr(target_module.Target, "apply", lambda *_: 1 // 0)
        assert str(fl.refresh("regions").action) == "DIFFERENTIAL"
    assert [d.error is not None for d in fl.deliveries() if d.target == "reports.public.regions"] == [True]
    fl._deliveries.bring_late()
    assert there(postgres_server, "public.regions") == here(fl, "regions")


def test_another_query_changes_the_columns_there(fl: Freshlake, postgres_server: Server) -> None:
    postgres_server.run("CREATE INDEX mine ON public.per_region (region)", "reports")
    fl.alter_stream_table("per_region", query="SELECT region, max(amount) AS most FROM orders GROUP BY region")
    assert info(fl, "reports.public.per_region")[1] == "rebuilt"
    assert there(postgres_server, "public.per_region") == here(fl, "per_region")
    assert postgres_server.run("SELECT count(*) FROM pg_indexes WHERE indexname = 'mine'", "reports") == "1\n"


def test_many_rows_go_through_files(fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshlake.service.deliveries.SMALL_ROWS", 0)
    query = "SELECT id, timestamp_seconds(id * 100000000) AS at, array(id, NULL) AS list FROM orders"
    fl.create_stream_table("moments", query)
    fl.deliver("moments", "reports.public.moments")
    first = "SET timezone = 'UTC'; SELECT id, at, list FROM public.moments ORDER BY id LIMIT 1"
    found = postgres_server.run(first, "reports")
    assert found == "1|1973-03-03 09:46:40+00|{1,NULL}\n"
    assert postgres_server.run("SELECT count(*) FROM public.moments", "reports") == f"{fl.table('moments').count()}\n"
    assert not list((fl.path / "_freshlake" / "staging").glob("*"))
    fl.end_delivery("reports.public.moments")


@pytest.mark.parametrize(
    ("name", "to", "error"),
    [
        ("per_region", "reports.per_region", InvalidName),
        ("per_region", "nowhere.public.per_region", NotFound),
        ("per_region", "reports.public.theirs", AlreadyExists),
        ("regions", "reports.public.per_region", AlreadyExists),
        ("shapes", "reports.public.shapes", DeliveryUnsupported),
    ],
)
def test_what_cannot_be_delivered_is_refused_and_nothing_is_left(
    fl: Freshlake, postgres_server: Server, name: str, to: str, error: type[Exception]
) -> None:
    postgres_server.run("CREATE TABLE IF NOT EXISTS public.theirs AS SELECT 7 AS id", "reports")
    if name == "shapes":
        fl.create_stream_table(name, "SELECT id, named_struct('a', amount) AS shape FROM orders")
    before = fl.deliveries()
    with pytest.raises(error):
        fl.deliver(name, to)
    assert fl.deliveries() == before
    assert postgres_server.run("SELECT id FROM public.theirs", "reports") == "7\n"


def test_what_this_lake_writes_there_is_not_read_again(fl: Freshlake) -> None:
    for table in ("public.per_region", "freshlake_delivered.positions"):
        with pytest.raises(CaptureUnsupported, match=table.rsplit(".", 1)[1]):
            fl.create_stream_table("loop", f"SELECT * FROM reports.{table}")
    assert "loop" not in {line.name for line in fl.status()}


def test_what_is_delivered_is_not_dropped_unseen(fl: Freshlake, postgres_server: Server) -> None:
    with pytest.raises(StreamTableInUse, match="regions"):
        fl.drop_stream_table("regions")
    with pytest.raises(SourceInUse, match="regions"):
        fl.drop_source("reports")
    fl.drop_stream_table("regions", cascade=True)
    assert postgres_server.run("SELECT to_regclass('public.regions') IS NULL", "reports") == "t\n"


def test_a_delivery_ends_as_soon_as_its_database_answers(
    fl: Freshlake, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("REPORTS", "postgresql://nobody@127.0.0.1:1/reports")
        fl.end_delivery("reports.public.per_region")
    assert not fl.deliveries()
    assert postgres_server.run("SELECT to_regclass('public.per_region') IS NULL", "reports") == "f\n"
    fl._captures.removals.retry()
    assert postgres_server.run("SELECT to_regclass('public.per_region') IS NULL", "reports") == "t\n"
    assert not fl._engine.catalog.removals()
    with pytest.raises(NotFound):
        fl.end_delivery("reports.public.per_region")
    fl.end_delivery("reports.public.per_region", if_exists=True)
