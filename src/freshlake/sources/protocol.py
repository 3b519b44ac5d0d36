"""What a stream table reads: positions in a history, and the weighted rows between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.storage.relation import Relation
from freshlake.storage.scan import KeyFilter


class SourceKind(StrEnum):
    """The kinds of source."""

    DELTA = "DELTA"
    STREAM_TABLE = "STREAM_TABLE"
    TIME = "TIME"
    POSTGRES = "POSTGRES"


@dataclass(frozen=True)
class Position:
    """One point in a source's history. Two positions are the same only if id, version and fingerprint agree."""

    table_id: str
    version: int
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"table_id": self.table_id, "version": self.version, "fingerprint": self.fingerprint}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Position:
        """The inverse of `to_json`."""
        return cls(str(data["table_id"]), int(data["version"]), str(data["fingerprint"]))


class ChangeKind(StrEnum):
    """What happened between two positions."""

    NONE = "NONE"
    INSERT_ONLY = "INSERT_ONLY"
    MUTATING = "MUTATING"
    REPLACED = "REPLACED"
    SCHEMA_CHANGED = "SCHEMA_CHANGED"
    HISTORY_LOST = "HISTORY_LOST"


@dataclass(frozen=True)
class Triage:
    """What a range of commits holds, told from the transaction log alone.

    `rows` estimates the changed rows (added plus removed); None when the log does not say.
    `added_columns` and `changed_columns` (dropped, renamed, retyped) let a caller ignore a schema change that does not
    touch the columns it reads; `data` is then what the range did to the rows apart from the schema.
    """

    kind: ChangeKind
    rows: int | None
    bytes: int
    reason: str | None = None
    truncated: bool = False
    added_columns: tuple[str, ...] = ()
    changed_columns: tuple[str, ...] = ()
    data: ChangeKind = ChangeKind.NONE


class Source(Protocol):
    """A table whose state at a position and changes between positions can be read."""

    @property
    def name(self) -> str:
        """The name the query uses."""

    @property
    def path(self) -> str:
        """Where it is stored."""

    @property
    def kind(self) -> SourceKind:
        """What it is."""

    def head(self) -> Position:
        """The newest position, without a Spark job; raises SourceDropped."""

    def triage(self, start: Position, end: Position) -> Triage:
        """What happened after `start` up to `end`, from the transaction log alone."""

    def schema(self, at: Position) -> StructType:
        """The columns at a position."""

    def row_count(self, at: Position) -> int | None:
        """The number of rows, if the metadata knows it."""

    def seen_by_spark(self, at: Position) -> Position:
        """What plain Spark reads by the source's name when its newest position is `at`."""

    def snapshot(
        self, spark: SparkSession, at: Position, columns: Sequence[str] | None = None, keys: Sequence[KeyFilter] = ()
    ) -> DataFrame:
        """The rows at a position, a plain bag."""

    def lookup(
        self, spark: SparkSession, at: Position, columns: Sequence[str], keys: Sequence[KeyFilter]
    ) -> tuple[DataFrame, int] | None:
        """The rows at a position that may have the keys, held on the driver, and their number; None if Spark should
        read them."""

    def part(self, spark: SparkSession, at: Position, column: str, rows: int, turn: int) -> DataFrame:
        """One column of about so many rows at a position, others each turn."""

    def changes(
        self, spark: SparkSession, start: Position, end: Position, columns: Sequence[str] | None = None
    ) -> Relation:
        """Weighted rows that lead from `start` to `end`, not necessarily minimal."""
