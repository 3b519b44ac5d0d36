"""A Delta table under a stream table: whatever Spark does to it is detected and answered, never misread."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from freshlake.errors import SourceHistoryLost, SourceReplaced, SourceSchemaChanged, SourceUnreadable
from freshlake.sources.delta import DeltaSource
from freshlake.sources.delta.changes import Limits
from freshlake.sources.protocol import ChangeKind, Position
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan import KeyFilter
from freshlake.storage.scan.log import TransactionLog
from freshlake.storage.scan.open import _load
from tests.bags import assert_same_bag, canonical

BY_SPARK = Limits(bytes=0)
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


def _bag(rows: Any) -> Counter[Any]:
    return Counter(canonical(tuple(row)) for row in rows)


def _assert_law(spark: SparkSession, source: DeltaSource, start: Position, end: Position) -> Relation:
    """Old rows plus the change are the new rows, in the columns of the end."""
    names = source.schema(end).names
    old = _bag(source.snapshot(spark, start, names).collect())
    change = source.changes(spark, start, end)
    for *values, weight in change.dataframe(spark).collect():
        old[canonical(tuple(values))] += weight
    assert Counter({row: n for row, n in old.items() if n}) == _bag(source.snapshot(spark, end).collect())
    return change


def test_renamed_and_dropped_columns(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING, b STRING) USING delta {MAPPED}")
    source = DeltaSource("orders", path)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x', 'y')")
    start = source.head()
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN a TO c")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN b")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'z')")
    end = source.head()
    verdict = source.triage(start, end)
    assert (verdict.kind, verdict.data) == (ChangeKind.SCHEMA_CHANGED, ChangeKind.INSERT_ONLY)
    assert (verdict.added_columns, verdict.changed_columns) == (("c",), ("a", "b"))
    assert verdict.reason == "column a was renamed to c; column b was dropped"
    with pytest.raises(SourceSchemaChanged, match="orders changed its columns"):
        source.changes(spark, start, end)
    assert source.changes(spark, start, end, ["ID"]).arrow.to_pylist() == [{"id": 2, WEIGHT: 1}]
    assert source.schema(start).names == ["id", "a", "b"]
    assert source.schema(end)["c"].metadata == {}


def test_columns_that_stop_being_mapped(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING) USING delta {MAPPED}")
    source = DeltaSource("t", path)
    start = source.head()
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    end = source.head()
    assert source.triage(start, end).kind is ChangeKind.INSERT_ONLY
    _assert_law(spark, source, start, end)


def test_an_unused_added_column_does_not_matter(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    source = DeltaSource("t", path)
    start = source.head()
    write_deltalake(path, pa.table({"id": [3], "extra": ["x"]}), mode="append", schema_mode="merge")
    DeltaTable(path).delete("id = 1")
    end = source.head()
    change = source.changes(spark, start, end, ["id"])
    assert sorted(change.arrow.to_pylist(), key=str) == [{"id": 1, WEIGHT: -1}, {"id": 3, WEIGHT: 1}]
    whole = source.changes(spark, start, end)
    assert {"id": 1, "extra": None, WEIGHT: -1} in whole.arrow.to_pylist()


def test_described_truncated_and_replaced(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.sql(f"CREATE TABLE replaced (id INT) USING delta LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO replaced VALUES (1), (2)")
        source = DeltaSource("t", path)
        first = source.head()
        spark.sql("ALTER TABLE replaced SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
        second = source.head()
        assert source.triage(first, second).kind is ChangeKind.NONE
        assert source.changes(spark, first, second).is_empty
        spark.sql("DELETE FROM replaced")
        third = source.head()
        verdict = source.triage(second, third)
        assert (verdict.kind, verdict.rows, verdict.truncated) == (ChangeKind.MUTATING, 2, True)
        spark.sql(f"CREATE OR REPLACE TABLE replaced (id INT) USING delta LOCATION '{path}'")
        verdict = source.triage(first, source.head())
        assert verdict.kind is ChangeKind.REPLACED
        with pytest.raises(SourceReplaced, match="not the table last read"):
            source.changes(spark, first, source.head())
    finally:
        spark.sql("DROP TABLE replaced")


def test_vacuumed_history(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": list(range(10))}))
    source = DeltaSource("t", path)
    start = source.head()
    DeltaTable(path).update(predicate="id < 3", updates={"id": "id + 100"})
    middle = source.head()
    write_deltalake(path, pa.table({"id": [50]}), mode="append")
    end = source.head()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert source.triage(start, end).kind is ChangeKind.HISTORY_LOST
    with pytest.raises(SourceHistoryLost) as error:
        source.changes(spark, start, end)
    assert "no longer exists" in str(error.value.detail)
    with pytest.raises(SourceHistoryLost):
        source.snapshot(spark, start)
    assert source.changes(spark, middle, end).arrow.to_pylist() == [{"id": 50, WEIGHT: 1}]
    assert source.snapshot(spark, end).count() == 11


def test_files_that_vanish_or_break_while_reading(
    spark: SparkSession, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    source = DeltaSource("t", path)
    start = source.head()
    write_deltalake(path, pa.table({"id": [2]}), mode="append")
    end = source.head()
    (added,) = (Path(p) for p in DeltaTable(path).file_uris() if p not in DeltaTable(path, version=0).file_uris())
    monkeypatch.setattr(TransactionLog, "missing", lambda *_: [])
    added.write_bytes(b"PAR1 no more")
    with pytest.raises(SourceUnreadable, match="a file of source t is damaged"):
        source.changes(spark, start, end)
    added.unlink()
    with pytest.raises(SourceHistoryLost):
        source.changes(spark, start, end)


def test_many_deleted_rows(spark: SparkSession, lake_dir: Path) -> None:
    """Enough of them that the vector holds lists, bitmaps and runs."""
    path = str(lake_dir / "a table")
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, p INT) USING delta {VECTORS}")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 7 FROM range(0, 300000, 1, 2)")
    source = DeltaSource("t", path)
    start = source.head()
    spark.sql(f"DELETE FROM {table} WHERE id % 3 = 0 AND id < 70000 OR id BETWEEN 80000 AND 90000 OR id = 299999")
    end = source.head()
    assert source.triage(start, end).rows == source.row_count(start) - source.row_count(end)
    gone = spark.range(300000).where("id % 3 = 0 AND id < 70000 OR id BETWEEN 80000 AND 90000 OR id = 299999")
    expected = gone.selectExpr("cast(id AS INT) AS id", "cast(id % 7 AS INT) AS p", f"-1L AS {WEIGHT}")
    by_driver = source.changes(spark, start, end)
    by_spark = DeltaSource("t", path, limits=BY_SPARK).changes(spark, start, end)
    assert by_driver.arrow is not None
    assert by_spark.frame is not None
    assert_same_bag(by_driver.dataframe(spark), expected)
    assert_same_bag(by_spark.dataframe(spark), expected)
    assert source.snapshot(spark, end, [], [KeyFilter("id", (0, 1, 299999))]).count() == 1


@pytest.mark.parametrize("feed", [False, True])
def test_a_table_that_only_sparks_reader_understands(
    spark: SparkSession, lake_dir: Path, monkeypatch: pytest.MonkeyPatch, feed: bool
) -> None:
    path = str(lake_dir / "t")
    configuration = {"delta.enableChangeDataFeed": "true"} if feed else {}
    schema = pa.schema({"id": pa.int64(), "s": pa.string()})
    rows = pa.table({"id": list(range(10)), "s": ["x"] * 10}, schema)
    write_deltalake(path, rows, configuration=configuration)
    source = DeltaSource("t", path)
    start = source.head()
    DeltaTable(path).delete("id = 3")
    write_deltalake(path, pa.table({"id": [7], "s": [None]}, schema), mode="append")

    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("unsupported reader feature: fromTheFuture")

    monkeypatch.setattr("freshlake.storage.scan.open.DeltaTable", refuse)
    _load.cache_clear()
    end = source.head()
    assert source.row_count(end) is None
    change = _assert_law(spark, source, start, end)
    assert change.dataframe(spark).count() == (2 if feed else 20), "the feed, or the difference of two snapshots"
    assert source.triage(start, end).kind is ChangeKind.MUTATING
    start = source.head()
    write_deltalake(path, pa.table({"id": [7, 8], "s": [None, "y"]}, schema), mode="append")
    end = source.head()
    assert source.triage(start, end).kind is ChangeKind.INSERT_ONLY
    added = _assert_law(spark, source, start, end)
    assert added.insert_only
    assert sorted(row[WEIGHT] for row in added.dataframe(spark).collect()) == [1, 1]


def test_partitions_by_time_are_read_in_the_sessions_zone(spark: SparkSession, lake_dir: Path) -> None:
    path, session = str(lake_dir / "t"), spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = session.sql("SELECT id, timestamp'2020-01-01 00:00:00.123456' AS t, id / 2 AS f FROM range(3)")
    source = DeltaSource("t", path)
    for utc in ("true", "false"):
        session.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", utc)
        frame.write.format("delta").mode("append").partitionBy("t", "f").save(path)
    end = source.head()
    start = Position(end.table_id, 0, source._log.commit(0).fingerprint)
    change = _assert_law(session, source, start, end)
    assert {row["t"] for row in change.dataframe(session).collect()} == {frame.collect()[0]["t"]}


def test_rows_without_columns_are_still_counted(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    source = DeltaSource("t", path)
    start = source.head()
    write_deltalake(path, pa.table({"id": [3, 4, 5]}), mode="append")
    for limits in (Limits(), BY_SPARK):
        change = DeltaSource("t", path, limits=limits).changes(spark, start, source.head(), [])
        assert change.schema.names == [WEIGHT]
        assert change.dataframe(spark).count() == 3
        assert change.insert_only


def test_large_changes_do_not_come_to_the_driver(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1, 2]}))
    source = DeltaSource("t", path, limits=Limits(rows=100))
    start = source.head()
    write_deltalake(path, pa.table({"id": list(range(101))}), mode="append")
    change = source.changes(spark, start, source.head())
    assert (change.arrow, change.is_empty) == (None, None)
    assert change.dataframe(spark).count() == 101


def test_a_table_recreated_in_place_is_not_read_as_the_old_one(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    source = DeltaSource("t", path)
    old = source.head()
    assert source.snapshot(spark, old).count() == 1
    shutil.rmtree(path)
    write_deltalake(path, pa.table({"id": [1, 2]}))
    with pytest.raises(SourceReplaced):
        source.snapshot(spark, old)
    assert source.snapshot(spark, source.head()).count() == 2
