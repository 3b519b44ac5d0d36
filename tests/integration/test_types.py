"""Every type as a value and as a key, equal to the query after every round; what Delta cannot store is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake.compiler import plan as p
from freshlake.errors import Unsupported
from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from freshlake.refresh.run import _schema_of
from tests.bags import assert_same_bag
from tests.integration.lakes import refused
from tests.integration.type_cases import KEYS, REFUSED, ROUNDS, SETUP, WIDE, alone
from tests.property.case import Round, Script
from tests.property.play import SETTINGS, Play

# All cases are played in one fixture, which is charged to the first of them.
pytestmark = pytest.mark.timeout(1800)


def script(queries: dict[str, str]) -> Script:
    rounds = tuple(Round(changes, reconnect=n == 2) for n, changes in enumerate(ROUNDS))
    return Script(SETUP, ("w", "o"), queries, rounds)


def played(queries: dict[str, str], folder: Path, rounds: int = len(ROUNDS)) -> Play:
    history = script(queries)
    play = Play(replace(history, rounds=history.rounds[:rounds]), folder, stop_early=False)
    play.run()
    return play


SAMPLE = {name: WIDE[name] for name in ("passing", "grouped", "left_joined")}


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    return played(SAMPLE, tmp_path_factory.mktemp("sample"), rounds=2)


@pytest.mark.parametrize("table", SAMPLE)
def test_all_types_in_the_main_operators(sample: Play, table: str) -> None:
    assert not [str(f) for f in sample.failures if f.query == table]


@pytest.fixture(scope="module")
def wide(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    return played(WIDE, tmp_path_factory.mktemp("wide"))


@pytest.mark.slow
@pytest.mark.parametrize("table", WIDE)
def test_all_types_together(wide: Play, table: str) -> None:
    assert not [str(f) for f in wide.failures if f.query == table]


@pytest.fixture(scope="module")
def narrow(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Play:
    queries = {name: query for key in KEYS for name, query in alone(key).items()}
    return played(queries, tmp_path_factory.mktemp("narrow"))


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_each_type_alone(narrow: Play, key: str) -> None:
    assert not [str(f) for f in narrow.failures if f.query in alone(key)]


# Types that exist while a query runs, and variants ------------------------------------------------------------------

LCASE = "s COLLATE UTF8_LCASE"
INSIDE = {
    "collated_group": f"SELECT upper(max(s)) AS m, count(*) AS n FROM t GROUP BY {LCASE}",
    "collated_filter": f"SELECT id, s FROM t WHERE {LCASE} = 'ab'",
    "collated_join": f"SELECT l.id, r.id AS other FROM t AS l JOIN t AS r ON l.{LCASE} = r.{LCASE}",
    "collated_left_join": f"SELECT l.id, r.id AS other FROM t AS l LEFT JOIN u AS r ON l.{LCASE} = r.{LCASE}",
    "collated_not_in": f"SELECT id FROM t WHERE {LCASE} NOT IN (SELECT {LCASE} FROM u WHERE s IS NOT NULL)",
    "collated_window": f"SELECT id, count(*) OVER (PARTITION BY {LCASE}) AS n FROM t",
    "collated_count": f"SELECT g, count(DISTINCT {LCASE}) AS n FROM t GROUP BY g",
    "collated_top": f"SELECT id, s FROM t ORDER BY {LCASE}, id LIMIT 3",
    "collated_distinct": f"SELECT count(*) AS n FROM (SELECT DISTINCT {LCASE} AS k FROM t)",
    "collated_except": f"SELECT count(*) AS n FROM (SELECT {LCASE} AS k FROM t EXCEPT ALL SELECT {LCASE} FROM u)",
    "collated_extremum": f"SELECT g, upper(max({LCASE})) COLLATE UTF8_BINARY AS hi, count(*) AS n FROM t GROUP BY g",
    "interval_group": "SELECT count(*) AS n, max(id) AS hi FROM t GROUP BY make_dt_interval(g)",
    "interval_sum": "SELECT string(sum(make_dt_interval(id))) AS total FROM t",
    "interval_window": "SELECT id, sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) "
    "AS near FROM t",
    "interval_join": "SELECT l.id, r.id AS other FROM t AS l JOIN u AS r ON r.ts - l.ts = INTERVAL '1' DAY",
    "interval_spread": "SELECT g, string(max(ts) - min(ts)) AS spread FROM t GROUP BY g",
    "map_group": "SELECT m, count(*) AS n FROM t GROUP BY m",
    "map_window": "SELECT id, m, row_number() OVER (PARTITION BY g ORDER BY id) AS rn FROM t",
    "map_top": "SELECT id, m FROM t ORDER BY id DESC LIMIT 2",
    "void_inside": "SELECT id, coalesce(nothing, s) AS s FROM (SELECT id, s, NULL AS nothing FROM t)",
}
VARIANTS = {
    "variant_rows": "SELECT id, v, av, sv FROM t",
    "variant_filter": "SELECT id, v FROM t WHERE v:a::int > 1 OR v IS NULL",
    "variant_key": "SELECT v:a::int AS a, count(*) AS n, max(id) AS hi FROM t GROUP BY v:a::int",
    "variant_picked": "SELECT g, max_by(v, id) AS v, count(v) AS n FROM t GROUP BY g",
    "variant_join": "SELECT l.id, l.v, r.v AS other FROM t AS l JOIN u AS r ON l.v:a::int = r.v:a::int",
    "variant_left_join": "SELECT l.id, l.v, r.v AS other FROM t AS l LEFT JOIN u AS r ON l.id = r.id",
    "variant_semi": "SELECT id, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
    "variant_window": "SELECT id, v, count(*) OVER (PARTITION BY g) AS n FROM t",
    "variant_top": "SELECT id, v, m FROM t ORDER BY id DESC LIMIT 3",
    "variant_union": "SELECT id, v FROM t UNION ALL SELECT id, v FROM u",
    "variant_exploded": "SELECT id, value FROM t, LATERAL variant_explode_outer(parse_json(concat('[', id, ']')))",
}
TYPED = (
    "CREATE TABLE {0} (id INT, g INT, s STRING, ts TIMESTAMP, m MAP<STRING, INT>, v VARIANT, av ARRAY<VARIANT>, "
    "sv STRUCT<x: VARIANT>) USING delta",
    "INSERT INTO {0} SELECT id, g, s, timestamp(ts), m, parse_json(v), array(parse_json(v), NULL), "
    "named_struct('x', parse_json(v)) FROM VALUES "
    "(1, 1, 'ab', '2024-01-01', map('a', 1, 'b', 2), '{{\"a\": 1}}'), (2, 1, 'AB', '2024-01-02', map('b', 2, 'a', 1), "
    "'{{\"a\": 2, \"b\": [1]}}'), (2, 1, 'AB', '2024-01-02', map('b', 2, 'a', 1), '{{\"a\": 2, \"b\": [1]}}'), "
    "(3, 2, NULL, NULL, NULL, NULL), (4, NULL, 'c', '2024-01-03', map(), 'null') AS x(id, g, s, ts, m, v)",
)
TYPED_CHANGES = (
    (
        "INSERT INTO t SELECT id + 10, g, lower(s), ts, m, v, av, sv FROM t WHERE id < 3",
        "DELETE FROM u WHERE id IN (2, 3)",
    ),
    (
        "UPDATE t SET s = 'aB', m = map('a', 1), v = parse_json('{\"a\": 1.0}'), g = 2 WHERE id IN (1, 4)",
        "UPDATE u SET s = 'C', v = parse_json('{\"a\": 2}'), ts = ts - INTERVAL '1' DAY WHERE id = 4",
    ),
    ("DELETE FROM t WHERE id > 2", "INSERT INTO u SELECT * FROM t"),
)


def lake_with_types(folder: Path) -> Freshlake:
    lake = freshlake.connect(folder, settings=SETTINGS)
    for table in ("t", "u"):
        for statement in TYPED:
            lake.sql(statement.format(table))
    return lake


def test_a_step_without_rows_has_columns_of_any_type(spark: SparkSession) -> None:
    kinds = ["struct<a:string collate UTF8_LCASE>", "array<string collate UTF8_LCASE>", "time(6)", "geometry(4326)"]
    plan = p.Values(tuple(p.Column(f"c{i}", kind) for i, kind in enumerate(kinds)), "")
    assert [f.dataType.simpleString() for f in _schema_of(plan)] == kinds


JSON = ("variant", "array<variant>", "struct<x:variant>")
FULL = {
    *("collated_group", "collated_window", "collated_distinct", "collated_except", "collated_extremum"),
    *("interval_group", "map_group"),
}
"""Queries that would have to store what Delta cannot, or to find rows by a map."""


def problems_of(queries: dict[str, str], folder: Path) -> dict[str, str]:
    """What went wrong with each query, after all rounds of changes."""
    problems: dict[str, str] = {}
    lake = lake_with_types(folder)
    for name, query in queries.items():
        with _noted(problems, name):
            lake.create_stream_table(name, query)
    for changes in TYPED_CHANGES:
        for statement in changes:
            lake.sql(statement)
        for name in queries.keys() - problems.keys():
            with _noted(problems, name):
                _check_action(name, lake.refresh(name))
                assert_same_bag(_shown(lake, f"SELECT * FROM {name}"), _shown(lake, queries[name]))
    lake.close()
    return problems


@contextmanager
def _noted(problems: dict[str, str], name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        problems[name] = f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def inside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return problems_of(VARIANTS | INSIDE, tmp_path_factory.mktemp("inside"))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS | INSIDE)
def test_types_inside_a_query(inside: dict[str, str], name: str) -> None:
    assert inside.get(name) is None


def _check_action(name: str, result: RefreshResult) -> None:
    if name in FULL and str(result.action) != "NO_DATA":
        assert (str(result.action), result.reason) == ("FULL", "not-differentiable")
    else:
        assert str(result.action) in ("DIFFERENTIAL", "NO_DATA"), result


def _shown(lake: Freshlake, query: str) -> DataFrame:
    """Variants as text."""
    frame = lake.sql(query)
    return frame.selectExpr(*(f"to_json({c}) AS {c}" if kind in JSON else c for c, kind in frame.dtypes))


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    lake = lake_with_types(tmp_path_factory.mktemp("typed"))
    yield lake
    lake.close()


@pytest.mark.parametrize("expression", REFUSED)
def test_a_result_that_delta_cannot_store_is_refused_by_column_and_type(typed: Freshlake, expression: str) -> None:
    query = f"SELECT id, {expression} AS odd FROM t"
    for call in (typed.validate, lambda q: typed.create_stream_table("odd_type", q)):
        with refused(typed, Unsupported, "column odd", REFUSED[expression]):
            call(query)
