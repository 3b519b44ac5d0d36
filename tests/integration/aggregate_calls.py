"""A call of every aggregate function of Spark, and stream tables that together hold all of them."""

from __future__ import annotations

SETUP = (
    "CREATE TABLE m (id INT, g STRING, h INT, i INT, j INT, l BIGINT, d DOUBLE, f FLOAT, b BOOLEAN, s STRING, "
    "amount DECIMAL(10,2)) USING delta",
    "INSERT INTO m VALUES "
    "(1, 'a', 1, 5, 1, 50, 0.5, 1.5, true, 'x', 1.25), (2, 'a', 1, 5, 2, 50, 0.5, 1.5, true, 'x', 1.25), "
    "(3, 'a', 2, 9, 4, -7, 4.0, -2.0, false, 'y', -3.50), (4, 'b', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(5, 'b', 2, 2, 7, 3, 8.5, 0.25, false, '', 99999999.99), (6, 'b', 1, 3, 3, 9, 1.0, 2.0, true, 'z', 0.01), "
    "(7, NULL, 3, 4, 8, 1, 2.0, 4.0, NULL, 'n', 0.00), (8, NULL, 3, 1, 2, 1, 2.5, 4.0, true, 'n', 7.10), "
    "(9, 'c', 1, 6, 6, 2, 3.5, 1.0, true, 'q', 5.55)",
)

_PAIR = "transform(array(i, j), x -> float(coalesce(x, 0)))"
_TOP = "transform(approx_top_k_estimate(%s, 20), x -> x.item)"

CALLS = {
    "any": "any(b)",
    "any_value": "any_value(g)",
    "approx_count_distinct": "approx_count_distinct(i)",
    "approx_percentile": "approx_percentile(i, array(0.0, 0.5, 1.0))",
    "approx_top_k": "transform(approx_top_k(i, 20), x -> struct(x.item, x.count))",
    "approx_top_k_accumulate": _TOP % "approx_top_k_accumulate(i)",
    "approx_top_k_combine": _TOP % "approx_top_k_combine(top, 100)",
    "array_agg": "array_agg(i)",
    "avg": "avg(i)",
    "bit_and": "bit_and(i)",
    "bit_or": "bit_or(i)",
    "bit_xor": "bit_xor(i)",
    "bitmap_and_agg": "bitmap_count(bitmap_and_agg(bits))",
    "bitmap_construct_agg": "bitmap_construct_agg(bitmap_bit_position(i))",
    "bitmap_or_agg": "bitmap_or_agg(bits)",
    "bool_and": "bool_and(b)",
    "bool_or": "bool_or(b)",
    "collect_list": "collect_list(i)",
    "collect_set": "collect_set(i)",
    "corr": "corr(i, j)",
    "count": "count(i)",
    "count_if": "count_if(b)",
    "count_min_sketch": "count_min_sketch(i, 0.5d, 0.5d, 1)",
    "covar_pop": "covar_pop(i, j)",
    "covar_samp": "covar_samp(i, j)",
    "every": "every(b)",
    "first": "first(g)",
    "first_value": "first_value(g)",
    "histogram_numeric": "aggregate(histogram_numeric(i, 20), 0D, (n, bar) -> n + bar.y)",
    "hll_sketch_agg": "hll_sketch_estimate(hll_sketch_agg(i))",
    "hll_union_agg": "hll_sketch_estimate(hll_union_agg(hll))",
    "kll_merge_agg_bigint": "kll_sketch_get_quantile_bigint(kll_merge_agg_bigint(kll_l), 0.5)",
    "kll_merge_agg_double": "kll_sketch_get_quantile_double(kll_merge_agg_double(kll_d), 0.5)",
    "kll_merge_agg_float": "kll_sketch_get_quantile_float(kll_merge_agg_float(kll_f), 0.5)",
    "kll_sketch_agg_bigint": "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(l))",
    "kll_sketch_agg_double": "kll_sketch_get_n_double(kll_sketch_agg_double(d))",
    "kll_sketch_agg_float": "kll_sketch_get_n_float(kll_sketch_agg_float(f))",
    "kurtosis": "kurtosis(i)",
    "last": "last(g)",
    "last_value": "last_value(g)",
    "listagg": "listagg(s, ',') WITHIN GROUP (ORDER BY s)",
    "max": "max(i)",
    "max_by": "max_by(s, id)",
    "mean": "mean(amount)",
    "median": "median(d)",
    "min": "min(i)",
    "min_by": "min_by(s, id)",
    "mode": "mode(i, true)",
    "percentile": "percentile(i, array(0.25, 0.9))",
    "percentile_approx": "percentile_approx(j, 0.5)",
    "percentile_cont": "percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC)",
    "percentile_disc": "percentile_disc(0.3) WITHIN GROUP (ORDER BY i DESC)",
    **{f"regr_{name}": f"regr_{name}(i, j)" for name in ("avgx", "avgy", "count", "intercept", "r2", "slope")},
    **{f"regr_{name}": f"regr_{name}(i, j)" for name in ("sxx", "sxy", "syy")},
    "schema_of_variant_agg": "schema_of_variant_agg(parse_json(if(b, '{\"i\": 1}', '{\"i\": [true]}')))",
    "skewness": "round(skewness(i), 9)",
    "some": "some(b)",
    "std": "std(i)",
    "stddev": "stddev(i)",
    "stddev_pop": "stddev_pop(amount)",
    "stddev_samp": "stddev_samp(d)",
    "string_agg": "string_agg(s) WITHIN GROUP (ORDER BY s DESC)",
    "sum": "sum(i)",
    "theta_intersection_agg": "theta_sketch_estimate(theta_intersection_agg(theta))",
    "theta_sketch_agg": "theta_sketch_estimate(theta_sketch_agg(i))",
    "theta_union_agg": "theta_sketch_estimate(theta_union_agg(theta))",
    "try_avg": "try_avg(l)",
    "try_sum": "try_sum(l)",
    "tuple_intersection_agg_double": "tuple_sketch_estimate_double(tuple_intersection_agg_double(tuple_d))",
    "tuple_intersection_agg_integer": "tuple_sketch_estimate_integer(tuple_intersection_agg_integer(tuple_i))",
    "tuple_sketch_agg_double": "tuple_sketch_estimate_double(tuple_sketch_agg_double(i, d))",
    "tuple_sketch_agg_integer": "tuple_sketch_estimate_integer(tuple_sketch_agg_integer(i, j))",
    "tuple_union_agg_double": "tuple_sketch_estimate_double(tuple_union_agg_double(tuple_d))",
    "tuple_union_agg_integer": "tuple_sketch_estimate_integer(tuple_union_agg_integer(tuple_i))",
    "var_pop": "var_pop(i)",
    "var_samp": "var_samp(i)",
    "variance": "variance(i)",
    "vector_avg": f"transform(vector_avg({_PAIR}), x -> round(x, 2))",
    "vector_sum": f"vector_sum({_PAIR})",
}
"""Arguments are chosen so that the result is decided, also where the function leaves something open."""

