"""A lake whose catalog is in PostgreSQL: made, changed, refreshed, opened again, and used by two processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import InvalidSetting
from tests.acceptance.processes import Process
from tests.bags import assert_same_bag
from tests.integration.postgres_server import Server

TOTALS = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.mark.slow
def test_a_lake_lives_in_postgres(
    spark: SparkSession, lake_dir: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url("catalogs")
    settings = {"differential_max_change_ratio": 0.0}
    with freshlake.connect(lake_dir, catalog=url, settings=settings) as fl:
        fl.sql("CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta")
        fl.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 5), (2, 'south', 5)")
        fl.create_stream_table("totals", TOTALS)
        fl.create_stream_table("big", "SELECT region FROM totals WHERE total > 9")
        fl.sql("INSERT INTO orders VALUES (3, 'north', 1), (4, NULL, NULL)")
        assert [str(result.action) for result in fl.refresh_all()] == ["DIFFERENTIAL", "DIFFERENTIAL"]
        assert str(fl.refresh("totals").action) == "NO_DATA"
    with pytest.raises(InvalidSetting):
        freshlake.connect(lake_dir)
    monkeypatch.setenv("FRESHLAKE_CATALOG", url)
    with freshlake.connect(lake_dir, settings=settings) as fl:
        fl.sql("DELETE FROM orders WHERE id = 2")
        assert str(fl.refresh("big").action) == "DIFFERENTIAL"
        assert_same_bag(fl.table("totals"), fl.sql(TOTALS))
        assert [fl.verify(name).equal for name in ("totals", "big")] == [True, True]
        actions = [str(row.action) for row in fl.history("totals") if row.rows_inserted or row.rows_deleted]
        assert actions == ["DIFFERENTIAL", "DIFFERENTIAL", "FULL"]
        fl.drop_stream_table("big")
        assert [table.name for table in fl.status()] == ["totals"]
    assert not (lake_dir / "_freshlake" / "catalog.db").exists()


@pytest.mark.slow
def test_two_processes_share_a_lake_and_one_survives_the_other(
    tmp_path: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESHLAKE_CATALOG", postgres_server.url("catalogs"))
    monkeypatch.setenv("FRESHLAKE_IMMEDIATE_WAIT_SECONDS", "0")
    first, second = Process(tmp_path), Process(tmp_path)
    try:
        assert [first.hear(), second.hear()] == ["ready", "ready"]
        first.ask("fl.sql('CREATE TABLE orders (id BIGINT, region STRING, amount INT) USING delta').count()")
        first.ask("fl.sql(\"INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 5)\").count()")
        first.ask(f"fl.create_stream_table('totals', {TOTALS!r}).version")
        assert second.rows("SELECT * FROM totals") == first.rows("SELECT * FROM totals") != []
        second.ask("fl.sql(\"INSERT INTO orders VALUES (3, 'east', 1)\").count()")
        first.tell("pause compute")
        first.tell("str(fl.refresh('totals').action)")
        assert first.hear() == "at compute"
        assert second.ask("str(fl.refresh('totals').action)") == {"error": "refresh-in-progress"}
        first.kill()
        assert second.refresh("totals") == "DIFFERENTIAL"
        assert second.rows("SELECT n FROM totals WHERE region = 'east'") == [[1]]
        assert second.ask("fl.verify('totals').equal") is True
        assert "FAILED" in second.ask("[str(row.status) for row in fl.history('totals')]")
    finally:
        first.kill()
        second.end()
