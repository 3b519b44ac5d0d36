"""A snapshot read as a list of files holds the rows that Spark's Delta reader finds there."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from freshlake.errors import SourceSchemaChanged, SourceUnreadable
from freshlake.storage.relation import Relation
from freshlake.storage.scan import KeyFilter, Snapshot, driver_readable, open_snapshot, prune, read, read_arrow
from freshlake.storage.scan.file_list import MAX_PARTITION_GROUPS
from tests.bags import assert_same_bag

ODD = "it's [1] {2} *? 100% a%20b é"


def _delta(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.path)


def _by_driver(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    rows = read_arrow(snapshot.files, snapshot.schema, None, snapshot.partition_columns)
    return Relation.of_arrow(rows, snapshot.schema, insert_only=True).dataframe(spark)


def _assert_readers_agree(spark: SparkSession, path: str, version: int | None = None) -> Snapshot:
    snapshot = open_snapshot(path, version)
    expected = _delta(spark, snapshot)
    assert snapshot.needs_delta_reader is None
    assert snapshot.rows == expected.count()
    assert_same_bag(read(spark, snapshot), expected)
    if driver_readable(snapshot.schema):
        assert_same_bag(_by_driver(spark, snapshot), expected)
    return snapshot


def test_odd_paths_and_partition_values(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / ODD)
    spark.sql(
        "SELECT id, element_at(array('a b/c%d=é', '{x}[y]*', NULL, ''), cast(id % 4 + 1 AS INT)) AS p, "
        "date_add(date'2020-01-01', cast(id % 2 AS INT)) AS d, id % 2 = 0 AS b, cast(id % 3 AS DECIMAL(9, 2)) / 2 AS n "
        "FROM range(12)"
    ).write.format("delta").partitionBy("p", "d", "b", "n").save(path)
    snapshot = _assert_readers_agree(spark, path)
    assert read(spark, snapshot, ["n", "id"]).columns == ["n", "id"]
    keys = [KeyFilter("p", ("{x}[y]*",), has_null=True), KeyFilter("n", (Decimal("0.5"),))]
    assert {row["p"] for row in read(spark, snapshot, None, keys).collect()} <= {"{x}[y]*", None}


def test_more_partitions_than_a_union_should_have(spark: SparkSession, lake_dir: Path) -> None:
    path, count = str(lake_dir / "t"), MAX_PARTITION_GROUPS + 8
    frame = spark.range(0, 3 * count, 1, 1).selectExpr("id", f"nullif(id % {count}, 7) AS p", "'x' AS s")
    frame.repartition(1).write.format("delta").partitionBy("p").save(path)
    snapshot = _assert_readers_agree(spark, path)
    assert len(snapshot.files) == count
    assert read(spark, snapshot, ["s"]).count() == 3 * count


def test_older_files_lack_newer_columns(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.sql("SELECT id, 'old' AS s FROM range(3)").write.format("delta").save(path)
    newer = spark.sql("SELECT id, 'new' AS s, named_struct('x', 1) AS extra FROM range(2)")
    newer.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    _assert_readers_agree(spark, path)
    _assert_readers_agree(spark, path, 0)
    assert open_snapshot(path, 0).schema.names == ["id", "s"]


def test_mapped_columns_renamed_dropped_and_added(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, gone STRING, s STRUCT<x: INT, y: STRING>, c CHAR(3), p INT) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(
        f"INSERT INTO {table} VALUES (1, 'a', named_struct('x', 1, 'y', 'b'), 'c', 1), (2, 'b', NULL, NULL, NULL)"
    )
    spark.sql(f"ALTER TABLE {table} DROP COLUMN gone")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO gone")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN s.x TO z")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN p TO part")
    snapshot = _assert_readers_agree(spark, path)
    assert read(spark, snapshot).schema["gone"].metadata == {}
    assert len(prune(snapshot, [KeyFilter("gone", (1,))])) == 1
    assert len(prune(snapshot, [KeyFilter("part", (1,))])) == 1


def test_widened_types(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (a TINYINT, b INT, c FLOAT, d DECIMAL(5, 2), e DATE, f INT) USING delta TBLPROPERTIES "
        "('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')"
    )
    spark.sql(
        f"INSERT INTO {table} VALUES (127, -5, 0.1, 123.45, date'1500-01-01', 7), (NULL, NULL, NULL, NULL, NULL, 1)"
    )
    for column, kind in zip("abcdef", ("INT", "DOUBLE", "DOUBLE", "DECIMAL(20, 4)", "TIMESTAMP_NTZ", "DECIMAL(12, 2)")):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}")
    _assert_readers_agree(spark, path)


def test_deleted_rows_are_left_out(spark: SparkSession, lake_dir: Path) -> None:
    path, clone = str(lake_dir / "a table"), str(lake_dir / "clone")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, if(id % 2 = 0, 'x y', NULL) FROM range(0, 40, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 25 AND id % 3 > 0")
    snapshot = _assert_readers_agree(spark, path)
    assert any(file.deleted is not None for file in snapshot.files)
    assert read(spark, snapshot, [], [KeyFilter("id", (3, 4))]).count() == 1
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{path}`")
    _assert_readers_agree(spark, clone)


def test_many_deleted_rows_are_left_to_the_delta_reader(
    spark: SparkSession, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshlake.storage.scan.open._MAX_DELETED", 1)
    path = str(lake_dir / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id FROM range(0, 40, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 5")
    snapshot = open_snapshot(path)
    assert snapshot.needs_delta_reader == "deletion vectors of 5 rows"
    assert (snapshot.rows, read(spark, snapshot).count()) == (35, 35)
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(SourceUnreadable, match="must be read by the Delta reader") as error:
        read(session, snapshot)
    assert error.value.hint == "SET spark.sql.files.ignoreMissingFiles=false"


def test_a_missing_or_broken_file_fails_whatever_the_session_says(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.range(0, 10, 1, 2).write.format("delta").save(path)
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    snapshot = open_snapshot(path)
    frame = read(session, snapshot)
    with open(snapshot.files[0].path, "r+b") as file:
        file.truncate(20)
    os.remove(os.path.join(path, f".{os.path.basename(snapshot.files[0].path)}.crc"))
    with pytest.raises((PySparkException, Py4JJavaError)):
        frame.collect()
    os.remove(snapshot.files[0].path)
    with pytest.raises((PySparkException, Py4JJavaError)):
        read(session, snapshot).collect()


def test_a_snapshot_is_pinned(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.range(5).write.format("delta").save(path)
    frame = read(spark, open_snapshot(path))
    spark.range(5, 9).write.format("delta").mode("append").save(path)
    assert frame.count() == 5
    assert read(spark, open_snapshot(path)).count() == 9


def test_keys_keep_every_row_that_may_match(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.sql(
        "SELECT if(id % 5 = 0, NULL, id) AS k, date_add(date'2020-01-01', cast(id AS INT)) AS d, "
        "timestamp_micros(id * 1001) AS t, id / 7 AS f, cast(id AS STRING) AS s FROM range(0, 100, 1, 4)"
    ).write.format("delta").save(path)
    snapshot = open_snapshot(path)
    assert len(snapshot.files) == 4

    def found(*keys: KeyFilter) -> int:
        return read(spark, snapshot, ["k"], keys).count()

    assert found(KeyFilter("k", (3, 97))) == 2
    assert found(KeyFilter("k", (3,), has_null=True)) == 21
    assert found(KeyFilter("k", ())) == 0
    assert found(KeyFilter("k", (), has_null=True)) == 20
    assert found(KeyFilter("K", (3,)), KeyFilter("d", (date(2020, 1, 4),))) == 1
    assert found(KeyFilter("k", tuple(range(10, 3000)))) >= 72, "many keys become a range"
    assert found(KeyFilter("f", (1.0,))) == 100, "floats are not compared"
    moment = read(spark, snapshot, ["t"]).toArrow().column("t")[42].as_py()
    assert found(KeyFilter("t", (moment,))) == 1
    assert len(prune(snapshot, [KeyFilter("k", (3,))])) == 1


def test_an_unknown_column_is_a_typed_error(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    spark.range(5).write.format("delta").save(path)
    with pytest.raises(SourceSchemaChanged, match="column nope does not exist"):
        read(spark, open_snapshot(path), ["nope"])


def test_what_delta_rs_cannot_open_is_left_to_the_delta_reader(
    spark: SparkSession, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake.exceptions import DeltaError

    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("unsupported reader feature: fromTheFuture")

    path = str(lake_dir / "t")
    for start in (0, 5):
        spark.range(start, start + 5).write.format("delta").mode("append").save(path)
    monkeypatch.setattr("freshlake.storage.scan.open.DeltaTable", refuse)
    snapshot = open_snapshot(path, 0)
    assert (snapshot.opaque, snapshot.files, snapshot.rows) == (True, (), None)
    assert snapshot.needs_delta_reader == "unsupported reader feature: fromTheFuture"
    assert read(spark, snapshot).count() == 5
    assert read(spark, open_snapshot(path)).count() == 10
