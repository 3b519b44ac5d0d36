"""Two queries have one fingerprint only if they mean the same; a change of any part of a query rebuilds its table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import freshlake
from freshlake.compiler.bridge import Bridge
from freshlake.compiler.compile import CompiledQuery, compile_query
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, rows

OVER = "(SELECT id, cast(id AS STRING) AS s FROM range(3))"
LONG = [f"id + {i}" for i in range(30)]

DIFFERENT = {
    "rows of VALUES": ("SELECT * FROM VALUES (1, 'a') AS v(k, x)", "SELECT * FROM VALUES (1, 'b') AS v(k, x)"),
    "a literal with a number sign": (
        f"SELECT id FROM {OVER} WHERE s = '#112'",
        f"SELECT id FROM {OVER} WHERE s = '#4'",
    ),
    "the last of many arguments": (
        f"SELECT coalesce({', '.join(LONG)}) AS x FROM {OVER}",
        f"SELECT coalesce({', '.join([*LONG[:-1], 'id'])}) AS x FROM {OVER}",
    ),
    "what happens on an error": (
        f"SELECT id / (id - 1) AS x FROM {OVER}",
        f"SELECT try_divide(id, id - 1) AS x FROM {OVER}",
    ),
    "where a text ends": (
        f"SELECT concat('a, b', s) AS x FROM {OVER}",
        f"SELECT concat('a', 'b', s) AS x FROM {OVER}",
    ),
    "the type of a literal": (
        f"SELECT typeof(struct(id, '1')) = s AS x FROM {OVER}",
        f"SELECT typeof(struct(id, 1)) = s AS x FROM {OVER}",
    ),
    "options of a function": (
        f"SELECT from_json(s, 'a INT', map('mode', 'FAILFAST')) AS x FROM {OVER}",
        f"SELECT from_json(s, 'a INT', map('mode', 'PERMISSIVE')) AS x FROM {OVER}",
    ),
    "a collation": (
        f"SELECT cast(s AS STRING COLLATE UTF8_LCASE) = 'a' AS x FROM {OVER}",
        f"SELECT cast(s AS STRING COLLATE UNICODE) = 'a' AS x FROM {OVER}",
    ),
    "bytes": (f"SELECT concat(hex(X'12'), s) AS x FROM {OVER}", f"SELECT concat(hex(X'13'), s) AS x FROM {OVER}"),
    "an argument of an aggregate": (
        f"SELECT percentile_approx(id, 0.5) AS x FROM {OVER}",
        f"SELECT percentile_approx(id, 0.6) AS x FROM {OVER}",
    ),
    "a frame": (
        f"SELECT sum(id) OVER (ORDER BY s ROWS 1 PRECEDING) AS x FROM {OVER}",
        f"SELECT sum(id) OVER (ORDER BY s ROWS 2 PRECEDING) AS x FROM {OVER}",
    ),
}


def lambdas(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(F.transform(F.array("id"), lambda x: x + 1).alias("a"))


def compiled(spark: SparkSession, query: str | DataFrame) -> CompiledQuery:
    return compile_query(spark.sql(query) if isinstance(query, str) else query, Bridge(spark), str)


@pytest.mark.parametrize("part", DIFFERENT)
def test_it_tells_queries_apart_by(spark: SparkSession, part: str) -> None:
    one, other = DIFFERENT[part]
    assert compiled(spark, one).fingerprint == compiled(spark, one).fingerprint != compiled(spark, other).fingerprint


def lambdas_in_a_case(spark: SparkSession) -> DataFrame:
    positive = F.exists(F.array("id"), lambda x: x > 1)
    first = F.transform(F.array("id"), lambda x: x + 1)[0]
    return spark.range(3).select(F.when(positive, 1).otherwise(first).alias("a"))


MADE_UP: dict[str, str | Callable[[SparkSession], DataFrame]] = {
    "names of lambdas": lambdas,
    "names of lambdas inside a condition": lambdas_in_a_case,
    "names of what is computed once": f"SELECT CASE WHEN length(s) + id BETWEEN 1 AND 2 THEN 1 END AS x FROM {OVER}",
    "such names in a filter": f"SELECT count(*) FILTER (WHERE nullif(id + length(s), 0) > 1) AS n FROM {OVER}",
    "where bytes are in memory": f"SELECT CASE WHEN cast(s AS BINARY) = X'1A' THEN id END AS x FROM {OVER}",
    "how many cores there are": lambda spark: spark.range(0, 9, 1, next(CORES)).toDF("id"),
}
CORES = itertools.count(1)


@pytest.mark.parametrize("made_up", MADE_UP)
def test_what_spark_makes_up_is_no_part_of_it(spark: SparkSession, made_up: str) -> None:
    query = MADE_UP[made_up]
    one, other = (compiled(spark, query if isinstance(query, str) else query(spark)) for _ in range(2))
    assert one.fingerprint == other.fingerprint


def test_a_condition_is_part_of_it(spark: SparkSession) -> None:
    one, other = (f"SELECT CASE WHEN id BETWEEN 1 AND {n} THEN 1 ELSE id END AS x FROM {OVER}" for n in (2, 3))
    assert compiled(spark, one).fingerprint != compiled(spark, other).fingerprint


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        yield lake


def named(words: str) -> str:
    return f"SELECT o.id, m.name FROM orders AS o JOIN VALUES {words} AS m(k, name) ON o.id = m.k"


def test_a_definition_replaced_by_one_with_other_constants_is_computed_anew(fl: Freshlake) -> None:
    fl.create_stream_table("t", named("(1, 'a'), (2, 'b')"))
    fl.create_or_replace_stream_table("t", named("(1, 'a'), (2, 'c')"))
    assert rows(fl, "t") == rows(fl, named("(1, 'a'), (2, 'c')"))
    fl.drop_stream_table("t")


def record(fl: Freshlake, name: str) -> Any:
    return fl._engine.catalog.get(f"default.{name}")


def loaded_by_an_earlier_version(fl: Freshlake, name: str) -> None:
    table = record(fl, name)
    fl._engine.catalog.update(table.id, fingerprint=fl._engine.compiled(table).former)


def test_a_table_that_an_earlier_version_loaded_is_not_rebuilt(fl: Freshlake) -> None:
    query = "SELECT region, count(*) AS n FROM orders GROUP BY region"
    fl.create_stream_table("t", query)
    now = record(fl, "t").fingerprint
    loaded_by_an_earlier_version(fl, "t")
    assert record(fl, "t").fingerprint != now
    fl.create_or_replace_stream_table("t", query)
    fl.sql("INSERT INTO orders VALUES (7, 'west', 1)")
    assert str(fl.refresh("t").action) == "DIFFERENTIAL"
    assert record(fl, "t").fingerprint == now
    fl.drop_stream_table("t")


def test_another_text_over_a_table_of_an_earlier_version_is_computed_anew(fl: Freshlake) -> None:
    fl.create_stream_table("t", named("(1, 'a')"))
    loaded_by_an_earlier_version(fl, "t")
    fl.create_or_replace_stream_table("t", named("(1, 'b')"))
    assert rows(fl, "t") == rows(fl, named("(1, 'b')"))
    fl.drop_stream_table("t")


def test_a_view_that_changed_since_an_earlier_version_rebuilds_its_readers(fl: Freshlake) -> None:
    fl.sql("CREATE VIEW v AS SELECT id FROM orders WHERE region <> '#1'")
    fl.create_stream_table("t", "SELECT id FROM v")
    loaded_by_an_earlier_version(fl, "t")
    fl.sql("CREATE OR REPLACE VIEW v AS SELECT id FROM orders WHERE region <> '#2'")
    assert str(fl.refresh("t").action) == "REINITIALIZE"
    fl.drop_stream_table("t")
    fl.sql("DROP VIEW v")
