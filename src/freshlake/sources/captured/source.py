"""A captured table as the source of its mirror."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.errors import SourceDropped, SourceHistoryLost, SourceUnreadable
from freshlake.sources.captured.batch import TableChange
from freshlake.sources.captured.database import FAILED, CapturedDatabase, Mirrored
from freshlake.sources.captured.schema import row_schema
from freshlake.sources.captured.spool import Spooled
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.protocol import ChangeKind, Position, SourceKind, Triage
from freshlake.storage.identity import consolidate, expand
from freshlake.storage.netting import copies, net, nettable
from freshlake.storage.relation import WEIGHT, Relation, local_frame
from freshlake.storage.scan import KeyFilter
from freshlake.storage.scan.columns import quoted


@dataclass(frozen=True)
class CapturedSource:
    """Its position is that of the whole database, so all mirrors of a database can stand at the same."""

    database: CapturedDatabase
    shape: str

    @property
    def name(self) -> str:
        return self.database.name

    @property
    def path(self) -> str:
        return self.shape

    @property
    def kind(self) -> SourceKind:
        return SourceKind.POSTGRES

    @property
    def _mirrored(self) -> Mirrored:
        table = Path(self.shape).name.rpartition("-")[0]
        for found in self.database.mirrored():
            if str(found.mirror.full_name) == f"{self.name}.{table}":
                return found
        raise SourceDropped(f"table {table} of source {self.name} is not captured any more")

    def head(self) -> Position:
        return self.database.head()

    def triage(self, start: Position, end: Position) -> Triage:
        mine = self._mirrored
        if mine.resync is not None:
            self._check(mine)
            reason, _, words = mine.resync.partition(": ")
            if reason == Reason.SCHEMA_CHANGED:
                before = (field["name"] for field in (mine.mirror.output_schema or {}).get("fields", ()))
                columns = (*before, *row_schema(mine.captured).names)
                return Triage(ChangeKind.SCHEMA_CHANGED, None, 0, words, changed_columns=columns)
            return Triage(ChangeKind.HISTORY_LOST, None, 0, words)
        if start == end:
            return Triage(ChangeKind.NONE, 0, 0)
        if start.table_id != end.table_id or end.version < start.version:
            return Triage(ChangeKind.HISTORY_LOST, None, 0, f"source {self.name} has another history")
        return _judged(self.database.change(mine.captured, start, end))

    def _check(self, mine: Mirrored) -> None:
        """Raise for a table that cannot be read at all."""
        reason, _, words = (mine.resync or "").partition(": ")
        if reason == Reason.TABLE_DROPPED:
            raise SourceDropped(f"table {mine.captured.table.full_name} of source {self.name} {words}")
        if reason == FAILED:
            raise SourceUnreadable(
                f"table {mine.captured.table.full_name} of source {self.name} cannot be captured", detail=words
            )

    def schema(self, at: Position) -> StructType:
        return StructType(row_schema(self._mirrored.captured).fields[:-1])

    def row_count(self, at: Position) -> int | None:
        """As many as the mirror has, or as were copied."""
        mine = self._mirrored
        if mine.mirror.is_populated and mine.resync is None:
            return mine.mirror.row_count
        copied = self.database.copy(mine.captured, at)
        return None if copied is None else copied.count

    def seen_by_spark(self, at: Position) -> Position:
        return at

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        rows = self._state(spark, at)
        return rows if columns is None else rows.select(*map(quoted, columns))

    def _state(self, spark: SparkSession, at: Position) -> DataFrame:
        mine = self._mirrored
        self._check(mine)
        copied = self.database.copy(mine.captured, at)
        if copied is not None:
            return _plain(spark, copied)
        stands = mine.stands_at(self.database.key)
        if stands is not None and stands != at:
            change = self.database.change(mine.captured, stands, at)
            if change.truncated and change.resync is None:
                return _netted(spark, change.rows)
        return self._earlier(spark, mine, at)

    def _earlier(self, spark: SparkSession, mine: Mirrored, at: Position) -> DataFrame:
        """What the table holds now, without what came since."""
        now, since = self.database.since(mine.captured, at)
        if since.truncated or since.resync is not None:
            raise SourceHistoryLost(
                f"table {mine.captured.table.full_name} of source {self.name} is not what it was",
                detail="it was truncated or altered since",
                hint="refresh it first",
            )
        return _netted(spark, now, since.rows) if since.rows.count else _plain(spark, now)

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        return None

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        """The first rows: which ones are others after every change, and a database is not asked for more."""
        return self.snapshot(spark, at, [column]).limit(rows)

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        change = self.database.change(self._mirrored.captured, start, end)
        if change.truncated or change.resync is not None:
            raise SourceHistoryLost(f"rows of source {self.name} went without their changes")
        return change.rows.relation(spark, columns)


def _judged(change: TableChange) -> Triage:
    rows = change.rows
    if change.resync is not None:
        return Triage(ChangeKind.HISTORY_LOST, None, 0, change.resync.detail)
    if change.is_empty:
        return Triage(ChangeKind.NONE, 0, 0)
    kind = ChangeKind.INSERT_ONLY if not rows.deleted and not change.truncated else ChangeKind.MUTATING
    return Triage(kind, rows.count, rows.bytes, truncated=change.truncated)


def _plain(spark: SparkSession, rows: Spooled) -> DataFrame:
    """Rows of which each has weight 1."""
    if rows.table is not None:
        return local_frame(spark, rows.table.drop_columns([WEIGHT]), StructType(rows.schema.fields[:-1]))
    return rows.frame(spark).drop(WEIGHT)


def _netted(spark: SparkSession, rows: Spooled, without: Spooled | None = None) -> DataFrame:
    """Weighted rows added up, without others, as plain rows."""
    taken = [] if without is None else [without]
    if all(part.table is not None and nettable(part.table) for part in (rows, *taken)):
        tables = [rows.table, *(_negated(part.table) for part in taken)]
        return local_frame(spark, copies(net(pa.concat_tables(tables))), StructType(rows.schema.fields[:-1]))
    together = rows.frame(spark)
    for part in taken:
        together = together.unionAll(part.frame(spark).withColumn(WEIGHT, -F.col(WEIGHT)))
    return expand(consolidate(together))


def _negated(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index(WEIGHT)
    return table.set_column(at, table.schema.field(at), pc.negate(table.column(at)))
