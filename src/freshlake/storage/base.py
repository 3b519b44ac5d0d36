"""Commits to the base: every one carries which log versions it holds, and the latest certificate.

They are numbered by a transaction id, so of two that begin from one state only the first succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from freshlake.errors import CommitConflict, LeaseLost
from freshlake.storage.certificate import Note, NoteKind
from freshlake.storage.commits import commit, commit_properties, notes, open_table
from freshlake.storage.identity import violation
from freshlake.storage.layout import BASE, nested_names_differ
from freshlake.storage.relation import exactly
from freshlake.storage.scan import driver_readable

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_APPLICATION = "spark.databricks.delta.write.txnAppId"
_NUMBER = "spark.databricks.delta.write.txnVersion"


@dataclass(frozen=True)
class Turn:
    """The right to add the next commit to a base, taken before what to write is computed.

    Spark leaves out a write whose number is taken, without a word; one that is on its way fails, and so does delta-rs.
    """

    path: str
    table: DeltaTable
    number: int

    @classmethod
    def take(cls, path: str, epoch: int) -> Turn:
        """Raises LeaseLost when the holder of this lease may no longer write here."""
        table = open_table(f"{path}/{BASE}")
        fence = table.transaction_version(_fence_id(table)) or 0
        if epoch <= fence:
            raise LeaseLost(f"lease {epoch} came too late", detail=f"{path} is closed to leases up to {fence}")
        return cls(path, table, 1 + (table.transaction_version(_id(table)) or 0))

    @property
    def application(self) -> str:
        return _id(self.table)


def close_base(path: str, epoch: int) -> bool:
    """Shut out the holders of leases up to this one; False if another commit came in between."""
    table = open_table(f"{path}/{BASE}")
    if epoch <= (table.transaction_version(_fence_id(table)) or 0):
        return True
    newest = next(notes(f"{path}/{BASE}", table.version()))[1]
    note = Note(NoteKind.FENCE, newest.certificate, newest.folded_version) if newest else Note(NoteKind.FENCE, None)
    number = 1 + (table.transaction_version(_id(table)) or 0)
    try:
        commit(table, (), note, {_id(table): number, _fence_id(table): epoch})
    except CommitConflict:
        return False
    return True


def _id(table: DeltaTable) -> str:
    return str(table.metadata().id)


def _fence_id(table: DeltaTable) -> str:
    return f"{_id(table)}/fence"


def write_base(turn: Turn, frame: DataFrame, note: Note, mode: str) -> None:
    """Write rows by Spark, as one commit with its note."""
    writer = frame.write.format("delta").mode(mode).option("userMetadata", note.to_text())
    writer = writer.option("txnAppId", turn.application).option("txnVersion", turn.number)
    with translated(turn.path):
        # an overwrite replaces every partition, whatever the session says
        writer.option("partitionOverwriteMode", "static").save(f"{turn.path}/{BASE}")


def driver_writable(stored: StructType, partition_columns: Sequence[str] = ()) -> bool:
    """Whether rows that the driver holds can be written without Spark.

    Text in partition values is escaped in the paths of files, by delta-rs otherwise than by Spark: what one has added
    the other would fail to remove.
    """
    texts = any(isinstance(stored[name].dataType, StringType) for name in partition_columns)
    return not texts and driver_readable(stored) and not nested_names_differ(stored)


def write_rows(turn: Turn, stored: StructType, rows: pa.Table, note: Note, mode: str) -> None:
    """Write rows that the driver holds, as one commit with its note; takes milliseconds, not a Spark job."""
    properties = commit_properties(note, {turn.application: turn.number})
    try:
        write_deltalake(turn.table, exactly(rows, stored), mode=mode, commit_properties=properties)  # type: ignore[call-overload]
    except CommitFailedError as error:
        raise CommitConflict(f"another writer committed to the base of {turn.path}", detail=str(error)) from error


@contextmanager
def noted(spark: SparkSession, note: Note, turn: Turn | None = None) -> Iterator[None]:
    """Statements inside carry the note and the number; they have no writer to give it to."""
    values = {_USER_METADATA: note.to_text()}
    if turn is not None:
        values |= {_APPLICATION: turn.application, _NUMBER: str(turn.number)}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


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


def newest_note(turn: Turn, expected: Note) -> int:
    """The version of the base after our commit; raises if the newest commit is not ours."""
    version, note = next(notes(f"{turn.path}/{BASE}"))
    if note != expected or not follows(version, expected):
        raise CommitConflict(f"another writer committed to the base of {turn.path}", detail=f"at version {version}")
    return version
