"""Queries in another SQL dialect than Spark's: translated once, when a stream table is defined."""

from freshlake.dialect.translation import ColumnsOf, Dialect, Fields, to_spark

__all__ = ["ColumnsOf", "Dialect", "Fields", "to_spark"]
