"""Stream tables as PySpark functions, importable by any process that has the tests on its path."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def by_region(spark: SparkSession) -> DataFrame:
    """The same table as the SQL of `PER_REGION`."""
    return spark.table("orders").groupBy("region").agg(F.count(F.lit(1)).alias("n"), F.sum("amount").alias("total"))


def large(spark: SparkSession) -> DataFrame:
    return spark.table("orders").where("amount > 5").select("id", "amount")


def above(spark: SparkSession) -> DataFrame:
    """Reads another stream table."""
    return spark.table("by_function").where("total > 5")


def rows_of_the_session(spark: SparkSession) -> DataFrame:
    """Cannot be rebuilt by another process."""
    return spark.sparkContext.parallelize([(1,)]).toDF("id INT")


def western(spark: SparkSession) -> DataFrame:
    """Reads a captured table under the name that Spark has for it."""
    return spark.table("shop__public.orders").where("region = 'west'").select("id")
