"""Compare two bags both ways: exact where types are exact, within 1e-9 relative where they are floating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType, VariantType

from freshlake.config import Settings
from freshlake.refresh.inputs import SMALL_ROWS
from freshlake.refresh.run import collect_small
from freshlake.storage.identity import consolidate, identity, prepare
from freshlake.storage.netting import net, nettable
from freshlake.storage.relation import WEIGHT

_TOLERANCE = 1e-9
_INFINITE = float("inf")
_SHARES = 1 << 20
_NUMBER = r"-?\d+\.\d+(?:E-?\d+)?"
"""A floating number as JSON has it."""
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
    floats = [f for f in expected.schema if floating(f.dataType)]
    differing = _beyond_rounding(exact, floats) if floats else exact
    return _count(differing.persist())


def correction(
    expected: DataFrame, actual: DataFrame, closed: Sequence[str], unordered: Sequence[str] = ()
) -> tuple[DataFrame, DataFrame]:
    """The weighted rows that make `actual` what `expected` is wherever they really differ, and a frame to unpersist.

    Real differences are those of `closed` columns, beyond rounding and beyond the order of `unordered` ones. Rows that
    are the same in the exact closed columns are replaced together; all other rows stay, with what is open or rounded
    in them.
    """
    signed = [f.withColumn(WEIGHT, F.lit(w).cast("bigint")) for f, w in ((expected, 1), (actual, -1))]
    whole = consolidate(signed[0].unionAll(signed[1])).persist()
    copies = {name: f"__fl_c{i}" for i, name in enumerate(closed)}
    marked = whole.select("*", *(F.col(_q(name)).alias(copy) for name, copy in copies.items()))
    marked = _canonical(marked, [copies[name] for name in unordered])
    judged = marked.select(*copies.values(), WEIGHT)
    floats = [f for f in judged.schema if floating(f.dataType)]
    if len(copies) == len(expected.columns) and not floats and not unordered:
        return whole, whole
    wrong = consolidate(judged)
    wrong = _beyond_rounding(wrong, floats) if floats else wrong
    keys = [*_fixed(judged.schema, floats), *map(_shape, floats), F.lit(0)]
    ours, theirs = ([key.alias(f"__fl_{side}{i}") for i, key in enumerate(keys)] for side in "xy")
    on = [F.col(f"__fl_x{i}").eqNullSafe(F.col(f"__fl_y{i}")) for i in range(len(keys))]
    kept = marked.select("*", *ours).join(wrong.select(*theirs), on, "left_semi")
    return kept.select(*map(_q, whole.columns)), whole


def alike(expected: DataFrame, actual: DataFrame, *, unordered: Sequence[str] = ()) -> bool:
    """Whether one pass over each bag finds no difference; False only asks for a closer look.

    Exact values, and which floating ones are NULL, NaN or infinite, go into a sum of row hashes. Finite floating values
    are summed, plainly and weighted by the hash of their row, so that values at the wrong rows are noticed.
    """
    (exact, sums), (others_exact, others_sums) = (_summary(_canonical(f, unordered)) for f in (expected, actual))
    pairs = zip(sums, others_sums, strict=True)
    return exact == others_exact and all(abs(a - b) <= _TOLERANCE * size for (a, size), (b, _) in pairs)


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
        kind, values = frame.schema[name].dataType, F.col(_q(name))
        if isinstance(kind, ArrayType):
            frame = frame.withColumn(name, F.sort_array(values if _has_order(kind) else F.transform(values, _json)))
    return frame


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    if isinstance(kind, StructType):
        return all(_has_order(f.dataType) for f in kind)
    return not isinstance(kind, MapType | VariantType)


def _json(value: Column) -> Column:
    """Any value as text that tells it from others; the default leaves out microseconds."""
    fraction = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    options = {"timestampFormat": f"{fraction}XXX", "timestampNTZFormat": fraction}
    return F.coalesce(F.to_json(F.struct(value.alias("v")), options), F.lit("null"))


def floating(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return floating(kind.elementType)
    if isinstance(kind, StructType):
        return any(floating(f.dataType) for f in kind)
    if isinstance(kind, MapType):
        return floating(kind.valueType)
    return isinstance(kind, DoubleType | FloatType)


def _summary(frame: DataFrame) -> tuple[list[Any], list[tuple[float, float]]]:
    """[rows, sum of their hashes], and two sums of every floating column, each with the size of what it adds up."""
    prepare(frame.sparkSession, frame.schema)
    floats = [f for f in frame.schema if floating(f.dataType)]
    fixed = [*map(_json, _fixed(frame.schema, floats)), *(_shape(f) for f in floats)]
    digest = F.xxhash64(*fixed) if fixed else F.lit(0).cast("bigint")
    numbers = [_finite(_numbers(f)).alias(f"n{i}") for i, f in enumerate(floats)]
    totals = [F.count(F.lit(1)), F.sum(F.col("h").cast("decimal(38,0)"))]
    share = F.pmod("h", F.lit(_SHARES)) / F.lit(float(_SHARES))
    for i in range(len(floats)):
        total, size = _total(F.col(f"n{i}")), _total(F.transform(f"n{i}", F.abs))
        totals += [F.coalesce(F.sum(value), F.lit(0.0)) for value in (total, size, total * share, size)]
    row = frame.select(digest.alias("h"), *numbers).agg(*totals).first()
    assert row is not None
    return list(row[:2]), list(zip(row[2::2], row[3::2], strict=True))


def _fixed(schema: StructType, floats: Sequence[StructField]) -> list[Column]:
    """What identifies a row apart from its floating columns."""
    left_out = {WEIGHT, *(f.name for f in floats)}
    return [F.expr(e) for e in identity(StructType([f for f in schema if f.name not in left_out]))]


def _is_simple(field: StructField) -> bool:
    return isinstance(field.dataType, DoubleType | FloatType)


def _shape(field: StructField) -> Column:
    """A floating value without its finite numbers."""
    value = F.col(_q(field.name))
    if not _is_simple(field):
        return F.regexp_replace(_json(value), _NUMBER, "#")
    special = F.when(value.isNull(), "null").when(F.isnan(value) | (F.abs(value) == _INFINITE), value.cast("string"))
    return special.otherwise("#")


def _numbers(field: StructField) -> Column:
    """The numbers in a floating value, in order."""
    value = F.col(_q(field.name))
    if _is_simple(field):
        return F.array(value.cast("double"))
    texts = F.regexp_extract_all(_json(value), F.lit(_NUMBER), F.lit(0))
    return F.transform(texts, lambda text: text.cast("double"))


def _finite(numbers: Column) -> Column:
    return F.filter(numbers, lambda x: F.abs(x) < _INFINITE)


def _total(numbers: Column) -> Column:
    return F.aggregate(numbers, F.lit(0.0), lambda total, x: total + x)


def _beyond_rounding(exact: DataFrame, floats: Sequence[StructField]) -> DataFrame:
    """Drop pairs that differ by rounding only: per exact values, sorted numbers of both sides are close one by one.

    Sorted without their last digits first: two rows whose first numbers are as good as equal would else be in the order
    of what rounding has left of those, which differs between the sides, and the numbers after them would be crossed.
    """
    keys = [*_fixed(exact.schema, floats), *(_shape(f) for f in floats)]
    names = [f"__fl_g{i}" for i in range(len(keys))]
    keyed = exact.select("*", *(key.alias(name) for key, name in zip(keys, names, strict=True)))
    copies = keyed.withColumn("__fl_copy", F.explode(F.array_repeat(F.lit(1), F.abs(F.col(WEIGHT)).cast("int"))))
    about = [F.transform(_numbers(f), _about).alias(f"r{i}") for i, f in enumerate(floats)]
    values = F.struct(*about, *(_numbers(f).alias(f"v{i}") for i, f in enumerate(floats)))
    plus, minus = (F.sort_array(F.collect_list(F.when(F.col(WEIGHT) * sign > 0, values))) for sign in (1, -1))
    groups = copies.groupBy(*names).agg(plus.alias("__fl_p"), minus.alias("__fl_m"))
    close = F.size("__fl_p") == F.size("__fl_m")
    close = close & F.forall(F.arrays_zip("__fl_p", "__fl_m"), lambda z: _all_close(z, len(floats)))
    bad = groups.where(~close).select(*(F.col(name).alias(f"{name}b") for name in names))
    on = [keyed[name].eqNullSafe(bad[f"{name}b"]) for name in names]
    return keyed.join(bad, on, "left_semi").drop(*names)


def _about(number: Column) -> Column:
    """A number to twelve digits; -0.0 is 0.0."""
    return F.when(number.isNotNull(), F.format_string("%.11e", number + F.lit(0.0)).cast("double"))


def _all_close(pair: Column, width: int) -> Column:
    result = F.lit(True)
    for i in range(width):
        numbers = F.arrays_zip(pair["__fl_p"][f"v{i}"].alias("a"), pair["__fl_m"][f"v{i}"].alias("b"))
        result = result & F.forall(numbers, lambda n: _close(n["a"], n["b"]))
    return result


def _close(a: Column, b: Column) -> Column:
    near = F.abs(a - b) <= F.lit(_TOLERANCE) * F.greatest(F.abs(a), F.abs(b), F.lit(1e-300))
    return F.coalesce(a.eqNullSafe(b) | (F.isnan(a) & F.isnan(b)) | near, F.lit(False))


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
