"""The columns of a captured table as the lake has them."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from freshlake.sources.postgres.tables import Captured
from freshlake.storage.layout import stored_schema
from freshlake.storage.relation import weighted


def lake_schema(captured: Captured) -> StructType:
    """The columns under their own names."""
    kinds = ((column.name, captured.lake_type(column).arrow) for column in captured.columns)
    return StructType(
        [StructField(name, from_arrow_type(kind, prefer_timestamp_ntz=True), True) for name, kind in kinds]
    )


def row_schema(captured: Captured) -> StructType:
    """The columns under the names that they have in the shape, and the weight."""
    return weighted(stored_schema(lake_schema(captured)))
