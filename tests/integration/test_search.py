"""Rows that the driver finds by their keys are those that Spark finds in the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshlake.storage.relation import local_frame
from freshlake.storage.scan import KEPT, KeyFilter, Snapshot, open_snapshot, read
from freshlake.storage.scan.search import search
from tests.bags import assert_same_bag

ROWS = 150_000
_COLUMNS = "id BIGINT, k INT, s STRING, d DECIMAL(20,2), p INT"
_DRAWN = f"""SELECT id, nullif(cast(pmod(xxhash64(id), 5000) AS INT), 0),
    if(id % 7 = 0, NULL, concat('s', id % 100)), cast(id AS DECIMAL(20,2)) / 3, cast(id % 3 AS INT)
    FROM range(0, {ROWS}, 1, 2)"""


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Every test begins with nothing kept, and leaves the memory as large as it was."""
    limit = KEPT.limit
    KEPT.resize(0)
    KEPT.resize(limit)
    yield
    KEPT.resize(limit)


@pytest.fixture(scope="module", params=["plain", "partitioned", "renamed", "with deleted rows"])
def snapshot(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    kind, path = request.param, tmp_path_factory.mktemp("search") / "t"
    properties = ["delta.enableDeletionVectors=true"]
    if kind == "renamed":
        properties.append("delta.columnMapping.mode='name'")
    partitioned = "PARTITIONED BY (p)" if kind == "partitioned" else ""
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({_COLUMNS}) USING delta {partitioned} TBLPROPERTIES ({', '.join(properties)})"
    )
    spark.sql(f"INSERT INTO delta.`{path}` {_DRAWN}")
    if kind == "renamed":
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN d TO e")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN f STRING")
    if kind == "with deleted rows":
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3 OR id BETWEEN 70000 AND 70100")
    found = open_snapshot(str(path))
    assert found.needs_delta_reader is None
    assert any(file.deleted is not None for file in found.files) == (kind == "with deleted rows")
    return found


@pytest.mark.parametrize(
    ("keys", "condition"),
    [
        ([KeyFilter("k", (1, 17, 4999))], "k IN (1, 17, 4999)"),
        ([KeyFilter("k", (17,), has_null=True)], "k = 17 OR k IS NULL"),
        ([KeyFilter("k", (None,))], "k IS NULL"),
        ([KeyFilter("k", (2**40, -1))], "false"),
        ([KeyFilter("k", tuple(range(40))), KeyFilter("s", ("s5", None))], "k < 40 AND (s = 's5' OR s IS NULL)"),
        ([KeyFilter("p", (2,)), KeyFilter("k", (3,))], "p = 2 AND k = 3"),
        ([KeyFilter("id", (0, 65535, 65536, 70050, 74999, 75000, ROWS - 1, ROWS))], None),
    ],
)
def test_the_same_rows_as_spark(
    spark: SparkSession, snapshot: Snapshot, keys: list[KeyFilter], condition: str | None
) -> None:
    condition = condition or f"id IN ({', '.join(map(str, keys[0].values))})"
    expected = read(spark, snapshot).where(condition)
    KEPT.resize(0)
    found = search(snapshot, None, keys)
    assert found is not None
    KEPT.resize(64 * 1024 * 1024)
    for _ in range(2):  # read into memory, then found there
        assert search(snapshot, None, keys) == found
    assert_same_bag(local_frame(spark, found, expected.schema), expected)
    for columns in (["s", "id"], ["p"], ["k"]):
        narrow = search(snapshot, columns, keys)
        assert narrow is not None
        assert narrow.column_names == columns
        selected = expected.select(*columns)
        assert_same_bag(local_frame(spark, narrow, selected.schema), selected)


def test_what_is_left_to_spark(spark: SparkSession, snapshot: Snapshot) -> None:
    key = KeyFilter("k", (17,))
    rows = read(spark, snapshot).where("k = 17").count()
    assert search(snapshot, None, [key], found_rows=rows) is not None
    assert search(snapshot, None, [key], found_rows=rows - 1) is None
    assert search(snapshot, None, [key], searched_rows=ROWS // 2) is None
    assert search(snapshot, None, []) is None
    assert search(snapshot, None, [KeyFilter("k", ("17",))]) is None, "text is not compared with numbers"


def test_a_missing_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(10).write.format("delta").save(str(path))
    snapshot = open_snapshot(str(path))
    for file in path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(FileNotFoundError):
        search(snapshot, None, [KeyFilter("id", (1,))])