PARTS = (
    "(SELECT g, h, hll_sketch_agg(i) AS hll, theta_sketch_agg(i) AS theta, kll_sketch_agg_bigint(l) AS kll_l, "
    "kll_sketch_agg_double(d) AS kll_d, kll_sketch_agg_float(f) AS kll_f, tuple_sketch_agg_double(i, d) AS tuple_d, "
    "tuple_sketch_agg_integer(i, j) AS tuple_i, bitmap_construct_agg(bitmap_bit_position(i)) AS bits, "
    "approx_top_k_accumulate(i) AS top FROM m WHERE i + j + l IS NOT NULL GROUP BY g, h)"
)
"""Sketches of smaller groups, which the merging functions put together: a stored node below the result."""

MERGING = (
    *("approx_top_k_combine", "bitmap_and_agg", "bitmap_or_agg", "hll_union_agg", "kll_merge_agg_bigint"),
    *("kll_merge_agg_double", "kll_merge_agg_float", "theta_intersection_agg", "theta_union_agg"),
    *("tuple_intersection_agg_double", "tuple_intersection_agg_integer", "tuple_union_agg_double"),
    "tuple_union_agg_integer",
)


def source_of(name: str) -> str:
    return PARTS if name in MERGING else "m"


def table_of(names: list[str], source: str = "m") -> str:
    calls = ", ".join(f"{CALLS[name]} AS `{name}`" for name in names)
    return f"SELECT g, {calls} FROM {source} GROUP BY g"


