"""Changes of tables whose files only Spark's Delta reader understands: its change feed, or two whole snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from freshlake.storage.identity import consolidate
from freshlake.storage.relation import WEIGHT, Relation, weighted
from freshlake.storage.scan import Snapshot, read
from freshlake.storage.scan.columns import chosen, quoted, visible

CHANGE_TYPE = "_change_type"
ADDED = ("insert", "update_postimage")


def has_change_feed(metadata: Mapping[str, Any] | None) -> bool:
    """Whether a `metaData` action switches the change feed on."""
    configuration = (metadata or {}).get("configuration") or {}
    return str(configuration.get("delta.enableChangeDataFeed", "false")).lower() == "true"


def read_feed(
    spark: SparkSession, start: Snapshot, end: Snapshot, columns: Sequence[str] | None, insert_only: bool
) -> Relation:
    """By the change feed, both ends pinned."""
    wanted = visible(chosen(end.schema, columns))
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", start.version + 1).option("endingVersion", end.version)
    frame = reader.load(end.path).select(*_columns(wanted.names), change_weight())
    return Relation.of_frame(frame, weighted(wanted), insert_only=insert_only)


def read_difference(
    spark: SparkSession, start: Snapshot, end: Snapshot, columns: Sequence[str] | None, insert_only: bool
) -> Relation:
    """All rows of the end minus all rows of the start. A column that the start lacks is NULL there.

    They are summed where rows were only added: what follows relies on it.
    """
    wanted = visible(chosen(end.schema, columns))
    known = {name.lower() for name in start.schema.names}
    old = read(spark, start, [name for name in wanted.names if name.lower() in known])
    for field in wanted:
        if field.name.lower() not in known:
            old = old.withColumn(field.name, F.lit(None).cast(field.dataType))
    new = read(spark, end, wanted.names)
    frame = _weighted(new, wanted.names, 1).unionAll(_weighted(old, wanted.names, -1))
    return Relation.of_frame(consolidate(frame) if insert_only else frame, weighted(wanted), insert_only=insert_only)


def change_weight() -> Column:
    """The weight that the change feed's `_change_type` stands for."""
    return F.when(F.col(CHANGE_TYPE).isin(*ADDED), 1).otherwise(-1).cast(LongType()).alias(WEIGHT)


def _weighted(frame: DataFrame, names: Sequence[str], weight: int) -> DataFrame:
    return frame.select(*_columns(names), F.lit(weight).cast(LongType()).alias(WEIGHT))


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]
