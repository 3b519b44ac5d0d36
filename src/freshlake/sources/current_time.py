"""The current time as a source: one row, whose position is the moment that a refresh was pinned to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType

from freshlake.clock import Clock
from freshlake.compiler.current_time import CURRENT_DATE, CURRENT_TIMESTAMP, TITLE
from freshlake.sources.protocol import ChangeKind, Position, SourceKind, Triage
from freshlake.storage.relation import Relation, arrow_schema, weighted
from freshlake.storage.scan import KeyFilter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = "clock"


@dataclass(frozen=True)
class TimeSource:
    """`fields` are what a query reads of the time: the moment itself, or a date or local time in a time zone."""

    clock: Clock
    spark: SparkSession
    fields: tuple[str, ...] = (CURRENT_TIMESTAMP,)
    name: str = TITLE
    path: str = ""
    kind: SourceKind = SourceKind.TIME

    def head(self) -> Position:
        return position_of(self.clock.now())

    def triage(self, start: Position, end: Position) -> Triage:
        """A date changes once a day, everything else with every moment; no row of a table has changed by that."""
        same = start == end or all(self._is_same(field, start, end) for field in self.fields)
        return Triage(ChangeKind.NONE if same else ChangeKind.MUTATING, 0, 0)

    def _is_same(self, field: str, start: Position, end: Position) -> bool:
        function, _, zone = field.partition(" ")
        if function != CURRENT_DATE:
            return False
        dates: Any = self.spark._jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils  # type: ignore[union-attr]
        first, last = (dates.microsToDays(at.version, dates.getZoneId(zone)) for at in (start, end))
        return bool(first == last)

    def schema(self, at: Position) -> StructType:
        return _schema(self.fields)

    def row_count(self, at: Position) -> int | None:
        return 1

    def seen_by_spark(self, at: Position) -> Position:
        """Spark looks at the clock when it runs; who compares with it says what it saw."""
        return at

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        """Constants over one row."""
        values = (f"{_value(f, f'{at.version}L')} AS `{f}`" for f in columns or self.fields)
        return spark.sql(f"SELECT {', '.join(values)}")

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        return None

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        return self.snapshot(spark, at, [column])

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        """The old moment goes, the new one comes."""
        fields = tuple(columns or self.fields)
        schema = weighted(_schema(fields))
        table = pa.Table.from_arrays(
            [*(self._values(spark, f, start, end) for f in fields), pa.array([-1, 1])], schema.names
        )
        return Relation.of_arrow(table.cast(arrow_schema(schema)), schema, insert_only=False)

    def _values(self, spark: SparkSession, field: str, start: Position, end: Position) -> pa.Array:
        if field == CURRENT_TIMESTAMP:
            return pa.array([start.version, end.version], pa.timestamp("us", "UTC"))
        moments = f"VALUES (0, {start.version}L), (1, {end.version}L) AS t(i, m)"
        rows = spark.sql(f"SELECT i, {_value(field, 'm')} AS v FROM {moments}").collect()
        return pa.array([row["v"] for row in sorted(rows)])


def position_of(moment: datetime) -> Position:
    """Microseconds, with the moment in words beside them."""
    return Position(_CLOCK, (moment - _EPOCH) // timedelta(microseconds=1), moment.astimezone(UTC).isoformat())


def position_at(microseconds: int) -> Position:
    return position_of(_EPOCH + timedelta(microseconds=microseconds))


def _value(field: str, microseconds: str) -> str:
    """A field as Spark computes it from the moment, whatever time zone the session has."""
    function, _, zone = field.partition(" ")
    if function == CURRENT_TIMESTAMP:
        return f"timestamp_micros({microseconds})"
    # microseconds since 1970 are the same in UTC with and without a time zone
    utc = f"TIMESTAMP_NTZ '1970-01-01' + make_dt_interval(0, 0, 0, {microseconds} / 1000000.0BD)"
    local = f"convert_timezone('UTC', '{zone}', {utc})"
    return f"CAST({local} AS DATE)" if function == CURRENT_DATE else local


def _schema(fields: Sequence[str]) -> StructType:
    kinds = {CURRENT_TIMESTAMP: TimestampType(), CURRENT_DATE: DateType()}
    return StructType([StructField(f, kinds.get(f.partition(" ")[0], TimestampNTZType()), True) for f in fields])
