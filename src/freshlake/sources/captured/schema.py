"""The columns of a captured table as the lake has them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from freshlake.sources.postgres.tables import Captured
from freshlake.storage.layout import stored_schema
from freshlake.storage.relation import WEIGHT, arrow_schema, weighted


def lake_schema(captured: Captured) -> StructType:
    """All columns that could be captured, under their own names."""
    kinds = ((column.name, captured.lake_type(column).arrow) for column in captured.whole)
    return StructType(
        [StructField(name, from_arrow_type(kind, prefer_timestamp_ntz=True), True) for name, kind in kinds]
    )


def row_schema(captured: Captured) -> StructType:
    """The columns under the names that they have in the shape, and the weight."""
    return weighted(stored_schema(lake_schema(captured)))


def stored_names(captured: Captured) -> dict[str, str]:
    """The names of the columns in the shape, with those in the database."""
    return dict(zip(row_schema(captured).names[:-1], captured.whole_names, strict=True))


class Landed:
    """Rows as the lake holds them: columns that are not captured are there, and empty."""

    def __init__(self, captured: Captured) -> None:
        self.schema = row_schema(captured)
        self.target = arrow_schema(self.schema)
        given = {name: place for place, name in enumerate((*captured.names, WEIGHT))}
        self._places = [given.get(name) for name in (*captured.whole_names, WEIGHT)]

    def table(self, piece: pa.RecordBatch) -> pa.Table:
        """Rows of the captured columns and their weight, by position."""
        kinds = self.target.types
        columns = [
            pa.nulls(piece.num_rows, kind) if place is None else piece.column(place).cast(kind)
            for place, kind in zip(self._places, kinds, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.target)
