"""A small base, whole or by keys, with deltas applied: read and netted on the driver, without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from freshlake.errors import InvariantViolated
from freshlake.storage.failures import unread
from freshlake.storage.layout import Limits
from freshlake.storage.netting import among, copies, net, nettable, totals
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan import DataFile, KeyFilter, NotDriverReadable, Snapshot, driver_readable, prune, read_arrow
from freshlake.storage.scan.search import search


def small_rows(
    base: Snapshot, deltas: Sequence[Relation], keys: Sequence[KeyFilter], limits: Limits, path: str
) -> pa.Table | None:
    """The rows that may have the keys, under their stored names; None where Spark should read them."""
    if base.needs_delta_reader is not None or not driver_readable(base.schema):
        return None
    changes = [among(d.arrow, base.schema, keys) for d in deltas if d.arrow is not None]
    if len(changes) < len(deltas):
        return None
    try:
        rows = _read(base, prune(base, keys), keys, limits)
    except NotDriverReadable:
        return None
    except (OSError, pa.ArrowException) as error:
        raise unread(error, f"a file of the base of {path} cannot be read") from error
    if rows is None or not changes:
        return rows
    return _netted(rows, changes, limits, path) if nettable(rows) else None


def _read(base: Snapshot, files: Sequence[DataFile], keys: Sequence[KeyFilter], limits: Limits) -> pa.Table | None:
    if any(file.rows is None for file in files):
        return None
    total = sum(file.rows or 0 for file in files)
    if total <= limits.small_rows and sum(file.size for file in files) <= limits.small_bytes:
        return among(read_arrow(files, base.schema, None, base.partition_columns), base.schema, keys)
    return search(base, None, keys, limits.small_rows, limits.searched_rows)


def _netted(rows: pa.Table, changes: Sequence[pa.Table], limits: Limits, path: str) -> pa.Table | None:
    """The rows after the changes; None where few entries stand for too many copies."""
    ones = pa.array([1] * rows.num_rows, pa.int64())
    weighted = rows.append_column(pa.field(WEIGHT, pa.int64(), nullable=False), ones)
    names = weighted.column_names
    aligned = [c.select(names).cast(weighted.schema) for c in changes]
    entries = net(pa.concat_tables([weighted, *aligned]))
    if totals(entries)[0] > limits.rows:
        return None
    try:
        return copies(entries)
    except InvariantViolated as error:
        raise InvariantViolated(
            f"a row of {path} has a negative number of copies",
        ) from error
