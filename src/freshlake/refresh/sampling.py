"""Drawing the keys of a sample: values that the result should have, and values that it has.

They come from a few files each time, so drawing costs little, and every file has its turn. A key that alone would read
more rows than an audit may is left out; how many it has is estimated from its share of the rows that were drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from freshlake.compiler.audit import KEY, Sampling
from freshlake.errors import InvalidArgument
from freshlake.refresh.run import Runner
from freshlake.storage.netting import in_utc
from freshlake.storage.relation import Relation, arrow_schema

MOST_KEYS = 1_000
_DRAWN_ROWS = 100_000
_LOOKED_AT = 20_000
"""Distinct values that are looked at among the rows drawn."""


@dataclass(frozen=True)
class Draw:
    """How many rows the keys may read, and a number that says which keys it is the turn of."""

    limit: int
    turn: int


def draw(runner: Runner, sampling: Sampling, node: str, field: str, rows: int | None, by: Draw) -> Relation | None:
    """Keys that read about as many rows as allowed at most; None if not even one key reads so few.

    `field` is the sampled column in the storage of the node that is compared, `rows` is the size of the leaf that the
    keys are drawn from.
    """
    wanted, there = _drawn(runner, sampling, by.turn), _stored(runner, node, field, by.turn)
    try:
        should, has = _counted(wanted, by.turn), _counted(there, by.turn)
    except (ValueError, OverflowError):  # beyond what Python's dates can hold
        return None
    total = sum(should.values())
    each = max(rows or total, total) / total if total else 0.0
    costs = {value: count * each for value, count in should.items()}
    chosen = affordable(alternating(list(should), list(has)), costs, by.limit)
    if not chosen:
        return None
    schema = StructType([StructField(KEY, wanted.schema[0].dataType)])
    table = pa.table({KEY: pa.array(chosen, arrow_schema(schema).field(0).type)})
    return Relation.of_arrow(table, schema, insert_only=True)


def given(column: str, kind: str, values: Sequence[Any]) -> Relation:
    """Keys that somebody chose; raises InvalidArgument where they are not values of the column's type."""
    schema = StructType([StructField(KEY, _parse_datatype_json_string(kind if kind[0] == "{" else json.dumps(kind)))])
    try:
        table = pa.table({KEY: pa.array(values, arrow_schema(schema).field(0).type)})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"the keys are not values of column {column}", detail=str(error), hint=f"its type is {kind}"
        ) from error
    return Relation.of_arrow(table, schema, insert_only=True)


def _drawn(runner: Runner, sampling: Sampling, turn: int) -> DataFrame:
    leaf = sampling.drawn
    if leaf.stored:
        return _stored(runner, leaf.of, sampling.field, turn)
    span = runner.inputs.spans[leaf.of]
    return span.source.part(runner.worker.running, span.end, sampling.field, _DRAWN_ROWS, turn)


def _stored(runner: Runner, node: str, field: str, turn: int) -> DataFrame:
    stored = runner.inputs.nodes[node]
    assert stored.fold is not None
    return stored.table.part(runner.worker.running, stored.fold, field, _DRAWN_ROWS, turn)


def affordable(values: Sequence[Any], rows: Mapping[Any, float], limit: int) -> list[Any]:
    """As many of the values, in order, as fit together; one that does not fit is passed over."""
    chosen: dict[Any, None] = {}
    left = float(limit)
    for value in values:
        cost = rows.get(value, 0.0)
        if value not in chosen and cost <= left and len(chosen) < MOST_KEYS:
            chosen[value] = None
            left -= cost
    return list(chosen)


def alternating(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """One of each in turn."""
    both = [value for pair in zip(first, second, strict=False) for value in pair]
    return [*both, *first[len(second) :], *second[len(first) :]]


def _counted(frame: DataFrame, turn: int) -> dict[Any, int]:
    """Values with the number of their rows, in an order that depends on the turn alone."""
    counted = frame.toDF(KEY).groupBy(KEY).agg(F.count(F.lit(1)).alias("n"))
    table = in_utc(counted.orderBy(F.xxhash64(KEY, F.lit(turn)), KEY).limit(_LOOKED_AT).toArrow(), counted.schema)
    return dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
