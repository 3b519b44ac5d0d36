"""Look rows up on the driver: a small part of a stored table, read and netted without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from freshlake.storage.changes import log_rows, stored_delta
from freshlake.storage.layout import FoldPoint, Limits, nested_names_differ
from freshlake.storage.log import Log
from freshlake.storage.read import open_base, stored_columns, stored_keys
from freshlake.storage.relation import Relation
from freshlake.storage.scan import KeyFilter
from freshlake.storage.small import small_rows


def lookup(
    spark: SparkSession,
    path: str,
    at: int,
    fold: FoldPoint,
    columns: Sequence[str],
    keys: Sequence[KeyFilter],
    extra: Sequence[Relation],
    limits: Limits,
) -> pa.Table | None:
    """The rows that may have the keys (never fewer), under the names asked for; None where Spark should read."""
    base = open_base(path, fold.base_version)
    if nested_names_differ(base.schema):
        return None
    wanted, restricted = stored_columns(base.schema, columns), stored_keys(base.schema, keys)
    deltas = [stored_delta(spark, relation, base.schema) for relation in extra]
    if at != fold.folded_version:
        deltas.insert(0, log_rows(spark, Log(path), base.schema, fold.folded_version, at, limits))
    rows = small_rows(base, [d for d in deltas if not d.is_empty], restricted, limits, path)
    return rows.select(wanted).rename_columns(list(columns)) if rows is not None else None
