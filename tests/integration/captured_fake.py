"""A source database that is a few Python lists: what mirrors do, without a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.errors import SourceHistoryLost, SourceUnreachable
from freshlake.lake import Freshlake
from freshlake.service.mirrors import Mirrors
from freshlake.sources.protocol import ChangeKind, Position, SourceKind, Triage
from freshlake.storage.layout import stored_schema
from freshlake.storage.relation import WEIGHT, Relation, arrow_schema, local_frame, weighted
from freshlake.storage.scan import KeyFilter

Row = tuple[Any, ...]
State = dict[str, list[Row]]


@dataclass
class FakeDatabase:
    """Every commit is a position; the positions that `forget` left behind cannot be read any more."""

    name: str
    schemas: dict[str, StructType]
    history: list[State] = field(default_factory=list)
    pinned: list[int] = field(default_factory=list)
    oldest: int = 0
    is_down: bool = False

    def commit(self, **tables: list[Row]) -> None:
        """One transaction: these tables hold these rows from now on."""
        before = self.history[-1] if self.history else {name: [] for name in self.schemas}
        self.history.append({**before, **tables})

    def source(self, edge: Dependency) -> FakeSource:
        table = Path(edge.location or "").name.rpartition("-")[0]
        return FakeSource(self, table, stored_schema(self.schemas[table]))

    def attach(self, fl: Freshlake) -> dict[str, StreamTable]:
        """Make mirrors of all tables."""
        fl._engine.captured = self.source
        fl._engine.catalog.insert_database(self.name, "env:NONE")
        mirrors = Mirrors(fl._engine, fl._names)
        return {t: mirrors.create(TableName.parse(f"{self.name}.{t}"), s) for t, s in self.schemas.items()}


@dataclass(frozen=True)
class FakeSource:
    database: FakeDatabase
    table: str
    columns: StructType
    kind: SourceKind = SourceKind.POSTGRES
    path: str = ""

    @property
    def name(self) -> str:
        return self.table

    def head(self) -> Position:
        if self.database.is_down:
            raise SourceUnreachable("the database does not answer")
        at = len(self.database.history) - 1
        self.database.pinned.append(at)
        return Position(self.database.name, at, f"commit {at}")

    def _rows(self, at: Position) -> Counter[Row]:
        if at.version < self.database.oldest:
            raise SourceHistoryLost(f"position {at.version} is no longer held")
        return Counter(self.database.history[at.version][self.table])

    def triage(self, start: Position, end: Position) -> Triage:
        if start.version < self.database.oldest:
            return Triage(ChangeKind.HISTORY_LOST, None, 0, f"position {start.version} is no longer held")
        gone, come = self._rows(start) - self._rows(end), self._rows(end) - self._rows(start)
        kind = ChangeKind.MUTATING if gone else ChangeKind.INSERT_ONLY if come else ChangeKind.NONE
        return Triage(kind, gone.total() + come.total(), 0)

    def schema(self, at: Position) -> StructType:
        return self.columns

    def row_count(self, at: Position) -> int | None:
        return self._rows(at).total()

    def seen_by_spark(self, at: Position) -> Position:
        return at

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        rows = _arrow(self.columns, list(self._rows(at).elements()))
        return local_frame(spark, rows, self.columns).select(*(columns or self.columns.names))

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        return None

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        return self.snapshot(spark, at, [column]).limit(rows)

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        before, after = self._rows(start), self._rows(end)
        weights = {row: after[row] - before[row] for row in {*before, *after}}
        changed = [(*row, n) for row, n in weights.items() if n]
        schema = weighted(self.columns)
        rows = _arrow(schema, changed)
        chosen = [*(columns or self.columns.names), WEIGHT]
        return Relation.of_arrow(rows.select(chosen), StructType([schema[n] for n in chosen]), insert_only=False)


def _arrow(schema: StructType, rows: Sequence[Row]) -> pa.Table:
    arrow = arrow_schema(schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.Table.from_arrays(columns, schema=arrow)
