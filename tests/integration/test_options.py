"""Options of a stream table do what they say: partitions, append-only, replacing, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, refused, rows

PER_REGION = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        yield lake


def record(fl: Freshlake, name: str) -> Any:
    return fl._engine.catalog.get(f"default.{name}")


def base(fl: Freshlake, name: str) -> DeltaTable:
    table = record(fl, name)
    return DeltaTable(f"{fl._engine.layout.root(table, table.generation).path}/base")


def test_a_partitioned_table_follows_its_query_and_can_be_laid_out_anew(fl: Freshlake) -> None:
    fl.sql(f"CREATE STREAM TABLE t PARTITION BY (Region) AS {PER_REGION}")
    fl.create_stream_table("above", "SELECT region, total FROM t WHERE n > 1", partition_by=["region"])
    assert base(fl, "t").metadata().partition_columns == ["region"]
    assert record(fl, "t").partition_by == ("region",)
    for statement in (
        "INSERT INTO orders VALUES (9, 'a b/c', 1), (9, 'a b/c', 1)",
        "UPDATE orders SET region = 'south' WHERE id = 1",
        "DELETE FROM orders WHERE region IS NULL",
    ):
        fl.sql(statement)
        assert {str(r.action) for r in fl.refresh_all()} == {"DIFFERENTIAL"}
        assert rows(fl, "t") == rows(fl, PER_REGION)
    fl.fold("t")
    assert {p["region"] for p in base(fl, "t").partitions()} == {"north", "south", "a b/c"}
    fl.create_or_replace_stream_table("t", PER_REGION, partition_by=["n"])
    assert (fl.history("t")[0].action, fl.history("t")[0].reason) == ("REINITIALIZE", "partitions-altered")
    assert (record(fl, "t").partition_by, base(fl, "t").metadata().partition_columns) == (("n",), ["n"])
    generation = record(fl, "t").generation
    fl.create_or_replace_stream_table("t", PER_REGION, partition_by=["N"])
    assert record(fl, "t").generation == generation
    fl.sql("ALTER STREAM TABLE t SET (partition_by = '')")
    assert (record(fl, "t").partition_by, base(fl, "t").metadata().partition_columns) == ((), [])
    assert [str(r.action) for r in fl.refresh_all()] == ["NO_DATA", "FULL"]
    assert all(fl.verify(name).equal for name in ("t", "above"))


def test_partitions_that_cannot_be_are_refused(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION, partition_by=["region"])
    with refused(fl, e.Unsupported, "double", "DATE"):
        fl.create_stream_table("broken", "SELECT id, amount / 2.0D AS half FROM orders", partition_by=["half"])
    with refused(fl, e.InvalidArgument, "all of its columns"):
        fl.create_stream_table("broken", "SELECT id, region FROM orders", partition_by=["region", "id"])
    with refused(fl, e.InvalidArgument, "elsewhere"):
        fl.alter_stream_table("t", partition_by=["elsewhere"])
    with refused(fl, e.InvalidArgument, "region"):
        fl.alter_stream_table("t", query="SELECT id, amount FROM orders")
    fl.alter_stream_table("t", query="SELECT id, amount FROM orders", partition_by=["id"])
    assert fl.verify("t").equal


def test_a_row_that_partitions_cannot_hold_is_refused(fl: Freshlake) -> None:
    """Delta would give an empty string back as NULL."""
    fl.create_stream_table("t", "SELECT id, region FROM orders", partition_by=["region"])
    fl.sql("INSERT INTO orders VALUES (9, '', 1)")
    with refused(fl, e.DataError, "region", "NULL"):
        fl.refresh("t")
    with refused(fl, e.DataError, "region", "NULL"):
        fl.create_stream_table("broken", "SELECT id, region FROM orders", partition_by=["region"])
    fl.alter_stream_table("t", query="SELECT id, nullif(region, '') AS region FROM orders")
    assert fl.verify("t").equal


def test_a_table_is_append_only_until_rows_are_updated(fl: Freshlake, caplog: pytest.LogCaptureFixture) -> None:
    fl.sql("CREATE STREAM TABLE t APPEND ONLY AS SELECT id, amount FROM orders")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    result = fl.refresh("t")
    assert (str(result.action), result.reason, record(fl, "t").append_only) == ("DIFFERENTIAL", None, True)
    fl.sql("DELETE FROM orders WHERE id = 9")
    with caplog.at_level(logging.WARNING, "freshlake"):
        result = fl.refresh("t")
    assert (str(result.action), result.reason) == ("DIFFERENTIAL", "append-only-ended")
    assert "default.orders" in str(result.detail)
    assert "t is no longer append-only" in caplog.text
    assert not record(fl, "t").append_only
    assert fl.verify("t").equal
    before = record(fl, "t")
    fl.create_or_replace_stream_table("t", "SELECT id, amount FROM orders", append_only=True)
    assert (record(fl, "t").append_only, record(fl, "t").generation) == (True, before.generation)
    fl.sql("ALTER STREAM TABLE t SET (append_only = false)")
    assert not record(fl, "t").append_only
    with refused(fl, e.InvalidArgument, "append_only"):
        fl.sql("ALTER STREAM TABLE t SET (append_only = perhaps)")


def test_a_mode_of_capture_is_kept_where_nothing_is_captured(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION, cdc_mode="WAL")
    assert record(fl, "t").requested_cdc_mode == "wal"
    fl.create_or_replace_stream_table("t", PER_REGION, cdc_mode="wal")
    fl.sql("ALTER STREAM TABLE t SET (cdc_mode = trigger)")
    assert record(fl, "t").requested_cdc_mode == "trigger"
    fl.alter_stream_table("t", schedule="5m")
    assert record(fl, "t").requested_cdc_mode == "trigger"
    fl.create_or_replace_stream_table("t", PER_REGION)
    assert record(fl, "t").requested_cdc_mode is None
    assert record(fl, "t").generation == 1
    with refused(fl, e.InvalidArgument, "telepathy", "a cdc_mode"):
        fl.alter_stream_table("t", cdc_mode="telepathy")
    for call in (
        lambda: fl.create_stream_table("broken", PER_REGION, refresh_mode="IMMEDIATE", cdc_mode="wal"),
        lambda: fl.alter_stream_table("t", refresh_mode="IMMEDIATE", cdc_mode="wal"),
    ):
        with refused(fl, e.InvalidArgument, "IMMEDIATE", "wal"):
            call()


def test_options_that_do_not_exist_are_not_accepted_in_silence(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION, cdc_mode=None)
    with pytest.raises(TypeError, match="colour"):
        fl.create_stream_table_if_not_exists("broken", PER_REGION, colour="red")
    for call in (
        lambda: fl.sql("ALTER STREAM TABLE t SET (colour = red)"),
        lambda: fl.sql("ALTER STREAM TABLE t SET (name = other)"),
    ):
        with refused(fl, e.InvalidArgument):
            call()


def test_options_of_the_scheduler(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION, tier="WARM", diamond_consistency="none")
    assert (record(fl, "t").tier, record(fl, "t").diamond_consistency) == ("warm", "none")
    fl.sql("ALTER STREAM TABLE t SET (tier = cold, diamond_schedule_policy = slowest)")
    assert (record(fl, "t").tier, record(fl, "t").diamond_schedule_policy) == ("cold", "slowest")
    generation = record(fl, "t").generation
    fl.create_or_replace_stream_table("t", PER_REGION)
    after = record(fl, "t")
    assert (after.tier, after.diamond_consistency, after.diamond_schedule_policy) == ("hot", "atomic", "fastest")
    assert after.generation == generation
    for name in ("tier", "diamond_consistency", "diamond_schedule_policy"):
        with refused(fl, e.InvalidArgument, name, "sometimes"):
            fl.alter_stream_table("t", **{name: "sometimes"})


def test_updated_rows_are_counted_where_rows_have_keys(fl: Freshlake) -> None:
    fl.create_stream_table("grouped", PER_REGION)
    fl.create_stream_table("whole", "SELECT count(*) AS n FROM orders")
    fl.create_stream_table("copy", "SELECT id, amount FROM orders")
    fl.sql("INSERT INTO orders VALUES (9, 'north', 1), (9, 'east', 1)")
    results = {r.table.removeprefix("default."): r for r in fl.refresh_all()}
    found = {n: (r.rows_inserted, r.rows_deleted, r.rows_updated) for n, r in results.items()}
    assert found == {"grouped": (2, 1, 1), "whole": (1, 1, 1), "copy": (2, 0, None)}
    newest = {name: fl.history(name)[0] for name in found}
    assert {n: r.rows_updated for n, r in newest.items()} == {"grouped": 1, "whole": 1, "copy": None}
    assert newest["copy"].data_timestamp == record(fl, "copy").data_timestamp
    assert fl.history("copy")[1].rows_updated == 0


def test_a_statement_drops_a_table_with_its_readers(fl: Freshlake) -> None:
    fl.create_stream_table("t", PER_REGION)
    fl.create_stream_table("above", "SELECT region FROM t")
    with refused(fl, e.StreamTableInUse, "above"):
        fl.sql("DROP STREAM TABLE t")
    fl.sql("DROP STREAM TABLE t CASCADE")
    assert fl.status() == []


def test_altering_warns_of_columns_that_change(fl: Freshlake, caplog: pytest.LogCaptureFixture) -> None:
    fl.create_stream_table("t", "SELECT id, amount FROM orders")
    with caplog.at_level(logging.WARNING, "freshlake"):
        fl.alter_stream_table("t", query="SELECT id, CAST(amount AS STRING) AS amount FROM orders")
    assert "column amount changes its type" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "freshlake"):
        fl.alter_stream_table("t", query="SELECT * FROM orders")
    assert "selects *" in caplog.text
