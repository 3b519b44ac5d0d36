"""Undo the newest commit of a Delta table, and only that one: a commit of somebody else is never undone."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from freshlake.storage.scan.columns import quoted
from freshlake.storage.scan.log import TransactionLog
from freshlake.storage.scan.paths import misread


def mark_of(path: str, version: int) -> str | None:
    """What the writer of a commit said about it (`userMetadata`)."""
    said = TransactionLog(path).info(version).get("userMetadata")
    return str(said) if said is not None else None


def undo(spark: SparkSession, path: str, version: int) -> bool:
    """Bring a table from this version back to the one before; False, and all is as it was, if it is not the newest.

    delta-rs commits right after the version it has loaded, or not at all. Tables that it cannot write are restored by
    Spark, which looks at the table anew: what came in between is then put back.
    """
    try:
        if misread(path) is None:
            DeltaTable(path, version=version).restore(version - 1)
            return True
    except DeltaError:
        pass
    return TransactionLog(path).after(version) == version and _undo_by_spark(spark, path, version)


def _undo_by_spark(spark: SparkSession, path: str, version: int) -> bool:
    _restore(spark, path, version - 1)
    restored = TransactionLog(path).after(version)
    if restored == version + 1:
        return True
    _restore(spark, path, restored - 1)
    return False


def _restore(spark: SparkSession, path: str, version: int) -> None:
    spark.sql(f"RESTORE TABLE delta.{quoted(path)} TO VERSION AS OF {version}")
