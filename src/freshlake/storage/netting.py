"""Arithmetic on small weighted tables held on the driver as Arrow: a Z-set is netted by summing equal rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType, TimestampType

from freshlake.errors import InvariantViolated
from freshlake.storage.identity import contains
from freshlake.storage.relation import WEIGHT, exactly
from freshlake.storage.scan import KeyFilter
from freshlake.storage.scan.prune import prunable
from freshlake.storage.scan.search import sought

# More values than this are no longer worth comparing with the statistics of every file.
_MAX_KEYS = 1024
# Lists are compared one by one, in Python.
_MAX_LISTS = 20_000


def nettable(table: pa.Table) -> bool:
    """Whether Arrow can group the rows by their bits; nested values need Spark."""
    return not any(pa.types.is_nested(field.type) for field in table.schema)


def net(table: pa.Table) -> pa.Table:
    """One entry per distinct row with the sum of its weights; rows that sum to zero are gone.

    Arrow groups floats by their bits, as wanted, so only NaN is made one value first.
    """
    keys = [name for name in table.column_names if name != WEIGHT]
    # By position, because a column's name may be one that the aggregation makes up.
    positions = [str(position) for position in range(len(keys))]
    columns = [*(_one_nan(table.column(name)) for name in keys), table.column(WEIGHT)]
    flat = pa.table(columns, names=[*positions, WEIGHT])
    grouped = flat.group_by(positions, use_threads=False).aggregate([(WEIGHT, "sum")])
    arrays = [grouped.column(name) for name in (*positions, f"{WEIGHT}_sum")]
    result = pa.Table.from_arrays(arrays, names=[*keys, WEIGHT]).select(table.column_names)
    return result.filter(pc.not_equal(result.column(WEIGHT), 0))


def net_lists(table: pa.Table) -> pa.Table | None:
    """The same for rows that may hold lists of plain values; None for other nested values, and for many rows."""
    if nettable(table):
        return net(table)
    if len(table) > _MAX_LISTS or not all(_is_plain(field.type) for field in table.schema):
        return None
    flat = [_told_apart(table.column(name)) for name in table.column_names if name != WEIGHT]
    keys = [str(position) for position in range(len(flat))]
    rows = pa.table([*flat, table.column(WEIGHT), pa.arange(0, len(table))], names=[*keys, "weight", "row"])
    grouped = rows.group_by(keys, use_threads=False).aggregate([("weight", "sum"), ("row", "min")])
    grouped = grouped.filter(pc.not_equal(grouped.column("weight_sum"), 0))
    at = table.schema.get_field_index(WEIGHT)
    return table.take(grouped.column("row_min")).set_column(at, table.field(at), grouped.column("weight_sum"))


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) or (pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type))


def _told_apart(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Values that are equal where those of the column are the same: lists as texts, in which NaNs are one."""
    if not pa.types.is_nested(column.type):
        return _one_nan(column)
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def positive(table: pa.Table) -> pa.Table:
    """The entries that add rows."""
    return table.filter(pc.greater(table.column(WEIGHT), 0))


def negative(table: pa.Table) -> pa.Table:
    """The entries that remove rows."""
    return table.filter(pc.less(table.column(WEIGHT), 0))


def copies(table: pa.Table) -> pa.Table:
    """Plain rows: weight n becomes n copies."""
    weights = table.column(WEIGHT)
    rows = table.drop_columns([WEIGHT])
    if not table.num_rows:
        return rows
    bounds = pc.min_max(weights).as_py()
    if bounds["min"] < 0:
        raise InvariantViolated("rows that only add were expected, but some remove")
    if bounds == {"min": 1, "max": 1}:
        return rows
    return rows.take(pa.array(_repeated(weights.to_pylist()), pa.int64()))


def totals(table: pa.Table) -> tuple[int, int]:
    """How many rows the entries add, and how many they remove."""
    added = pc.sum(positive(table).column(WEIGHT)).as_py() or 0
    return added, -(pc.sum(negative(table).column(WEIGHT)).as_py() or 0)


def updated(table: pa.Table | None, keys: Sequence[str] | None) -> int | None:
    """How many rows are removed and added again under the same key; None if there is no key, or none that compares."""
    if table is None or keys is None or any(pa.types.is_nested(table.field(key).type) for key in keys):
        return None
    positions = [str(position) for position in range(len(keys))]
    columns = [*(_one_nan(table.column(key)) for key in keys), pc.sign(table.column(WEIGHT))]
    signs = pa.table(columns, names=[*positions, "sign"]).group_by(positions, use_threads=False)
    ends = signs.aggregate([("sign", "min"), ("sign", "max")])
    both = pc.and_(pc.less(ends["sign_min"], 0), pc.greater(ends["sign_max"], 0))
    return int(pc.sum(both).as_py() or 0)


def among(table: pa.Table, schema: StructType, keys: Sequence[KeyFilter]) -> pa.Table:
    """The entries that have such keys. Columns whose values cannot be compared exactly are not looked at."""
    for key in sought(schema, keys):
        table = table.filter(key.among(table))
    return table


def key_filters(table: pa.Table, schema: StructType) -> list[KeyFilter]:
    """What the statistics of a file must allow for it to hold one of these rows."""
    filters = []
    for field in schema:
        known = distinct_values(table.column(field.name), _MAX_KEYS) if prunable(field, ()) else None
        if known is not None:
            filters.append(KeyFilter(field.name, *known))
    return filters


def in_utc(table: pa.Table, schema: StructType) -> pa.Table:
    """Times with a zone as UTC: those of another zone Python orders by what its clocks show, one hour twice a year."""
    return exactly(table, schema) if contains(schema, TimestampType) else table


def distinct_values(column: pa.ChunkedArray, most: int) -> tuple[tuple[Any, ...], bool] | None:
    """The values of a column, and whether NULL is among them; None if they are too many or Python cannot hold them."""
    if pa.types.is_nested(column.type):
        return None
    values = pc.unique(column)
    if len(values) > most:
        return None
    try:
        return tuple(values.drop_null().to_pylist()), values.null_count > 0
    except (ValueError, OverflowError):  # beyond what Python's dates can hold
        return None


def _one_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _repeated(weights: list[int]) -> list[int]:
    return [index for index, weight in enumerate(weights) for _ in range(weight)]
