"""A Delta table as a source: every position names one commit, by id, version and content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.errors import (
    FreshlakeError,
    SourceDropped,
    SourceHistoryLost,
    SourceNotDelta,
    SourceReplaced,
    SourceSchemaChanged,
    SourceUnreachable,
    SourceUnreadable,
)
from freshlake.sources.delta.changes import Limits, read_changes
from freshlake.sources.delta.difference import has_change_feed, read_difference, read_feed
from freshlake.sources.delta.files import LogFiles
from freshlake.sources.delta.net import NetChange, net_change
from freshlake.sources.delta.schema import SchemaChange, same_files, table_schema
from freshlake.sources.delta.triage import changed_rows, judge, schema_change
from freshlake.sources.protocol import ChangeKind, Position, SourceKind, Triage
from freshlake.storage import failures
from freshlake.storage.relation import Relation, local_frame
from freshlake.storage.scan import KeyFilter, NotDriverReadable, Snapshot, open_snapshot, read
from freshlake.storage.scan.actions import Commit
from freshlake.storage.scan.columns import chosen, physical_name, visible
from freshlake.storage.scan.log import Stamp, TransactionLog
from freshlake.storage.scan.part import read_part
from freshlake.storage.scan.paths import is_local, plain
from freshlake.storage.scan.search import search


@dataclass(frozen=True)
class _Seen:
    """The last head, and what its commit file looked like."""

    position: Position
    stamp: Stamp


class DeltaSource:
    """One Delta table. Positions are found without Spark; rows come from lists of files wherever that is exact."""

    kind = SourceKind.DELTA

    def __init__(self, name: str, path: str, *, limits: Limits | None = None) -> None:
        self.name = name
        self.path = plain(path)
        self._limits = limits or Limits()
        self._log = TransactionLog(self.path)
        self._seen: _Seen | None = None

    def head(self) -> Position:
        """The newest commit; two file lookups when nothing changed."""
        with self._looking():
            return self._head()

    def _head(self) -> Position:
        seen = self._seen
        if seen is not None and seen.stamp is not None and self._log.stamp(seen.position.version) == seen.stamp:
            version = self._log.after(seen.position.version)
            if version == seen.position.version:
                return seen.position
            table_id = self._newer_id(seen.position, version)
        else:
            version = self._latest()
            table_id = open_snapshot(self.path, version).table_id
        stamp = self._log.stamp(version)
        position = Position(table_id, version, self._log.commit(version).fingerprint)
        self._seen = _Seen(position, stamp)
        return position

    def triage(self, start: Position, end: Position) -> Triage:
        """What happened after `start` up to `end`, from the transaction log alone."""
        if start == end:
            return Triage(ChangeKind.NONE, 0, 0)
        try:
            with self._looking():
                commits = self._commits(start, end)
                schema = self._schema_change(start, commits)
                verdict, net = judge(LogFiles(self.path, commits, partial(self._open, start)), schema)
                self._require(net.paths())
        except SourceReplaced as error:
            return Triage(ChangeKind.REPLACED, None, 0, error.detail)
        except SourceHistoryLost as error:
            return Triage(ChangeKind.HISTORY_LOST, None, 0, error.detail)
        return verdict

    def schema(self, at: Position) -> StructType:
        """The columns at a position."""
        with self._looking():
            return visible(self._open(at).schema)

    def row_count(self, at: Position) -> int | None:
        """The number of rows, if the metadata knows it."""
        with self._looking():
            return self._open(at).rows

    def seen_by_spark(self, at: Position) -> Position:
        """A Delta table has one state."""
        return at

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        """The rows at a position, a plain bag."""
        snapshot = self._open(at)
        self._require(file.path for file in snapshot.files)
        return read(spark, snapshot, columns, keys)

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        """The rows that have the keys, if the driver finds them sooner than Spark would."""
        snapshot = self._open(at)
        try:
            rows = search(snapshot, columns, keys)
        except NotDriverReadable:
            return None
        except FileNotFoundError as error:
            raise self._lost(str(error)) from error
        except (OSError, pa.ArrowException) as error:
            raise self._unread(error) from error
        return (
            None
            if rows is None
            else (local_frame(spark, rows, visible(chosen(snapshot.schema, columns))), rows.num_rows)
        )

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        """One column of about so many rows at a position, others each turn."""
        snapshot = self._open(at)
        self._require(file.path for file in snapshot.files)
        return read_part(spark, snapshot, column, rows, turn)

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        """Weighted rows that lead from `start` to `end`, in the columns of `end`; not necessarily minimal."""
        commits = self._commits(start, end)
        self._check_columns(self._schema_change(start, commits), columns)
        after = self._open(end)
        names = {physical_name(field): field.name for field in after.schema}
        steady = all(commit.metadata is None for commit in commits)
        partitioned = {*after.partition_columns}
        if not steady:
            partitioned |= {*self._open(start).partition_columns}
        files = LogFiles(self.path, commits, partial(self._open, start), names, partitioned)
        net = net_change(files)
        self._require(net.paths())
        if net and not self._readable_alone(start, after, commits, net, columns):
            return self._whole_changes(spark, self._open(start), after, steady, net.insert_only, columns)
        on_driver = self._limits.allow(net, changed_rows(files))
        try:
            return read_changes(spark, net, after.schema, columns, on_driver)
        except FileNotFoundError as error:  # removed since it was looked for
            raise self._lost(str(error)) from error
        except (OSError, pa.ArrowException) as error:
            raise self._unread(error) from error

    def _readable_alone(
        self,
        start: Position,
        after: Snapshot,
        commits: Sequence[Commit],
        net: NetChange,
        columns: Sequence[str] | None,
    ) -> bool:
        """Whether each file of the range can be read by itself, in the columns of the end."""
        remote_vectors = not is_local(self.path) and any(change.vectors for change in net.files)
        if after.opaque or remote_vectors:
            return False
        if all(commit.metadata is None and commit.protocol is None for commit in commits):
            return True
        before = self._open(start)
        schemas = [before.schema, *(table_schema(c.metadata) for c in commits if c.metadata is not None)]
        return not before.opaque and same_files(schemas, after.schema.names if columns is None else columns)

    def _whole_changes(
        self,
        spark: SparkSession,
        before: Snapshot,
        after: Snapshot,
        steady: bool,
        insert_only: bool,
        columns: Sequence[str] | None,
    ) -> Relation:
        if steady and has_change_feed(self._log.metadata(before.version)):
            return read_feed(spark, before, after, columns, insert_only)
        self._require(file.path for snapshot in (before, after) for file in snapshot.files)
        return read_difference(spark, before, after, columns, insert_only)

    def _latest(self) -> int:
        version = self._log.latest()
        if version is not None:
            return version
        if is_local(self.path) and not os.path.isdir(self.path):
            raise SourceDropped(f"source {self.name} no longer exists", detail=f"there is no folder {self.path}")
        if self._seen is not None:
            raise SourceDropped(f"source {self.name} no longer exists", detail=f"{self.path} has no transaction log")
        raise SourceNotDelta(f"source {self.name} is not a Delta table", detail=f"{self.path} has no transaction log")

    def _newer_id(self, position: Position, version: int) -> str:
        stated = (self._log.commit(v).metadata for v in range(version, position.version, -1))
        return next((str(metadata["id"]) for metadata in stated if metadata is not None), position.table_id)

    def _commits(self, start: Position, end: Position) -> tuple[Commit, ...]:
        """The commits after `start` up to `end`, once both are known to belong to one history."""
        if start.table_id != end.table_id:
            raise self._replaced(f"the table id changed from {start.table_id} to {end.table_id}")
        if end.version < start.version:
            raise self._replaced(f"the version went back from {start.version} to {end.version}")
        try:
            commits = [self._log.commit(version) for version in range(start.version, end.version + 1)]
        except FileNotFoundError as error:
            missing = os.path.basename(str(error.filename or error))
            raise self._lost(f"commit {missing} was removed from the transaction log") from error
        for position, commit in ((start, commits[0]), (end, commits[-1])):
            if commit.fingerprint != position.fingerprint:
                raise self._replaced(f"version {position.version} is not the commit that was seen before")
        stated = {str(commit.metadata["id"]) for commit in commits[1:] if commit.metadata is not None}
        if stated - {start.table_id}:
            raise self._replaced(f"the table id changed from {start.table_id} to {', '.join(sorted(stated))}")
        return tuple(commits[1:])

    def _schema_change(self, start: Position, commits: Sequence[Commit]) -> SchemaChange:
        if all(commit.metadata is None for commit in commits):
            return SchemaChange()
        return schema_change(commits, self._open(start).schema)

    def _check_columns(self, change: SchemaChange, columns: Sequence[str] | None) -> None:
        used = None if columns is None else {name.lower() for name in columns}
        broken = [name for name in change.changed if used is None or name.lower() in used]
        if broken:
            raise SourceSchemaChanged(f"source {self.name} changed its columns", detail="; ".join(change.reasons))

    def _open(self, at: Position) -> Snapshot:
        snapshot = open_snapshot(self.path, at.version)
        if snapshot.table_id != at.table_id:
            raise self._replaced(f"the table id changed from {at.table_id} to {snapshot.table_id}")
        if self._log.exists(at.version) and self._log.commit(at.version).fingerprint != at.fingerprint:
            raise self._replaced(f"version {at.version} is not the commit that was seen before")
        return snapshot

    def _require(self, paths: Iterable[str]) -> None:
        missing = self._log.missing(paths)
        if missing:
            raise self._lost(f"{missing[0]} no longer exists")

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """What the storage of the transaction log raises is an error of this source."""
        try:
            yield
        except pa.ArrowInvalid as error:
            message = f"the transaction log of source {self.name} is damaged"
            raise SourceUnreadable(message, detail=str(error)) from error
        except PermissionError as error:
            raise self._denied(error) from error
        except failures.FAILURES as error:
            raise self._away(error) from error

    def _unread(self, error: BaseException) -> FreshlakeError:
        """Why a data file could not be read."""
        if isinstance(error, PermissionError):
            return self._denied(error)
        if failures.may_pass(error):
            return self._away(error)
        return SourceUnreadable(f"a file of source {self.name} is damaged", detail=str(error))

    def _denied(self, error: PermissionError) -> SourceUnreadable:
        hint = f"allow this user to read the folder {self.path}"
        return SourceUnreadable(f"source {self.name} may not be read", detail=str(error), hint=hint)

    def _away(self, error: BaseException) -> SourceUnreachable:
        hint = f"try again; if it stays, look at the storage of {self.path}"
        told = failures.detail(error)
        return SourceUnreachable(f"the storage of source {self.name} does not answer", detail=told, hint=hint)

    def _lost(self, detail: str) -> SourceHistoryLost:
        return SourceHistoryLost(f"source {self.name} no longer keeps the history that is needed", detail=detail)

    def _replaced(self, detail: str) -> SourceReplaced:
        return SourceReplaced(f"source {self.name} is not the table last read", detail=detail)


def delta_source(name: str, path: str) -> DeltaSource:
    """The Delta table at a path, as a source."""
    return DeltaSource(name, path)


def is_delta(path: str) -> bool:
    """Whether there is a Delta table at a path."""
    return TransactionLog(plain(path)).latest() is not None
