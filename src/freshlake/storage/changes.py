"""changes(v₀, v₁) = the weighted rows of log versions in (v₀, v₁], consolidated."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from freshlake.storage.failures import unread
from freshlake.storage.identity import consolidate
from freshlake.storage.layout import Limits, logical_schema, nested_names_differ, to_logical, to_stored
from freshlake.storage.log import Log, LogFile
from freshlake.storage.netting import net, nettable
from freshlake.storage.relation import WEIGHT, Relation, exactly, weighted
from freshlake.storage.scan import NotDriverReadable, driver_readable, read_arrow, read_files
from freshlake.storage.scan.columns import quoted

# Arrow in memory is larger than compressed Parquet.
_EXPANSION = 4


def changes(
    spark: SparkSession, log: Log, stored: StructType, after: int, upto: int, columns: Sequence[str], limits: Limits
) -> Relation:
    """The consolidated range, of the stored columns named, still under their stored names."""
    rows = log_rows(spark, log, stored, after, upto, limits)
    if rows.is_empty:
        return Relation.empty(_weighted_columns(stored, columns))
    if len(columns) == len(stored) and upto - after == 1 and not rows.insert_only:
        return rows  # a batch is consolidated when it is appended, unless it only adds rows
    return consolidated(spark, rows, _weighted_columns(stored, columns))


def consolidated(spark: SparkSession, rows: Relation, schema: StructType) -> Relation:
    """The named columns of a relation, summed again."""
    if rows.arrow is not None:
        arrow = netted(spark, rows.arrow.select(schema.names), schema)
        return Relation.of_arrow(arrow, schema, insert_only=rows.insert_only)
    frame = consolidate(rows.dataframe(spark).select(*map(quoted, schema.names)))
    return Relation.of_frame(frame, schema, insert_only=rows.insert_only)


def log_rows(spark: SparkSession, log: Log, stored: StructType, after: int, upto: int, limits: Limits) -> Relation:
    """The weighted rows of versions in (after, upto], not consolidated across versions."""
    files = log.files(after, upto)
    schema = weighted(stored)
    insert_only = all(file.insert_only for file in files)
    data = [file.data for file in files]
    if _fits_driver(files, limits) and driver_readable(schema):
        try:
            return Relation.of_arrow(read_arrow(data, schema), schema, insert_only=insert_only)
        except NotDriverReadable:
            pass
        except (OSError, pa.ArrowException) as error:
            raise unread(error, f"a file of the log {log.path} cannot be read") from error
    return Relation.of_frame(read_files(spark, data, schema), schema, insert_only=insert_only)


def appended(spark: SparkSession, log: Log, stored: StructType, version: int) -> Relation:
    """The rows of one version as they were appended, read by Spark."""
    files = log.files(version - 1, version)
    schema, rows = weighted(stored), [file.data.rows for file in files]
    known = None if None in rows else sum(count or 0 for count in rows)
    frame = read_files(spark, [file.data for file in files], schema)
    return Relation(schema, None, frame, known, all(file.insert_only for file in files))


def stored_delta(spark: SparkSession, relation: Relation, stored: StructType) -> Relation:
    """A relation under the column order and names of the stored table."""
    names = [*logical_schema(stored).names, WEIGHT]
    schema = weighted(stored)
    if relation.arrow is not None and not nested_names_differ(stored):
        arrow = exactly(relation.arrow.select(names), schema)
        return Relation.of_arrow(arrow, schema, insert_only=relation.insert_only)
    frame = relation.dataframe(spark).select(*map(quoted, names))
    return Relation.of_frame(to_stored(frame, stored), schema, insert_only=relation.insert_only)


def logical_delta(spark: SparkSession, relation: Relation, stored: StructType) -> Relation:
    """The inverse, of the stored columns that the relation has."""
    schema = weighted(logical_schema(stored))
    if relation.arrow is not None and not nested_names_differ(stored):
        arrow = relation.arrow.rename_columns(schema.names)
        return Relation.of_arrow(arrow, schema, insert_only=relation.insert_only)
    frame = to_logical(relation.dataframe(spark), stored)
    return Relation(schema, None, frame, relation.rows, relation.insert_only)


def netted(spark: SparkSession, table: pa.Table, schema: StructType) -> pa.Table:
    """Driver-held entries consolidated: on the driver, or by Spark where Arrow cannot group the types."""
    if not table.num_rows:
        return table
    if nettable(table):
        return net(table)
    frame = consolidate(Relation.of_arrow(table, schema, insert_only=False).dataframe(spark))
    return frame.toArrow().cast(table.schema)


def _weighted_columns(stored: StructType, columns: Sequence[str]) -> StructType:
    return weighted(StructType([stored[name] for name in columns]))


def _fits_driver(files: Sequence[LogFile], limits: Limits) -> bool:
    counts = [file.data.rows for file in files]
    rows = sum(count for count in counts if count is not None)
    size = sum(file.data.size for file in files)
    return None not in counts and rows <= limits.rows and size * _EXPANSION <= limits.bytes
