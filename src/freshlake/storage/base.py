"""Commits to the base: every one carries which log versions it holds, and the latest certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from freshlake.errors import CommitConflict
from freshlake.storage.certificate import Note
from freshlake.storage.commits import commit_properties, notes, open_table
from freshlake.storage.identity import violation
from freshlake.storage.layout import BASE, nested_names_differ
from freshlake.storage.relation import exactly
from freshlake.storage.scan import driver_readable

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def write_base(path: str, frame: DataFrame, note: Note, mode: str) -> None:
    """Write rows by Spark, as one commit with its note."""
    writer = frame.write.format("delta").mode(mode).option("userMetadata", note.to_text())
    with translated(path):
        # an overwrite replaces every partition, whatever the session says
        writer.option("partitionOverwriteMode", "static").save(f"{path}/{BASE}")


def driver_writable(stored: StructType, partition_columns: Sequence[str] = ()) -> bool:
    """Whether rows that the driver holds can be written without Spark.

    Text in partition values is escaped in the paths of files, by delta-rs otherwise than by Spark: what one has added
    the other would fail to remove.
    """
    texts = any(isinstance(stored[name].dataType, StringType) for name in partition_columns)
    return not texts and driver_readable(stored) and not nested_names_differ(stored)


def write_rows(path: str, stored: StructType, rows: pa.Table, note: Note, mode: str) -> None:
    """Write rows that the driver holds, as one commit with its note; takes milliseconds, not a Spark job."""
    table = open_table(f"{path}/{BASE}")
    try:
        write_deltalake(table, exactly(rows, stored), mode=mode, commit_properties=commit_properties(note))  # type: ignore[call-overload]
    except CommitFailedError as error:
        raise CommitConflict(f"another writer committed to the base of {path}", detail=str(error)) from error


@contextmanager
def noted(spark: SparkSession, note: Note) -> Iterator[None]:
    """Statements inside carry the note; they have no writer to give it to."""
    spark.conf.set(_USER_METADATA, note.to_text())
    try:
        yield
    finally:
        spark.conf.unset(_USER_METADATA)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Spark's failures as typed errors."""
    try:
        yield
    except DeltaConcurrentModificationException as error:
        raise CommitConflict(f"another writer committed to the base of {path}", detail=str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        found = violation(error)
        if found is None:
            raise
        raise found from error


def follows(version: int, note: Note) -> bool:
    """Whether a commit changed the version it meant to change."""
    return note.parent is None or version == note.parent + 1


def newest_note(path: str, expected: Note) -> int:
    """The version of the base after our commit; raises if the newest commit is not ours."""
    version, note = next(notes(open_table(f"{path}/{BASE}")))
    if note != expected or not follows(version, expected):
        raise CommitConflict(f"another writer committed to the base of {path}", detail=f"at version {version}")
    return version
