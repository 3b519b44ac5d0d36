"""A snapshot read as a list of files holds the rows that Spark's Delta reader finds there."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from freshlake.errors import SourceSchemaChanged, SourceUnreadable
from freshlake.storage.relation import Relation
from freshlake.storage.scan import KeyFilter, Snapshot, driver_readable, open_snapshot, prune, read, read_arrow
from freshlake.storage.scan.file_list import MAX_PARTITION_GROUPS
from freshlake.storage.scan.open import _load
from tests.bags import assert_same_bag

ODD = "it's [1] {2} *? 100% é"


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
        "date_add(date'2020-01-01', cast(id % 2 AS INT)) AS d, id % 2 = 0 AS b, cast(id AS DECIMAL(9, 2)) / 2 AS n "
        "FROM range(0, 5, 1, 1)"
    ).write.format("delta").partitionBy("p", "d", "b", "n").save(path)
    snapshot = _assert_readers_agree(spark, path)
    assert read(spark, snapshot, ["n", "id"]).columns == ["n", "id"]
    keys = [KeyFilter("p", ("{x}[y]*",), has_null=True), KeyFilter("n", (Decimal("0.5"),))]
    assert [tuple(row) for row in read(spark, snapshot, ["id", "p"], keys).collect()] == [(1, "{x}[y]*")]


def test_a_path_that_looks_encoded_is_not_mistaken_for_another(spark: SparkSession, lake_dir: Path) -> None:
    encoded, decoded = str(lake_dir / "a%20b"), str(lake_dir / "a b")
    write_deltalake(str(lake_dir / "t"), pa.table({"id": range(5)}))
    os.rename(lake_dir / "t", encoded)
    write_deltalake(decoded, pa.table({"id": [99]}))
    snapshot = open_snapshot(encoded)
    assert snapshot.needs_delta_reader == "a path with '%20'"
    assert snapshot.table_id != open_snapshot(decoded).table_id
    assert read(spark, snapshot).count() == 5


def test_more_partitions_than_a_union_should_have(spark: SparkSession, lake_dir: Path) -> None:
    path, count = str(lake_dir / "t"), MAX_PARTITION_GROUPS + 8
    rows = [(i, None if i % count == 7 else i % count, "x") for i in range(3 * count)]
    columns = dict(zip(("id", "p", "s"), map(list, zip(*rows, strict=True)), strict=True))
    write_deltalake(path, pa.table(columns), partition_by=["p"])
    snapshot = _assert_readers_agree(spark, path)
    assert len(snapshot.files) == count
    assert read(spark, snapshot, ["s"]).count() == 3 * count


def test_older_files_lack_newer_columns(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": [1, 2], "s": ["old", None]}))
    newer = pa.table({"id": [3], "s": ["new"], "extra": [{"x": 1}]})
    write_deltalake(path, newer, mode="append", schema_mode="merge")
    _assert_readers_agree(spark, path)
    assert open_snapshot(path, 0).schema.names == ["id", "s"]
    assert read(spark, open_snapshot(path, 0)).count() == 2


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
    wider = {
        "a": "INT",
        "b": "DOUBLE",
        "c": "DOUBLE",
        "d": "DECIMAL(20, 4)",
        "e": "TIMESTAMP_NTZ",
        "f": "DECIMAL(12, 2)",
    }
    for column, kind in wider.items():
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}")
    _assert_readers_agree(spark, path)


@pytest.fixture(scope="module")
def with_vectors(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A partitioned table with deleted rows."""
    path = str(tmp_path_factory.mktemp("vectors") / "a table")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, if(id % 2 = 0, 'x y', NULL) FROM range(0, 40, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 25 AND id % 3 > 0")
    return path


def test_deleted_rows_are_left_out(spark: SparkSession, with_vectors: str) -> None:
    snapshot = _assert_readers_agree(spark, with_vectors)
    assert any(file.deleted is not None for file in snapshot.files)
    assert read(spark, snapshot, [], [KeyFilter("id", (3, 4))]).count() == 1


def test_files_of_another_table(spark: SparkSession, with_vectors: str, lake_dir: Path) -> None:
    clone = str(lake_dir / "clone")
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{with_vectors}`")
    snapshot = _assert_readers_agree(spark, clone)
    assert {file.path for file in snapshot.files} == {file.path for file in open_snapshot(with_vectors).files}


def test_many_deleted_rows_are_left_to_the_delta_reader(
    spark: SparkSession, with_vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshlake.storage.scan.open._MAX_DELETED", 1)
    _load.cache_clear()
    snapshot = open_snapshot(with_vectors)
    _load.cache_clear()
    assert snapshot.needs_delta_reader == "deletion vectors of 16 rows"
    assert (snapshot.rows, read(spark, snapshot).count()) == (24, 24)
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(SourceUnreadable, match="must be read by the Delta reader") as error:
        read(session, snapshot)
    assert error.value.hint == "SET spark.sql.files.ignoreMissingFiles=false"


def test_a_missing_or_broken_file_fails_whatever_the_session_says(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": range(5)}))
    write_deltalake(path, pa.table({"id": range(5)}), mode="append")
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    snapshot = open_snapshot(path)
    frame = read(session, snapshot)
    with open(snapshot.files[0].path, "r+b") as file:
        file.truncate(20)
    with pytest.raises((PySparkException, Py4JJavaError)):
        frame.collect()
    os.remove(snapshot.files[0].path)
    with pytest.raises((PySparkException, Py4JJavaError)):
        read(session, snapshot).collect()


def test_an_empty_batch_does_not_hide_the_rows_after_it(spark: SparkSession) -> None:
    schema = StructType([StructField("a", LongType())])
    chunks = [pa.array(values, pa.int64()) for values in ([1], [], [2, 3])]
    rows = pa.table({"a": pa.chunked_array(chunks)})
    assert Relation.of_arrow(rows, schema, insert_only=True).dataframe(spark).count() == 3


def test_a_snapshot_is_pinned(spark: SparkSession, lake_dir: Path) -> None:
    path = str(lake_dir / "t")
    write_deltalake(path, pa.table({"id": range(5)}))
    frame = read(spark, open_snapshot(path))
    write_deltalake(path, pa.table({"id": range(4)}), mode="append")
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
    write_deltalake(path, pa.table({"id": range(5)}))
    with pytest.raises(SourceSchemaChanged, match="column nope does not exist"):
        read(spark, open_snapshot(path), ["nope"])


def test_what_delta_rs_cannot_open_is_left_to_the_delta_reader(
    spark: SparkSession, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DeltaError("unsupported reader feature: fromTheFuture")

    path = str(lake_dir / "t")
    for _ in range(2):
        write_deltalake(path, pa.table({"id": range(5)}), mode="append")
    monkeypatch.setattr("freshlake.storage.scan.open.DeltaTable", refuse)
    snapshot = open_snapshot(path, 0)
    assert (snapshot.opaque, snapshot.files, snapshot.rows) == (True, (), None)
    assert snapshot.needs_delta_reader == "unsupported reader feature: fromTheFuture"
    assert read(spark, snapshot).count() == 5
    DeltaTable(path).create_checkpoint()
    os.remove(f"{path}/_delta_log/{0:020d}.json")
    assert open_snapshot(path, 1).table_id == snapshot.table_id, "found in the checkpoint"
