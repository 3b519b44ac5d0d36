"""A change-logged table beside its model: for every version a Counter of which row is there how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.storage.identity import expand
from freshlake.storage.relation import WEIGHT, Relation, arrow_schema, weighted
from freshlake.storage.table import EMPTY, Certificate, ChangeLogged, FoldForm, FoldPoint, Limits
from tests.bags import canonical

Weights = Mapping[int, int]

BY_DRIVER = Limits()
BY_SPARK = Limits(small_rows=0, searched_rows=0)
"""Test tables are small; this has them read and folded like large ones."""
SEARCHED = Limits(small_bytes=0)
"""Rows are looked for by their keys, as in a base that is not small."""


def certificate(version: int, refresh: str | None = None, epoch: int = 1) -> Certificate:
    """A certificate as the refresh would write it."""
    return Certificate(
        refresh_id=refresh or f"refresh-{version}",
        epoch=epoch,
        fingerprint="query",
        version=version,
        from_frontier={"orders": version - 1},
        to_frontier={"orders": version},
        action="DIFFERENTIAL",
        engine="test",
    )


class Rows:
    """Some distinct rows, written as SQL, that a table is filled from; they are named by position."""

    def __init__(self, spark: SparkSession, columns: str, rows: Sequence[str], shown: Sequence[str] = ("*",)) -> None:
        self.spark, self.rows, self.shown = spark, rows, shown
        self.schema: StructType = spark.createDataFrame([], columns).schema

    def relation(self, weights: Weights, *, driver: bool = True) -> Relation:
        """Weighted rows, on the driver or in Spark."""
        schema = weighted(self.schema)
        insert_only = all(weight > 0 for weight in weights.values())
        if not driver:
            return Relation.of_frame(self.frame(weights), schema, insert_only=insert_only)
        numbers = pa.array(list(weights.values()), pa.int64())
        table = self._arrow.take(pa.array(list(weights), pa.int64())).append_column(schema.names[-1], numbers)
        return Relation.of_arrow(table.cast(arrow_schema(schema)), schema, insert_only=insert_only)

    def frame(self, weights: Weights) -> DataFrame:
        """Weighted rows as Spark computes them."""
        chosen = [f"SELECT {self.rows[row]}, {weight}L" for row, weight in weights.items()]
        text = " UNION ALL ".join(chosen) or f"SELECT {self.rows[0]}, 0L WHERE false"
        schema = weighted(self.schema)
        return self.spark.sql(text).toDF(*schema.names).to(schema)

    def plain(self, weights: Weights) -> DataFrame:
        """As many copies of each row as its weight says."""
        return expand(self.frame(weights))

    @cached_property
    def values(self) -> list[Any]:
        """What Spark returns for each row."""
        frame = self._all.selectExpr(WEIGHT, *self.shown)
        found = {row[0]: canonical(tuple(row)[1 : len(row) - (self.shown == ("*",))]) for row in frame.collect()}
        return [found[position] for position in range(len(self.rows))]

    @cached_property
    def _arrow(self) -> pa.Table:
        table = self._all.toArrow()
        return table.sort_by(table.column_names[-1]).drop_columns(table.column_names[-1])

    @property
    def _all(self) -> DataFrame:
        return self.frame({position: position for position in range(len(self.rows))})


class Modelled:
    """The table, its model at every version, and the fold points it has had."""

    def __init__(self, spark: SparkSession, folder: Path, rows: Rows, partition_by: Sequence[str] = ()) -> None:
        self.spark, self.rows = spark, rows
        path = str(folder / "table")
        self.table = ChangeLogged.create(path, rows.schema, limits=BY_SPARK, partition_by=partition_by)
        self.states: list[Counter[int]] = [Counter()]
        self.points: list[FoldPoint] = [EMPTY]

    @property
    def head(self) -> int:
        return len(self.states) - 1

    @property
    def point(self) -> FoldPoint:
        return self.points[-1]

    def load(self, weights: Weights) -> None:
        self.points.append(self.table.load(self.spark, self.rows.plain(weights), certificate(1)))
        self.states.append(Counter(weights))

    def append(self, weights: Weights, *, driver: bool = True, epoch: int = 1) -> Certificate:
        state = Counter(self.states[-1])
        state.update(weights)
        assert min(state.values(), default=0) >= 0, "the model would remove a row that is not there"
        rows = self.rows.relation(weights, driver=driver)
        done = self.table.append(self.spark, rows, certificate(self.head + 1, epoch=epoch))
        self.states.append(+state)
        return done

    def fold(self, upto: int | None = None, form: FoldForm | None = None, epoch: int = 1) -> FoldPoint:
        until = self.head if upto is None else upto
        self.points.append(self.table.fold(self.spark, until, self.point, epoch, form))
        return self.point

    def check(self, at: int, point: FoldPoint | None = None, **options: Any) -> None:
        """The table at a version equals the model, read from any fold point that is not past it."""
        before = self.table.limits
        for limits in (BY_SPARK, BY_DRIVER, SEARCHED):
            self.table.limits = limits if before in (BY_SPARK, BY_DRIVER) else before
            frame = self.table.read(self.spark, at, point or self._point_for(at), **options)
            self.check_rows(frame, self.states[at])
        self.table.limits = before

    def check_rows(self, frame: DataFrame, expected: Mapping[int, int]) -> None:
        found = Counter(canonical(tuple(row)) for row in frame.selectExpr(*self.rows.shown).collect())
        wanted = Counter({self.rows.values[row]: copies for row, copies in expected.items() if copies})
        assert found == wanted, f"only stored: {found - wanted}\nonly in the model: {wanted - found}"

    def check_changes(self, after: int, upto: int) -> None:
        """The consolidated changes between two versions are the difference of their states."""
        changes = self.table.changes(self.spark, after, upto)
        found = {canonical(tuple(row)[:-1]): row[-1] for row in changes.dataframe(self.spark).collect()}
        difference = Counter(self.states[upto])
        difference.subtract(self.states[after])
        assert found == {self.rows.values[row]: n for row, n in difference.items() if n}

    def _point_for(self, at: int) -> FoldPoint:
        return [point for point in self.points if point.folded_version <= at][-1]
