"""Every aggregate function of Spark is classified, as Spark computes it, and kept equal to its query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.compiler import plan as p
from freshlake.compiler.aggregate_functions import FUNCTIONS, NO_AGGREGATES, Open, Tier
from freshlake.compiler.aggregates import tier
from freshlake.compiler.bind import bind
from freshlake.compiler.bridge import Bridge
from freshlake.compiler.walk import nodes
from freshlake.errors import DataError
from freshlake.lake import Freshlake
from tests.integration.aggregate_calls import CALLS, ROUNDS, SETUP, source_of, tables
from tests.property.case import Round, Script
from tests.property.play import SETTINGS, Play

# All cases are played in one fixture, which is charged to the first of them.
pytestmark = pytest.mark.timeout(900)

KNOWN = {name: function for function in FUNCTIONS for name in function.names}
TABLES = tables({name: str(function.tier) for name, function in KNOWN.items()})


def functions_of(spark: SparkSession) -> set[str]:
    """What the running Spark lists as aggregate functions, and what it would compute as one."""
    jvm: Any = spark._jvm
    registry = spark._jsparkSession.sessionState().functionRegistry()
    find = jvm.java.lang.Class.forName
    aggregate = find("org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction")
    names, found = registry.listFunction(), set()
    for i in range(names.size()):
        info = registry.lookupFunction(names.apply(i)).get()
        computed = aggregate.isAssignableFrom(find(info.getClassName()))
        if info.getGroup() == "agg_funcs" or (computed and info.getGroup() != "window_funcs"):
            found.add(names.apply(i).funcName())
    return found


def test_every_function_of_the_running_spark_is_classified_once(spark: SparkSession) -> None:
    names = [name for function in FUNCTIONS for name in function.names] + list(NO_AGGREGATES)
    assert sorted(names) == sorted(functions_of(spark))
    assert sorted(CALLS) == sorted(KNOWN)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("aggregates"), settings=SETTINGS)
    for statement in SETUP:
        lake.sql(statement)
    yield lake
    lake.close()


def test_spark_computes_each_function_as_the_table_says(lake: Freshlake) -> None:
    bridge, wrong = Bridge(lake.spark), {}
    for name, call in CALLS.items():
        frame = lake.spark.sql(f"SELECT g, {call} AS x FROM {source_of(name)} GROUP BY g")
        top = next(n for n in nodes(bind(frame, bridge).plan) if isinstance(n, p.Aggregate))
        said = {(KNOWN[name].catalyst, KNOWN[name].tier)}
        found = {(c.function, tier(c)) for c in top.calls}
        if found != said:
            wrong[name] = (found, said)
    assert not wrong


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("sum(d)", Tier.RECOMPUTE),
        ("avg(f)", Tier.RECOMPUTE),
        ("sum(amount)", Tier.ALGEBRAIC),
        ("sum(DISTINCT i)", Tier.RECOMPUTE),
        ("count(DISTINCT i)", Tier.RECOMPUTE),
        ("max(DISTINCT i)", Tier.EXTREMUM),
        ("count(*) FILTER (WHERE b)", Tier.ALGEBRAIC),
    ],
)
def test_types_and_distinct_decide_too(lake: Freshlake, call: str, said: Tier) -> None:
    plan = bind(lake.spark.sql(f"SELECT {call} AS x FROM m"), Bridge(lake.spark)).plan
    (aggregate,) = (n for n in nodes(plan) if isinstance(n, p.Aggregate))
    assert [tier(c) for c in aggregate.calls] == [said]


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    rounds = tuple(Round(changes, reconnect=n == 2) for n, changes in enumerate(ROUNDS))
    play = Play(Script(SETUP, ("m",), TABLES, rounds), tmp_path_factory.mktemp("played"), stop_early=False)
    play.run()
    return play


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_it_equals_its_query_after_every_round(played: Play, table: str) -> None:
    assert not [str(f) for f in played.failures if f.query == table]


# What SQL leaves open ------------------------------------------------------------------------------------------------

OPEN = {
    "first_i": "first(i)",
    "last_i": "last(i, true)",
    "any_i": "any_value(i)",
    "tied": "max_by(i, h)",
    "most": "mode(i)",
    "texts": "listagg(s, ',')",
    "hll": "hll_sketch_agg(i)",
    "kll": "kll_sketch_agg_bigint(l)",
    "theta": "theta_sketch_agg(i)",
    "tuples": "tuple_sketch_agg_double(i, d)",
    "top": "approx_top_k_accumulate(i)",
    "estimate": "hll_sketch_estimate(hll_sketch_agg(i))",
}


def test_a_value_that_is_left_open_is_one_that_the_query_may_return(lake: Freshlake) -> None:
    calls = ", ".join(f"{call} AS {name}" for name, call in OPEN.items())
    query = f"SELECT g, {calls}, collect_list(i) AS xs, mode(i, true) AS m, count(*) AS n FROM m GROUP BY g"
    lake.create_stream_table("open", query, refresh_mode="DIFFERENTIAL")
    for changes in ROUNDS[:2]:
        for statement in changes:
            lake.sql(statement)
        lake.refresh("open", mode="DIFFERENTIAL")
        verified = lake.verify("open")
        assert verified.equal, verified
        assert set(verified.not_compared) == set(OPEN)
        _check_choices(lake)


def _check_choices(lake: Freshlake) -> None:
    rows: dict[Any, list[Any]] = {}
    for row in lake.spark.table("m").collect():
        rows.setdefault(row.g, []).append(row)
    for stored in lake.table("open").collect():
        group = rows.pop(stored.g)
        values = [r.i for r in group]
        counts = {v: values.count(v) for v in values if v is not None}
        assert {stored.first_i, stored.any_i} <= set(values)
        assert stored.last_i in values
        assert stored.tied in {r.i for r in group if r.h == max(x.h for x in group)}
        assert counts.get(stored.most, 0) == max(counts.values(), default=0)
        texts = sorted(r.s for r in group if r.s is not None)
        assert (sorted(stored.texts.split(",")) if stored.texts is not None else []) == texts
        assert stored.estimate == len(counts)
    assert not rows


def test_every_open_function_is_said_to_be_open_for_a_reason() -> None:
    assert {f.open for f in FUNCTIONS} == set(Open)


# Edges of exact arithmetic -------------------------------------------------------------------------------------------

TOP = 2**63 - 1
NINES = "9" * 38


@pytest.fixture(scope="module")
def edges(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    lake = freshlake.connect(tmp_path_factory.mktemp("edges"), settings=SETTINGS)
    lake.sql(
        "CREATE TABLE w (g INT, l BIGINT, wide DECIMAL(38,0), fine DECIMAL(38,38), p DECIMAL(28,10), d DOUBLE) "
        "USING delta"
    )
    lake.sql(
        f"INSERT INTO w VALUES (1, {TOP}, {NINES}, 0.{NINES}, 123456789012345678.0123456789, 1e16), "
        f"(1, -5, -{NINES}, -0.{NINES}, 999999999999999999.9999999999, 1), (2, 3, 4, 0.5, NULL, 0.1)"
    )
    yield lake
    lake.close()


def test_sums_are_exact_up_to_the_last_digit_and_beyond_it_an_error(edges: Freshlake) -> None:
    sums = "sum(l) AS l, sum(wide) AS w, sum(fine) AS f, sum(p) AS p, avg(p) AS ap, avg(l) AS al"
    query = f"SELECT g, {sums} FROM w GROUP BY g"
    edges.create_stream_table("sums", query, refresh_mode="DIFFERENTIAL")
    # of columns whose sum overflows in every order of their rows
    tried = "SELECT g, try_sum(l) AS l, try_avg(l) AS al FROM w GROUP BY g"
    edges.create_stream_table("tried", tried, refresh_mode="DIFFERENTIAL")

    def state(table: str = "sums") -> dict[int, Any]:
        return {row.g: row for row in edges.table(table).collect()}

    def expected(text: str = query) -> dict[int, Any]:
        return {row.g: row for row in edges.spark.sql(text).collect()}

    assert state() == expected()
    edges.sql(f"INSERT INTO w VALUES (1, 5, {NINES}, NULL, 0.0000000001, -1e16), (2, 1, 1, 0.{'4' * 38}, 1, 0.2)")
    assert str(edges.refresh("sums", mode="DIFFERENTIAL").action) == "DIFFERENTIAL"
    assert state() == expected()
    assert state()[1].l == TOP
    assert str(state()[1].w) == NINES

    before = edges.table("sums").collect()
    edges.sql("INSERT INTO w VALUES (1, 1, 0, 0, 0, 0)")
    for mode in (None, "DIFFERENTIAL", "FULL"):
        with pytest.raises(DataError) as caught:
            edges.refresh("sums", mode=mode)
        assert "overflow" in str(caught.value).lower()
        assert "at org.apache" not in str(caught.value)
    assert sorted(edges.table("sums").collect()) == sorted(before)
    edges.refresh("tried", mode="DIFFERENTIAL")
    assert state("tried") == expected(tried)
    assert state("tried")[1].l is None

    edges.sql("DELETE FROM w WHERE l = 1")
    assert str(edges.refresh("sums", mode="DIFFERENTIAL").action) == "DIFFERENTIAL"


def test_a_float_that_swallowed_others_gives_them_back(edges: Freshlake) -> None:
    """1e16 + 1 = 1e16: a sum that is only added to would never see the 1 again."""
    edges.sql("CREATE TABLE fl (k INT, d DOUBLE, f FLOAT) USING delta")
    edges.sql("INSERT INTO fl VALUES (1, 1e16, 1e8), (2, 1, 1), (3, double('NaN'), float('Infinity')), (4, -0D, -0F)")
    edges.create_stream_table(
        "swallowed", "SELECT sum(d) AS d, avg(f) AS f, max(d) AS hi FROM fl", refresh_mode="DIFFERENTIAL"
    )
    edges.sql("DELETE FROM fl WHERE k IN (1, 3)")
    edges.refresh("swallowed", mode="DIFFERENTIAL")
    (row,) = edges.table("swallowed").collect()
    assert (row.d, row.f, row.hi) == (1.0, 0.5, 1.0)


def test_without_ansi_a_sum_wraps_around_and_a_wide_decimal_is_null(edges: Freshlake) -> None:
    """Settings that change the meaning belong to the stream table."""
    edges.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        edges.sql("CREATE TABLE old (l BIGINT, wide DECIMAL(38,0)) USING delta")
        edges.sql(f"INSERT INTO old VALUES ({TOP}, {NINES})")
        query = "SELECT sum(l) AS l, sum(wide) AS w, avg(wide) AS a, count(*) AS n FROM old"
        edges.create_stream_table("wrapped", query, refresh_mode="DIFFERENTIAL")
        for change in (
            "INSERT INTO old VALUES (2, 1), (3, 3)",
            "DELETE FROM old WHERE l = 2",
            "DELETE FROM old WHERE l = 3",
        ):
            edges.sql(change)
            edges.refresh("wrapped")
            assert edges.table("wrapped").collect() == edges.spark.sql(query).collect(), change
    finally:
        edges.spark.conf.set("spark.sql.ansi.enabled", "true")