FORMS = {
    "counted": "SELECT g, count(*) AS n, count(i, j) AS both, count(i) FILTER (WHERE b) AS some, "
    "sum(amount) FILTER (WHERE i > 3) AS part, avg(amount) AS mean, sum(l) AS wide, count_if(i > 3) AS big, "
    "sum(cast(i AS TINYINT)) AS small, sum(amount * amount) AS squares FROM m GROUP BY ALL",
    "extremes": "SELECT g, max(s) AS s, min(amount) AS lo, max(d) AS d, min(b) AS b, max(DISTINCT i) AS i, "
    "max(struct(i, s)) AS st, min(array(i, j)) AS ar, max(j) FILTER (WHERE b) AS part, count(*) AS n FROM m GROUP BY g",
    "distincts": "SELECT g, count(DISTINCT i) AS i, count(DISTINCT i, j) AS ij, sum(DISTINCT h) AS h, "
    "avg(DISTINCT amount) AS a, count(DISTINCT s) FILTER (WHERE b) AS part, collect_set(h) AS hs, sum(i) AS total "
    "FROM m GROUP BY g",
    "distinct_texts": "SELECT g, listagg(DISTINCT s, '+') WITHIN GROUP (ORDER BY s) AS texts FROM m GROUP BY g",
    "floats": "SELECT g, sum(d) AS d, avg(d) AS ad, sum(f) AS f, avg(f) AS af, sum(DISTINCT d) AS dd FROM m GROUP BY g",
    "ordered": "SELECT g, mode() WITHIN GROUP (ORDER BY i DESC) AS m, max_by(s, id, 2) AS two, "
    "listagg(s, ';') WITHIN GROUP (ORDER BY id DESC) AS texts, percentile(d, 0.5, h) AS weighted, "
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY d) FILTER (WHERE b) AS part FROM m GROUP BY g",
    "nothing_grouped": "SELECT count(*) AS n, count(i) AS c, sum(l) AS t, avg(amount) AS a FROM m",
    "nothing_grouped_extremes": "SELECT max(i) AS hi, min(s) AS lo, bool_and(b) AS every, count(*) AS n FROM m",
    "nothing_grouped_again": "SELECT count(DISTINCT i) AS c, collect_list(i) AS xs, median(i) AS mid, sum(d) AS t, "
    "stddev(i) AS sd, approx_count_distinct(s) AS a, bit_xor(i) AS x FROM m",
}


def tables(tiers: dict[str, str]) -> dict[str, str]:
    """The stream tables: functions of one strategy share one, so that none decides for another."""
    found = {f"all_{tier}": table_of([n for n in CALLS if tiers[n] == tier]) for tier in ("algebraic", "extremum")}
    again = [n for n in CALLS if tiers[n] == "recompute" and n not in MERGING]
    middle = len(again) // 2
    found |= {"all_recompute_1": table_of(again[:middle]), "all_recompute_2": table_of(again[middle:])}
    return found | {"all_merging": table_of(list(MERGING), PARTS)} | FORMS


ROUNDS = (
    # corr fails in Spark where all values of a group are equal, so no group has such a column
    # duplicates, NULLs, a new group, values that are no extremum
    (
        "INSERT INTO m VALUES (10, 'a', 2, 9, 4, -7, 4.0, -2.0, false, 'y', -3.50), "
        "(11, 'e', 1, NULL, 3, 5, 1.5, NULL, NULL, NULL, 2.00), "
        "(12, 'e', 1, 7, NULL, NULL, NULL, 0.5, true, 'w', NULL), "
        "(13, NULL, 3, 2, 5, 2, -1.0, 3.0, false, 'o', 1.00), (8, NULL, 3, 1, 2, 1, 2.5, 4.0, true, 'n', 7.10)",
    ),
    # rows move to another group, values change, a group loses its extremes and one loses its last row
    (
        "UPDATE m SET g = CASE WHEN g = 'a' THEN 'b' ELSE 'a' END, i = i + 1 WHERE id IN (3, 5, 7)",
        "DELETE FROM m WHERE id IN (1, 9, 12)",
    ),
    ("DELETE FROM m",),
    (
        "INSERT INTO m VALUES (20, 'a', 1, 8, 8, 80, 0.25, 1.0, true, 'k', 3.33), "
        "(21, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(22, 'a', 2, 1, 5, 8, 0.5, 2.0, NULL, 'l', 1.00)",
    ),
)
