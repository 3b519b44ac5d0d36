"""A stream table as a source: its published state, and its log as the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from freshlake.catalog.idle import Standing
from freshlake.catalog.records import StreamTable
from freshlake.catalog.store import Catalog
from freshlake.errors import (
    NotFound,
    SourceDropped,
    SourceHistoryLost,
    StorageCorrupt,
    StorageMissing,
    StreamTableNotPopulated,
)
from freshlake.sources.protocol import ChangeKind, Position, SourceKind, Triage
from freshlake.storage.log import Log
from freshlake.storage.relation import WEIGHT, Relation, local_frame
from freshlake.storage.scan import KeyFilter
from freshlake.storage.table import ChangeLogged, FoldPoint


@dataclass(frozen=True)
class StreamTableSource:
    """Positions are (generation, version); a new generation is another table."""

    catalog: Catalog
    stream_table_id: int
    storage: Callable[[StreamTable, int], ChangeLogged]
    name: str = ""

    @property
    def kind(self) -> SourceKind:
        return SourceKind.STREAM_TABLE

    @property
    def path(self) -> str:
        table = self._table()
        return self.storage(table, table.published_generation).path

    def _table(self) -> StreamTable:
        try:
            return self.catalog.get_by_id(self.stream_table_id)
        except NotFound as error:
            raise SourceDropped(
                f"upstream stream table {self.name} was dropped", hint="recreate it, or alter the query that reads it"
            ) from error

    def head(self) -> Position:
        table = self._table()
        if not table.is_populated:
            raise StreamTableNotPopulated(
                f"upstream stream table {table.full_name} has not been loaded yet", hint="refresh it first"
            )
        return position_of(table, table.published_generation, table.published_version)

    def triage(self, start: Position, end: Position) -> Triage:
        if start == end:
            return Triage(ChangeKind.NONE, 0, 0)
        if start.table_id != end.table_id or end.version < start.version:
            return Triage(ChangeKind.REPLACED, None, 0, "the upstream stream table was rebuilt")
        log = Log(self.storage(self._table(), _generation(end)).path)
        if start.version < log.floor:
            return Triage(ChangeKind.HISTORY_LOST, None, 0, f"log versions after {start.version} were cleaned up")
        files = log.files(start.version, end.version)
        rows, size = sum(f.data.rows or 0 for f in files), sum(f.data.size for f in files)
        kind = ChangeKind.INSERT_ONLY if all(f.insert_only for f in files) else ChangeKind.MUTATING
        return Triage(ChangeKind.NONE if rows == 0 else kind, rows, size)

    def schema(self, at: Position) -> StructType:
        table, generation = self._table(), _generation(at)
        if generation != table.generation:
            return self.storage(table, generation).visible
        return StructType.fromJson(dict(table.output_schema or {"type": "struct", "fields": []}))

    def row_count(self, at: Position) -> int | None:
        table = self._table()
        return table.row_count

    def seen_by_spark(self, at: Position) -> Position:
        """Its base, as it was last folded."""
        table, generation = self._table(), _generation(at)
        upto = table.version if generation == table.generation else at.version
        return Position(at.table_id, self._fold(table, generation, upto).folded_version, at.fingerprint)

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        table, generation = self._table(), _generation(at)
        storage = self.storage(table, generation)
        fold = self._fold(table, generation, at.version)
        wanted = _logical(storage, columns) if columns is not None else self.schema(at).names
        with _kept(table):
            return storage.read(spark, at.version, fold, columns=wanted, keys=keys)

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        table, generation = self._table(), _generation(at)
        storage = self.storage(table, generation)
        wanted = _logical(storage, columns)
        with _kept(table):
            rows = storage.lookup(spark, at.version, self._fold(table, generation, at.version), wanted, keys)
        if rows is None:
            return None
        known = {field.name: field for field in storage.schema}
        schema = StructType([known[name] for name in wanted])
        return local_frame(spark, rows, schema).toDF(*columns), rows.num_rows

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        table, generation = self._table(), _generation(at)
        storage = self.storage(table, generation)
        with _kept(table):
            fold = self._fold(table, generation, at.version)
            return storage.part(spark, fold, _logical(storage, [column])[0], rows, turn)

    def _fold(self, table: StreamTable, generation: int, version: int) -> FoldPoint:
        fold = self.catalog.newest_fold(table.id, generation=generation, upto=version)
        assert fold is not None, "a loaded generation always has a fold"
        return FoldPoint(fold.base_version, fold.folded_version)

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        table = self._table()
        storage = self.storage(table, _generation(end))
        wanted = _logical(storage, columns) if columns is not None else self.schema(end).names
        with _kept(table):
            change = storage.changes(spark, start.version, end.version, columns=wanted)
        return change if columns is None else _renamed(change, columns)


@contextmanager
def _kept(table: StreamTable) -> Iterator[None]:
    """What is no longer kept of an upstream, or was damaged, is lost history, as of any other source."""
    try:
        yield
    except (StorageMissing, StorageCorrupt) as error:
        message = f"an earlier state of stream table {table.full_name.short} is no longer kept"
        raise SourceHistoryLost(message, detail=error.message) from error


def _logical(storage: ChangeLogged, columns: Sequence[str]) -> list[str]:
    """A query reads the base's own column names, which differ from the table's where Delta refuses a character."""
    names = {s.name: c.name for s, c in zip(storage.stored, storage.schema, strict=True)}
    return [names.get(c, c) for c in columns]


def _renamed(change: Relation, columns: Sequence[str]) -> Relation:
    names = [*columns, WEIGHT]
    if change.schema.names == names:
        return change
    fields = [StructField(n, f.dataType, f.nullable, f.metadata) for n, f in zip(names, change.schema, strict=True)]
    arrow = change.arrow.rename_columns(names) if change.arrow is not None else None
    frame = change.frame.toDF(*names) if change.frame is not None else None
    return Relation(StructType(fields), arrow, frame, change.rows, change.insert_only)


def position_of(table: StreamTable | Standing, generation: int, version: int) -> Position:
    """A version of one generation; another generation is another table."""
    return Position(f"{table.source_key}:{generation}", version, "")


def _generation(position: Position) -> int:
    return int(position.table_id.rsplit(":", 1)[1])
