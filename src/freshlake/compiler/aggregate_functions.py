"""The aggregate functions of Spark 4.2: how each is maintained, and what its definition leaves open.

This table decides the strategy of a query, says what `verify` may compare, and is what docs/reference/aggregates.md
shows. A test asks the running Spark for its functions and fails on one that is missing here or computed otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    ALGEBRAIC = "algebraic"
    EXTREMUM = "extremum"
    RECOMPUTE = "recompute"


class Open(StrEnum):
    """What two right answers of a function may differ in."""

    NOTHING = ""
    ORDER = "the order of the elements"
    CHOICE = "which of several values it is"
    FORM = "the bytes; estimates from them are alike"
    ROUNDING = "the last digits of a single-precision number"


@dataclass(frozen=True)
class Function:
    """`names` in SQL that Spark computes with the same function `catalyst` of its own."""

    catalyst: str
    names: tuple[str, ...]
    tier: Tier = Tier.RECOMPUTE
    open: Open = Open.NOTHING
    note: str = ""


_A, _E = Tier.ALGEBRAIC, Tier.EXTREMUM
_TRY = "recomputed, since a result that overflows is NULL and has no state to go on from"
_EXACT = "of integers and decimals; recomputed for other types and with DISTINCT"
_TIED = "among rows that tie"

FUNCTIONS = (
    Function("Count", ("count", "count_if", "regr_count"), _A, note="recomputed with DISTINCT"),
    Function("Sum", ("sum",), _A, note=_EXACT),
    Function("Average", ("avg", "mean", "regr_avgx", "regr_avgy"), _A, note=_EXACT),
    Function("Max", ("max", "any", "bool_or", "some"), _E),
    Function("Min", ("min", "bool_and", "every"), _E),
    Function("Sum", ("try_sum",), note=_TRY),
    Function("Average", ("try_avg",), note=_TRY),
    # moments
    Function("StddevSamp", ("std", "stddev", "stddev_samp")),
    Function("StddevPop", ("stddev_pop",)),
    Function("VarianceSamp", ("var_samp", "variance")),
    Function("VariancePop", ("var_pop",)),
    Function("Skewness", ("skewness",)),
    Function("Kurtosis", ("kurtosis",)),
    Function("Corr", ("corr",)),
    Function("CovPopulation", ("covar_pop",)),
    Function("CovSample", ("covar_samp",)),
    Function("RegrIntercept", ("regr_intercept",)),
    Function("RegrR2", ("regr_r2",)),
    Function("RegrSlope", ("regr_slope",)),
    Function("RegrReplacement", ("regr_sxx", "regr_syy")),
    Function("RegrSXY", ("regr_sxy",)),
    # ordered sets
    Function("Percentile", ("median", "percentile", "percentile_cont")),
    Function("PercentileDisc", ("percentile_disc",)),
    Function("ApproximatePercentile", ("approx_percentile", "percentile_approx"), open=Open.CHOICE),
    Function("Mode", ("mode",), open=Open.CHOICE, note="decided with `mode(x, true)` and with WITHIN GROUP"),
    Function("MaxBy", ("max_by",), open=Open.CHOICE, note=_TIED),
    Function("MinBy", ("min_by",), open=Open.CHOICE, note=_TIED),
    Function("MaxMinByK", (), open=Open.CHOICE, note="max_by and min_by of several values"),
    Function("HistogramNumeric", ("histogram_numeric",), open=Open.CHOICE),
    # collections
    Function("CollectList", ("array_agg", "collect_list"), open=Open.ORDER),
    Function("CollectSet", ("collect_set",), open=Open.ORDER),
    Function("ListAgg", ("listagg", "string_agg"), open=Open.CHOICE, note="decided when ordered by the value itself"),
    Function("First", ("any_value", "first", "first_value"), open=Open.CHOICE),
    Function("Last", ("last", "last_value"), open=Open.CHOICE),
    Function("SchemaOfVariantAgg", ("schema_of_variant_agg",)),
    # bits
    Function("BitAndAgg", ("bit_and",)),
    Function("BitOrAgg", ("bit_or",)),
    Function("BitXorAgg", ("bit_xor",)),
    Function("BitmapAndAgg", ("bitmap_and_agg",)),
    Function("BitmapConstructAgg", ("bitmap_construct_agg",)),
    Function("BitmapOrAgg", ("bitmap_or_agg",)),
    # vectors
    Function("VectorSum", ("vector_sum",), open=Open.ROUNDING),
    Function("VectorAvg", ("vector_avg",), open=Open.ROUNDING),
    # sketches
    Function("HyperLogLogPlusPlus", ("approx_count_distinct",)),
    Function("CountMinSketchAgg", ("count_min_sketch",)),
    Function("ApproxTopK", ("approx_top_k",), open=Open.CHOICE),
    Function("ApproxTopKAccumulate", ("approx_top_k_accumulate",), open=Open.FORM),
    Function("ApproxTopKCombine", ("approx_top_k_combine",), open=Open.FORM),
    Function("HllSketchAgg", ("hll_sketch_agg",), open=Open.FORM),
    Function("HllUnionAgg", ("hll_union_agg",), open=Open.FORM),
    Function("KllSketchAggBigint", ("kll_sketch_agg_bigint",), open=Open.FORM),
    Function("KllSketchAggDouble", ("kll_sketch_agg_double",), open=Open.FORM),
    Function("KllSketchAggFloat", ("kll_sketch_agg_float",), open=Open.FORM),
    Function("KllMergeAggBigint", ("kll_merge_agg_bigint",), open=Open.FORM),
    Function("KllMergeAggDouble", ("kll_merge_agg_double",), open=Open.FORM),
    Function("KllMergeAggFloat", ("kll_merge_agg_float",), open=Open.FORM),
    Function("ThetaSketchAgg", ("theta_sketch_agg",), open=Open.FORM),
    Function("ThetaUnionAgg", ("theta_union_agg",), open=Open.FORM),
    Function("ThetaIntersectionAgg", ("theta_intersection_agg",), open=Open.FORM),
    Function("TupleSketchAggDouble", ("tuple_sketch_agg_double",), open=Open.FORM),
    Function("TupleSketchAggInteger", ("tuple_sketch_agg_integer",), open=Open.FORM),
    Function("TupleUnionAggDouble", ("tuple_union_agg_double",), open=Open.FORM),
    Function("TupleUnionAggInteger", ("tuple_union_agg_integer",), open=Open.FORM),
    Function("TupleIntersectionAggDouble", ("tuple_intersection_agg_double",), open=Open.FORM),
    Function("TupleIntersectionAggInteger", ("tuple_intersection_agg_integer",), open=Open.FORM),
)

NO_AGGREGATES = {
    "grouping": "a column of the expand below the aggregate",
    "grouping_id": "a column of the expand below the aggregate",
    "measure": "only in metric views, where Spark puts the measure's own functions in its place",
}
"""What Spark lists among its aggregate functions although no aggregate is computed by that name."""

_BY_CATALYST = {f.catalyst: f for f in reversed(FUNCTIONS)}

UNKNOWN = Function("", (), open=Open.CHOICE)
"""A function of the user: nothing is known of it, so its groups are recomputed."""


def function_of(catalyst: str) -> Function:
    """The row of a function by Catalyst's name for it; of several the one with the cheapest tier."""
    return _BY_CATALYST.get(catalyst, UNKNOWN)
