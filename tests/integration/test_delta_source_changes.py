"""The law of a source: snapshot(start) + changes(start, end) = snapshot(end), as bags, whatever the commits did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import pytest
from pyspark.sql import SparkSession

from freshlake.sources.delta import DeltaSource
from freshlake.sources.delta.changes import Limits
from freshlake.sources.protocol import Position
from freshlake.storage.relation import WEIGHT, Relation
from tests.bags import canonical

Bag = Counter[Any]

BY_SPARK = Limits(bytes=0)

# One table through every kind of commit, first plain, then with a change feed, then with deletion vectors.
LONG = (
    "INSERT INTO {t} VALUES (6, NULL, 1.5, 'b'), (6, NULL, 1.5, 'b'), (7, 'x', double('-0.0'), NULL)",
    "UPDATE {t} SET s = concat(s, '!'), d = 0.0 WHERE id IN (0, 1, 2, 7)",
    "MERGE INTO {t} USING (SELECT explode(array(1, 4, 90)) AS k) ON id = k "
    "WHEN MATCHED AND k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET d = 0.0 "
    "WHEN NOT MATCHED THEN INSERT (id, s, d, p) VALUES (k, 'new', double('NaN'), 'a b/c')",
    "OPTIMIZE {t}",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "UPDATE {t} SET d = d + 1 WHERE id < 4",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "DELETE FROM {t} WHERE id = 2",
    "ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')",
    "UPDATE {t} SET s = 'vector' WHERE id IN (0, 90)",
    "DELETE FROM {t} WHERE id = 6",
    "RESTORE {t} TO VERSION AS OF 3",
    "INSERT OVERWRITE {t} VALUES (1, 'one', 1.0, 'a'), (1, 'one', 1.0, 'a'), (2, 'two', 2.0, 'b')",
    "DELETE FROM {t}",
)

# Partitioned, columns mapped by name, with a change feed.
MAPPED = (
    "UPDATE {t} SET s = 'changed' WHERE id IN (0, 2)",
    "DELETE FROM {t} WHERE id = 4",
    "INSERT OVERWRITE {t} VALUES (1, 'one', 1.0, 'a b/c%d=é'), (1, 'one', 1.0, NULL), (2, 'two', 2.0, '')",
)

# Partitioned by a column that is NULL or empty, which is the same to Delta, but not inside of a file.
PARTITIONED = (
    "INSERT INTO {t} VALUES (7, 'seven', 1.0, ''), (8, 'eight', 2.0, '')",
    "UPDATE {t} SET s = concat(s, '!') WHERE p IS NULL",
    "DELETE FROM {t} WHERE id = 7",
    "DELETE FROM {t}",
)


@dataclass(frozen=True)
class History:
    """A table after several commits: every position, and the rows there as Spark's Delta reader sees them."""

    path: str
    positions: tuple[Position, ...]
    bags: tuple[Bag, ...]


def _build(spark: SparkSession, path: str, options: str, steps: Sequence[str]) -> History:
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING, d DOUBLE, p STRING) USING delta {options}")
    spark.sql(
        f"INSERT INTO {table} SELECT id, if(id = 2, NULL, concat('row ', id)), id / 3, "
        f"element_at(array('a', 'b', NULL), cast(id % 3 + 1 AS INT)) FROM range(0, 6, 1, 2)"
    )
    source = DeltaSource("t", path)
    positions = [source.head()]
    for step in steps:
        spark.sql(step.format(t=table))
        positions.append(source.head())
    return History(path, tuple(positions), tuple(_bag_at(spark, path, position.version) for position in positions))


def _bag_at(spark: SparkSession, path: str, version: int) -> Bag:
    frame = spark.read.format("delta").option("versionAsOf", version).load(path)
    return Counter(canonical(row) for row in frame.collect())


def _applied(spark: SparkSession, bag: Bag, change: Relation) -> Bag:
    result = Counter(bag)
    for row in change.dataframe(spark).collect():
        *values, weight = row
        result[canonical(tuple(values))] += weight
    return Counter({row: count for row, count in result.items() if count})


@pytest.fixture(scope="module")
def long_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    return _build(spark, str(tmp_path_factory.mktemp("history") / "a table"), "", LONG)


@pytest.fixture(scope="module")
def mapped_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    options = (
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')"
    )
    return _build(spark, str(tmp_path_factory.mktemp("history") / "mapped"), options, MAPPED)


@pytest.fixture(scope="module")
def partitioned_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    return _build(spark, str(tmp_path_factory.mktemp("history") / "parts"), "PARTITIONED BY (p)", PARTITIONED)


@pytest.fixture(params=["long_history", "mapped_history", "partitioned_history"])
def history(request: pytest.FixtureRequest) -> History:
    found: History = request.getfixturevalue(request.param)
    return found


def test_changes_lead_from_every_state_to_every_later_one(history: History, spark: SparkSession) -> None:
    source = DeltaSource("t", history.path)
    for first, last in combinations_with_replacement(range(len(history.positions)), 2):
        change = source.changes(spark, history.positions[first], history.positions[last])
        assert change.arrow is not None, "a small change stays on the driver"
        assert change.schema.names == ["id", "s", "d", "p", WEIGHT]
        assert _applied(spark, history.bags[first], change) == history.bags[last], (first, last)


def test_spark_reads_the_same_changes_as_the_driver(history: History, spark: SparkSession) -> None:
    source = DeltaSource("t", history.path, limits=BY_SPARK)
    end = len(history.positions) - 1
    for first, last in [(0, end), *((i, i + 1) for i in range(1, end, 2))]:
        change = source.changes(spark, history.positions[first], history.positions[last])
        assert _applied(spark, history.bags[first], change) == history.bags[last], (first, last)
