"""The rounds of a recursion: how far and how many they are, and all of them as one relation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.compiler.recursion import LEVEL
from freshlake.errors import RecursionLimit
from freshlake.storage.relation import WEIGHT, Relation, exactly

_ROW_LIMIT = "spark.sql.cteRecursionRowLimit"


class Unrolling:
    """Collects rounds until one is empty; gives up where Spark's own recursion would."""

    def __init__(self, spark: SparkSession, schema: StructType, limit: int) -> None:
        self._schema, self._limit = schema, limit
        self._rows = int(spark.conf.get(_ROW_LIMIT) or 0)
        self._found: list[Relation] = []
        self._copies = 0

    def add(self, found: Relation) -> Relation | None:
        """The round as the next one reads it; None when there is nothing to go on with."""
        held = _held(found, self._schema)
        if held.is_empty:
            return None
        deepest, copies = _measured(held)
        self._copies += copies
        if deepest > self._limit:
            raise RecursionLimit(f"the recursion goes beyond level {self._limit}")
        if self._copies > self._rows:
            raise RecursionLimit(f"the recursion makes more than {self._rows} rows")
        self._found.append(held)
        return held

    def together(self, spark: SparkSession) -> Relation:
        """All rounds, not consolidated."""
        if not self._found:
            return Relation.empty(self._schema)
        tables = [r.arrow for r in self._found if r.arrow is not None]
        rows = sum(r.rows or 0 for r in self._found)
        if len(tables) == len(self._found):
            return Relation(self._schema, pa.concat_tables(tables), None, rows, False)
        frame = reduce(DataFrame.unionAll, _frames(self._found, spark))
        return Relation(self._schema, None, frame, rows, False)


def _held(found: Relation, schema: StructType) -> Relation:
    """Rows of one round, counted. What Spark holds is cut off from how it was made, or plans would grow every round."""
    if found.arrow is not None:
        return Relation(schema, exactly(found.arrow, schema), None, found.arrow.num_rows, False)
    assert found.frame is not None
    frame = found.frame.localCheckpoint()
    return Relation(schema, None, frame, frame.count(), False)


def _measured(found: Relation) -> tuple[int, int]:
    """The deepest level, and the number of copies that come or go."""
    if found.arrow is not None:
        deepest, copies = pc.max(found.arrow.column(LEVEL)), pc.sum(pc.abs(found.arrow.column(WEIGHT)))
        return deepest.as_py(), copies.as_py()
    assert found.frame is not None
    row = found.frame.agg(F.max(LEVEL), F.sum(F.abs(F.col(WEIGHT)))).first()
    assert row is not None
    return row[0], row[1]


def _frames(found: Sequence[Relation], spark: SparkSession) -> list[DataFrame]:
    return [relation.dataframe(spark) for relation in found]
