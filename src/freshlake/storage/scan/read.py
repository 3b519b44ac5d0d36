"""Reading a snapshot with Spark: its files as a plain list, or the Delta reader where that could be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.errors import SourceUnreadable
from freshlake.storage.scan.columns import chosen, quoted
from freshlake.storage.scan.conditions import condition
from freshlake.storage.scan.file_list import read_files
from freshlake.storage.scan.files import KeyFilter, Snapshot
from freshlake.storage.scan.prune import is_wide, prunable, prune

# More literals than this are slower to plan than the rows they leave out are to read.
_MAX_LITERALS = 200


def read(
    spark: SparkSession, snapshot: Snapshot, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
) -> DataFrame:
    """The rows of a snapshot; `keys` leave out files and rows that cannot match."""
    wanted = chosen(snapshot.schema, columns)
    if snapshot.needs_delta_reader is not None:
        frame = read_delta(spark, snapshot)
    else:
        frame = read_files(spark, prune(snapshot, keys), snapshot.schema, None, snapshot.partition_columns)
    return _filtered(frame, snapshot.schema, keys).select(*_references(wanted))


def read_delta(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """The rows of a snapshot by Spark's Delta reader, pinned to its version."""
    for setting in ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"):
        if spark.conf.get(setting, "false") == "true":  # the Delta reader takes it only from the session
            raise SourceUnreadable(
                f"{snapshot.path} must be read by the Delta reader ({snapshot.needs_delta_reader})",
                detail=f"{setting} is on, so missing rows would not be noticed",
                hint=f"SET {setting}=false",
            )
    return spark.read.format("delta").option("versionAsOf", snapshot.version).load(snapshot.path)


def _references(wanted: StructType) -> list[Column]:
    return [F.col(quoted(field.name)) for field in wanted]


def _filtered(frame: DataFrame, schema: StructType, keys: Sequence[KeyFilter]) -> DataFrame:
    for key in keys:
        text = _condition(schema, key)
        frame = frame if text is None else frame.filter(text)
    return frame


def _condition(schema: StructType, key: KeyFilter) -> str | None:
    field = next((f for f in schema if f.name.lower() == key.column.lower()), None)
    values = [value for value in key.values if value is not None]
    if field is None or is_wide(field.dataType) or not prunable(field, values):  # the Delta reader skips files too
        return None
    return condition(field, key, _MAX_LITERALS)
