"""Weighted rows: every row carries how many copies are added (positive) or removed (negative)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from tempfile import NamedTemporaryFile
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

WEIGHT = "__fl_weight"
WEIGHT_FIELD = StructField(WEIGHT, LongType(), nullable=False)


@dataclass(frozen=True)
class Relation:
    """Weighted rows (columns + `__fl_weight`), small ones held on the driver as Arrow, others as a DataFrame."""

    schema: StructType
    arrow: pa.Table | None
    frame: DataFrame | None
    rows: int | None
    insert_only: bool

    def __post_init__(self) -> None:
        if (self.arrow is None) == (self.frame is None):
            raise ValueError("a relation is held either as Arrow or as a DataFrame")

    @classmethod
    def of_arrow(cls, table: pa.Table, schema: StructType, *, insert_only: bool) -> Relation:
        """Rows held on the driver; `schema` is the exact Spark schema, with the weight last."""
        return cls(schema, table, None, table.num_rows, insert_only)

    @classmethod
    def of_frame(cls, frame: DataFrame, schema: StructType, *, insert_only: bool) -> Relation:
        """Rows computed by Spark when they are needed."""
        return cls(schema, None, frame, None, insert_only)

    @classmethod
    def empty(cls, schema: StructType) -> Relation:
        """No rows at all."""
        return cls.of_arrow(arrow_schema(schema).empty_table(), schema, insert_only=True)

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame of exactly `schema`; driver-held rows become a LocalRelation, without a Spark job."""
        if self.frame is not None:
            return self.frame
        frame = local_frame(spark, self.arrow, self.schema)
        if not any(field.metadata for field in self.schema):
            return frame
        return frame.select(*(F.col(_quoted(f.name)).alias(f.name, metadata=f.metadata) for f in self.schema))

    @property
    def is_empty(self) -> bool | None:
        """Whether there are no rows; None when only a Spark job could tell."""
        return None if self.rows is None else self.rows == 0


def local_frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Arrow rows as a LocalRelation. Spark drops what follows an empty batch and needs one, so there is one chunk.

    PySpark's own way takes a dozen round trips to look at settings and types that are known here.
    """
    whole = table.combine_chunks() if table.num_rows else table.schema.empty_table()
    if schema is None:
        return spark.createDataFrame(whole)
    whole = exactly(whole, schema)
    with NamedTemporaryFile(dir=spark.sparkContext._temp_dir) as file:
        with pa.ipc.new_stream(file, whole.schema) as stream:
            stream.write_table(whole)
        file.flush()
        python: Any = _python_utils(spark.sparkContext._jvm)
        batches = python.readArrowStreamFromFile(file.name)
        made = python.toDataFrame(batches, schema.json(), spark._jsparkSession)
    return cast(DataFrame, ClassicDataFrame(made, spark))


@cache
def _python_utils(jvm: Any) -> Any:
    """Looked up once: every step of a package name is a round trip."""
    return jvm.org.apache.spark.sql.api.python.PythonSQLUtils


def weighted(schema: StructType) -> StructType:
    """A schema of plain rows with the weight appended."""
    return StructType([*schema.fields, WEIGHT_FIELD])


def exactly(table: pa.Table, schema: StructType) -> pa.Table:
    """The same columns, by position, under the names and in the Arrow types of a Spark schema."""
    if table.num_rows and not table.num_columns:
        raise ValueError("rows without columns would be lost: Arrow counts them by their columns")
    target = arrow_schema(schema)
    return table.rename_columns(target.names).cast(target)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types that hold a Spark schema exactly: timestamps in microseconds, those with a zone as UTC."""
    return pa.schema(
        [pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), nullable=True) for field in schema]
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
