"""What a batch of changes is made of, in order: rows with weights, and what cannot be said by rows.

A batch leads from the state at its first position to the state at its second one:

- `Rows`: add each row `__fl_weight` times (an update is the old row with -1 and the new one with +1);
- `Truncated`: forget the table's rows of this batch so far, and all that was stored before: the table was empty here;
- `Resync`: changes of this table cannot be followed; ignore its other events and copy it anew.

All rows of a table may be added up in any order between two of its other events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.decode import decode
from freshlake.sources.postgres.tables import Captured

WEIGHT = "__fl_weight"


@dataclass(frozen=True)
class Rows:
    """Weighted rows of one table; the columns are those of `arrow_schema`."""

    table: Captured
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Truncated:
    """The table was emptied."""

    table: Captured


@dataclass(frozen=True)
class Resync:
    """The table must be copied anew, and perhaps its capture made anew."""

    table: Captured
    reason: Reason
    detail: str


def not_representable(table: Captured, error: ValueNotRepresentable) -> Resync:
    """A value that does not fit concerns its table alone, and only as long as it is there: a copy finds out."""
    return Resync(table, Reason.VALUE_NOT_REPRESENTABLE, f"{error.message}: {error.detail}")


Event = Rows | Truncated | Resync


def arrow_schema(table: Captured) -> pa.Schema:
    """The captured columns and the weight."""
    fields = [pa.field(c.name, table.lake_type(c).arrow) for c in table.columns]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64(), nullable=False)])


def weighted_rows(table: Captured, texts: Sequence[pa.Array], weights: pa.Array) -> pa.RecordBatch:
    """Rows from the text forms of their values, one array per captured column."""
    values = [
        decode(array, table.lake_type(column), f"{table.table.full_name}.{column.name}")
        for array, column in zip(texts, table.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*values, weights], schema=arrow_schema(table))
