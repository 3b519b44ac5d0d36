"""Find rows by their keys on the driver: the key columns are searched first, then the rows that match are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from freshlake.storage.relation import arrow_schema
from freshlake.storage.scan.columns import chosen
from freshlake.storage.scan.driver import complete_places, driver_readable, find_places
from freshlake.storage.scan.files import DataFile, KeyFilter, Snapshot
from freshlake.storage.scan.kept import KEPT
from freshlake.storage.scan.prune import prunable, prune

SEARCHED_ROWS = 16_000_000
"""Looking through the keys of more rows takes longer than a Spark job."""
FOUND_ROWS = 100_000
"""More rows than this are not worth holding on the driver."""
_THREADS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Sought:
    """The values that a column of a wanted row has."""

    column: str
    values: pa.Array
    has_null: bool

    def among(self, table: pa.Table) -> pa.ChunkedArray:
        """Which rows of a table have one of them."""
        column = table.column(self.column)
        found = pc.is_in(column, value_set=self.values)
        return pc.or_(found, pc.is_null(column)) if self.has_null else found


def search(
    snapshot: Snapshot,
    columns: Sequence[str] | None,
    keys: Sequence[KeyFilter],
    found_rows: int = FOUND_ROWS,
    searched_rows: int = SEARCHED_ROWS,
) -> pa.Table | None:
    """The rows that have the keys, as far as these can be compared; None where Spark should read them.

    Raises NotDriverReadable, OSError and ArrowException like `read_arrow`.
    """
    wanted = sought(snapshot.schema, keys)
    if not wanted or snapshot.needs_delta_reader is not None or not driver_readable(snapshot.schema, columns):
        return None
    files = prune(snapshot, keys)
    if any(file.rows is None for file in files) or sum(file.rows or 0 for file in files) > searched_rows:
        return None
    schema, partition = chosen(snapshot.schema, columns), snapshot.partition_columns
    tested = chosen(snapshot.schema, list(dict.fromkeys(key.column for key in wanted)))
    others = StructType([field for field in schema if field.name not in tested.names])

    def test(rows: pa.Table) -> pa.ChunkedArray:
        return reduce(pc.and_, (key.among(rows) for key in wanted))

    def complete(file: DataFile, places: pa.Array, having: pa.Table) -> pa.Table:
        read = complete_places(file, places, others, partition)
        return pa.table([(having if name in tested.names else read).column(name) for name in schema.names], target)

    KEPT.forget_removed(snapshot.path, (file.path for file in snapshot.files))
    target = arrow_schema(schema)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda file: find_places(file, tested, partition, test), files))
        if sum(len(places) for places, _ in found) > found_rows:
            return None
        matched = [(file, *have) for file, have in zip(files, found, strict=True) if len(have[0])]
        rows = pool.map(lambda match: complete(*match), matched)
        return pa.concat_tables([target.empty_table(), *rows])


def sought(schema: StructType, keys: Sequence[KeyFilter]) -> list[Sought]:
    """The keys as Arrow values; those that cannot be compared exactly with their columns are left out."""
    fields = {field.name: field for field in schema}
    found = []
    for key in keys:
        values = [value for value in key.values if value is not None]
        if key.column in fields and prunable(fields[key.column], values):
            kind = arrow_schema(StructType([fields[key.column]])).field(0).type
            has_null = key.has_null or len(values) < len(key.values)
            found.append(Sought(key.column, _as_array(values, kind), has_null))
    return found


def _as_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A value that the column's type cannot hold is in no row."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):
        if len(values) == 1:
            return pa.array([], kind)
        half = len(values) // 2
        return pa.concat_arrays([_as_array(values[:half], kind), _as_array(values[half:], kind)])
