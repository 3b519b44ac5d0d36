"""Is a caller's Spark session one that Freshlake can work with? If not, say exactly what to add."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from freshlake.errors import DeltaNotConfigured, SparkConnectUnsupported

EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


def check(spark: SparkSession) -> None:
    """Raise a typed error unless `spark` is classic PySpark with Delta's extension, catalog and classes."""
    if not hasattr(spark, "_jsparkSession"):
        raise SparkConnectUnsupported(
            "the given session is a Spark Connect session, Freshlake needs classic PySpark",
            hint="pass one made by SparkSession.builder.master(...).getOrCreate(), without remote() and SPARK_REMOTE",
        )
    missing = tuple(_missing(spark))
    if missing:
        raise DeltaNotConfigured(
            "the given Spark session is not set up for Delta Lake",
            detail="missing: " + ", ".join(missing),
            hint="these can only be set before Spark starts: " + "".join(f".config({line})" for line in missing),
        )


def _missing(spark: SparkSession) -> list[str]:
    missing = []
    if not _has_class(spark, DELTA_CATALOG):
        missing.append(f'"spark.jars.packages", "{_PACKAGE}"')
    extensions = spark.conf.get(EXTENSIONS, None) or ""
    if DELTA_EXTENSION not in [name.strip() for name in extensions.split(",")]:
        present = f"{extensions}," if extensions else ""
        missing.append(f'"{EXTENSIONS}", "{present}{DELTA_EXTENSION}"')
    if spark.conf.get(CATALOG, None) != DELTA_CATALOG:
        missing.append(f'"{CATALOG}", "{DELTA_CATALOG}"')
    return missing


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))
