"""Compare two bags both ways: exact where types are exact, within 1e-9 relative where they are floating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from freshlake.config import Settings
from freshlake.refresh.inputs import SMALL_ROWS
from freshlake.refresh.run import collect_small
from freshlake.storage.identity import consolidate
from freshlake.storage.netting import net, nettable
from freshlake.storage.relation import WEIGHT

_TOLERANCE = 1e-9
_SAMPLE = 10


@dataclass(frozen=True)
class Difference:
    missing: int
    unexpected: int
    sample: tuple[dict[str, Any], ...]


def compare(expected: DataFrame, actual: DataFrame, *, unordered: Sequence[str] = ()) -> Difference:
    """Rows of `expected` that `actual` lacks and the other way round; `unordered` arrays compare as bags."""
    expected, actual = (_canonical(f, unordered) for f in (expected, actual))
    plus = expected.withColumn(WEIGHT, F.lit(1).cast("bigint"))
    minus = actual.withColumn(WEIGHT, F.lit(-1).cast("bigint"))
    exact = consolidate(plus.unionAll(minus))
    floats = [f.name for f in expected.schema if floating(f.dataType)]
    differing = _beyond_rounding(exact, floats) if floats else exact
    return _count(differing.persist())


def same_small(expected: DataFrame, actual: DataFrame, settings: Settings) -> bool:
    """Whether two small bags are the same bit by bit, compared on the driver; False only asks for a closer look."""
    ours, theirs = (collect_small(frame, settings, SMALL_ROWS) for frame in (actual, expected))
    if ours is None or theirs is None or not nettable(ours):
        return False
    marked = [_marked(ours, -1), _marked(theirs.rename_columns(ours.column_names).cast(ours.schema), 1)]
    return bool(net(pa.concat_tables(marked)).num_rows == 0)


def _marked(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))


def _canonical(frame: DataFrame, unordered: Sequence[str]) -> DataFrame:
    for name in unordered:
        kind = frame.schema[name].dataType
        if isinstance(kind, ArrayType) and not isinstance(kind.elementType, MapType):
            frame = frame.withColumn(name, F.sort_array(F.col(_q(name))))
    return frame


def floating(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return floating(kind.elementType)
    if isinstance(kind, StructType):
        return any(floating(f.dataType) for f in kind)
    if isinstance(kind, MapType):
        return floating(kind.valueType)
    return isinstance(kind, DoubleType | FloatType)


def _beyond_rounding(exact: DataFrame, floats: Sequence[str]) -> DataFrame:
    """Drop pairs that differ by rounding only: per exact columns, sorted values of both sides are close one by one."""
    keys = [c for c in exact.columns if c not in (*floats, WEIGHT)]
    simple = [c for c in floats if isinstance(exact.schema[c].dataType, DoubleType | FloatType)]
    if len(simple) != len(floats):
        return _by_text(exact, floats)
    copies = exact.withColumn("__fl_copy", F.explode(F.array_repeat(F.lit(1), F.abs(F.col(WEIGHT)).cast("int"))))
    values = F.struct(*(F.col(_q(c)).cast("double").alias(f"v{i}") for i, c in enumerate(simple)))
    plus, minus = (F.sort_array(F.collect_list(F.when(F.col(WEIGHT) * sign > 0, values))) for sign in (1, -1))
    groups = copies.groupBy(*(F.col(_q(k)) for k in keys)).agg(plus.alias("__fl_p"), minus.alias("__fl_m"))
    close = F.size("__fl_p") == F.size("__fl_m")
    pairs = F.arrays_zip("__fl_p", "__fl_m")
    close = close & F.forall(pairs, lambda z: _all_close(z, len(simple)))
    bad = groups.where(~close).select(*(F.col(_q(k)).alias(f"__fl_b{i}") for i, k in enumerate(keys)))
    if not keys:
        return exact.join(F.broadcast(bad.limit(1)), how="left_semi") if bad.count() else exact.limit(0)
    on = [exact[_q(k)].eqNullSafe(bad[f"__fl_b{i}"]) for i, k in enumerate(keys)]
    return exact.join(bad, on, "left_semi")


def _all_close(pair: Column, width: int) -> Column:
    tests = []
    for i in range(width):
        a, b = pair["__fl_p"][f"v{i}"], pair["__fl_m"][f"v{i}"]
        near = F.abs(a - b) <= F.lit(_TOLERANCE) * F.greatest(F.abs(a), F.abs(b), F.lit(1e-300))
        tests.append(F.coalesce(a.eqNullSafe(b) | (F.isnan(a) & F.isnan(b)) | near, F.lit(False)))
    result = tests[0]
    for t in tests[1:]:
        result = result & t
    return result


def _by_text(exact: DataFrame, floats: Sequence[str]) -> DataFrame:
    """Nested floating values: compare with nine significant digits of every number."""
    rounded = exact
    for name in floats:
        digits = F.regexp_replace(F.to_json(F.struct(F.col(_q(name)))), r"(\d\.\d{8})\d+", "$1")
        rounded = rounded.withColumn(name, digits)
    return consolidate(rounded)


def _count(differing: DataFrame) -> Difference:
    weight = F.col(WEIGHT)
    try:
        totals = differing.agg(
            F.sum(F.when(weight > 0, weight)).alias("plus"), F.sum(F.when(weight < 0, -weight)).alias("minus")
        ).first()
        assert totals is not None
        sample = tuple(row.asDict(recursive=True) for row in differing.limit(_SAMPLE).collect()) if any(totals) else ()
        return Difference(int(totals["plus"] or 0), int(totals["minus"] or 0), sample)
    finally:
        differing.unpersist()


def _q(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
