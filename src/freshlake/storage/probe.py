"""The cheapest way to find the base rows that a set of removals may touch: few columns, few false matches.

Any function of a row will do for correctness, because what it finds is summed as whole rows afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from freshlake.storage.scan import Snapshot
from freshlake.storage.scan.columns import quoted

# Enough rows to tell from them how often a value repeats.
_SAMPLE = 50
_SELECTIVE = 0.5
_COLUMNS = 3
_WIDE = LongType | IntegerType | StringType | TimestampType | TimestampNTZType | DecimalType | BinaryType
_HASHED = _WIDE | DateType | ShortType | ByteType | BooleanType | FloatType | DoubleType


@dataclass(frozen=True)
class Probe:
    """A never-NULL expression over some columns; equal rows have equal probes."""

    columns: tuple[str, ...]
    expression: str


def choose_probe(removed: pa.Table, base: Snapshot) -> Probe:
    """A single column whose values hardly repeat, or a hash over several."""
    fields = [field for field in base.schema if isinstance(field.dataType, _HASHED)]
    ranked = sorted(fields, key=lambda field: _rank(field, removed, base), reverse=True)
    if not ranked:
        return Probe((), "0L")
    best = ranked[0]
    if removed.num_rows < _SAMPLE or _distinct(removed, best.name) < removed.num_rows * _SELECTIVE:
        names = [field.name for field in ranked[:_COLUMNS]]
        return Probe(tuple(names), f"xxhash64({', '.join(map(quoted, names))})")
    if isinstance(best.dataType, LongType) and removed.column(best.name).null_count == 0:
        return Probe((best.name,), quoted(best.name))
    return Probe((best.name,), f"xxhash64({quoted(best.name)})")


def _rank(field: StructField, removed: pa.Table, base: Snapshot) -> tuple[float, float, float]:
    return _distinct(removed, field.name), _width(field.dataType), _spread(field, base)


def _distinct(removed: pa.Table, name: str) -> int:
    return int(pc.count_distinct(removed.column(name), mode="all").as_py())


def _width(kind: DataType) -> float:
    if isinstance(kind, LongType | IntegerType):
        return 2
    return 1 if isinstance(kind, _WIDE) else 0


def _spread(field: StructField, base: Snapshot) -> float:
    """How many values a number column can have, as the statistics of the files tell."""
    if not isinstance(field.dataType, LongType | IntegerType):
        return 0
    lows = [file.minimum.get(field.name) for file in base.files]
    highs = [file.maximum.get(field.name) for file in base.files]
    known = [value for value in (*lows, *highs) if isinstance(value, int)]
    return max(known) - min(known) if known else 0
