"""Look rows up on the driver: a small part of a stored table, read and netted without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from freshlake.errors import InvariantViolated
from freshlake.storage.changes import log_rows, stored_delta
from freshlake.storage.layout import FoldPoint, Limits, nested_names_differ
from freshlake.storage.log import Log
from freshlake.storage.netting import among, copies, net, nettable
from freshlake.storage.read import open_base, stored_columns, stored_keys
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan import KeyFilter, NotDriverReadable, driver_readable, prune, read_arrow

_MAX_BYTES = 2 * 1024 * 1024
_MAX_ROWS = 100_000


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
    if base.needs_delta_reader is not None or nested_names_differ(base.schema) or not driver_readable(base.schema):
        return None
    wanted, restricted = stored_columns(base.schema, columns), stored_keys(base.schema, keys)
    files = prune(base, restricted)
    if sum(f.size for f in files) > _MAX_BYTES or sum(f.rows or _MAX_ROWS for f in files) > _MAX_ROWS:
        return None
    deltas = [stored_delta(spark, relation, base.schema) for relation in extra]
    if at != fold.folded_version:
        deltas.insert(0, log_rows(spark, Log(path), base.schema, fold.folded_version, at, limits))
    changes = [d.arrow for d in deltas if not d.is_empty]
    if any(c is None for c in changes):
        return None
    try:
        rows = among(read_arrow(files, base.schema, None, base.partition_columns), base.schema, restricted)
    except NotDriverReadable:
        return None
    if changes:
        if not nettable(rows):
            return None
        rows = _netted(rows, [among(c, base.schema, restricted) for c in changes], path)
    return rows.select(wanted).rename_columns(list(columns))


def _netted(rows: pa.Table, changes: Sequence[pa.Table], path: str) -> pa.Table:
    ones = pa.array([1] * rows.num_rows, pa.int64())
    weighted = rows.append_column(pa.field(WEIGHT, pa.int64(), nullable=False), ones)
    names = weighted.column_names
    aligned = [c.select(names).cast(weighted.schema) for c in changes]
    entries = net(pa.concat_tables([weighted, *aligned]))
    try:
        return copies(entries)
    except InvariantViolated as error:
        raise InvariantViolated(
            f"a row of {path} has a negative number of copies",
            hint="run verify on the table, then refresh it with mode FULL",
        ) from error
