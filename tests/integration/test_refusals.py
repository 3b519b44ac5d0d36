"""Every refusal, provoked once through validate and once through create: the same error, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.compiler.refusals import (
    FILE_COLUMN,
    GROUPING_BRANCHES,
    NESTED_VIEWS,
    RANDOM_VECTOR,
    REFUSALS,
    RESULT_TYPE,
    RUNS_FULL,
    SESSION_ROWS,
    SESSION_VALUE,
    TABLESAMPLE,
    TEMPORARY,
    TIME_IN_RESULT,
    VIEW_DEPTH,
    Refusal,
    WithoutRule,
)
from freshlake.lake import Freshlake
from tests.integration import shop_definitions
from tests.integration.lakes import ANY_SHARE, orders, refused


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        lake.sql("CREATE TABLE parquet_orders USING parquet AS SELECT id FROM orders")
        yield lake


def check(fl: Freshlake, refusal: Refusal, query: object, position: tuple[int, int] | None) -> None:
    for call in (
        lambda: fl.validate(query),  # type: ignore[arg-type]
        lambda: fl.create_stream_table("broken", query),  # type: ignore[arg-type]
    ):
        with refused(fl, refusal.error, code=refusal.error.code) as caught:
            call()
        error = caught.value
        assert (error.construct, error.detail, error.hint) == (refusal.construct, refusal.reason, refusal.rewrite)
        assert error.position == position


@pytest.mark.parametrize("refusal", [r for r in REFUSALS if r.example], ids=lambda r: r.construct)
def test_a_refusal_says_what_where_why_and_what_instead(fl: Freshlake, refusal: Refusal) -> None:
    assert refusal.example is not None
    # on the second line, and not at its beginning
    query = f"-- first\n  {refusal.example}"
    column = refusal.example.index(refusal.word or "SELECT") + 3
    check(fl, refusal, query, (2, column))


def test_views(spark: SparkSession, lake_dir: Path) -> None:
    """What stands in a view is placed at the view's name."""
    with freshlake.connect(lake_dir) as fl:
        orders(fl)
        fl.sql("CREATE VIEW sampled AS SELECT id FROM orders TABLESAMPLE (50 PERCENT)")
        check(fl, TABLESAMPLE, "SELECT id FROM sampled", (1, 16))
        fl.sql("CREATE VIEW level1 AS SELECT id FROM orders")
        for level in range(2, VIEW_DEPTH + 2):
            fl.sql(f"CREATE VIEW level{level} AS SELECT id FROM level{level - 1}")
        check(fl, NESTED_VIEWS, f"SELECT id FROM level{VIEW_DEPTH + 1}", (1, 16))
        assert fl.validate(f"SELECT id FROM level{VIEW_DEPTH}").differential


@pytest.mark.parametrize(
    "rest", ["'ECB', 'PKCS'", "'CBC', 'DEFAULT', unhex('00000000000000000000000000000000')"], ids=["ECB", "a vector"]
)
def test_an_encryption_that_repeats_itself_is_accepted(fl: Freshlake, rest: str) -> None:
    assert fl.validate(f"SELECT id, aes_encrypt(region, '0000111122223333', {rest}) AS e FROM orders").differential


@pytest.mark.parametrize("rest", ["'CBC'", "'CBC', 'DEFAULT', unhex(region)", "region"])
def test_an_encryption_that_may_draw_its_vector_is_refused(fl: Freshlake, rest: str) -> None:
    with refused(fl, e.NonDeterministic, RANDOM_VECTOR.construct):
        fl.create_stream_table(
            "broken", f"SELECT hex(aes_encrypt(region, '0000111122223333', {rest})) AS e FROM orders"
        )


def test_what_depends_on_the_version_of_spark_is_refused(fl: Freshlake) -> None:
    with refused(fl, e.UnsupportedQuery, "version()", SESSION_VALUE.rewrite) as caught:
        fl.create_stream_table("broken", "SELECT id FROM orders WHERE region > version()")
    assert caught.value.construct == SESSION_VALUE.construct


@pytest.mark.parametrize("where", ["WHERE _metadata.file_size > 0", "WHERE id > 0 AND _metadata.file_name <> ''"])
def test_where_a_row_is_stored_is_refused_wherever_it_is_read(fl: Freshlake, where: str) -> None:
    for call in (fl.validate, lambda q: fl.create_stream_table("broken", q)):
        with refused(fl, e.UnsupportedQuery) as caught:
            call(f"SELECT id FROM orders {where}")
        assert caught.value.construct == FILE_COLUMN.construct


def test_a_global_temporary_view_is_refused_by_name(fl: Freshlake) -> None:
    fl.sql("CREATE GLOBAL TEMPORARY VIEW passing AS SELECT id FROM orders")
    for query in (
        "SELECT id FROM global_temp.passing",
        "SELECT id FROM orders WHERE id IN (TABLE global_temp.passing)",
    ):
        for call in (fl.validate, lambda q: fl.create_stream_table("broken", q)):
            with refused(fl, e.UnsupportedQuery, "view global_temp.passing") as caught:
                call(query)
            error = caught.value
            assert (error.construct, error.detail, error.hint) == (
                TEMPORARY.construct,
                TEMPORARY.reason,
                TEMPORARY.rewrite,
            )
            assert error.position == (1, query.index("global_temp") + 1)
    fl.spark.catalog.dropGlobalTempView("passing")


def test_a_type_that_delta_lacks_is_refused_by_validate_as_by_create(fl: Freshlake) -> None:
    told = []
    for call in (fl.validate, lambda q: fl.create_stream_table("broken", q)):
        with refused(fl, e.Unsupported, "column span has the type interval day to second") as caught:
            call("SELECT id, make_dt_interval(amount) AS span FROM orders")
        told.append(caught.value.to_dict())
        assert (caught.value.construct, caught.value.detail) == (RESULT_TYPE.construct, RESULT_TYPE.reason)
    assert told[0] == told[1]


def test_rows_of_the_session(fl: Freshlake) -> None:
    check(fl, SESSION_ROWS, shop_definitions.rows_of_the_session, None)


def test_a_position_in_sparks_text_is_not_shown_for_another_dialect(fl: Freshlake) -> None:
    with refused(fl, e.UnsupportedLimit) as caught:
        fl.validate("SELECT id FROM orders LIMIT 3", dialect="postgres")
    assert (caught.value.construct, caught.value.position) == ("LIMIT or OFFSET without ORDER BY", None)


@pytest.mark.parametrize("case", [w for w in RUNS_FULL if w.example], ids=lambda c: c.construct)
def test_a_construct_without_a_rule_runs_full_and_is_refused_under_differential(
    fl: Freshlake, case: WithoutRule
) -> None:
    assert case.example is not None
    answer = fl.validate(f"-- first\n  {case.example}")
    assert not answer.differential
    (reason,) = answer.reasons
    assert (reason.code, reason.construct, reason.hint) == ("not-differentiable", case.construct, case.rewrite)
    assert reason.position == ((2, case.example.index(case.word or "SELECT") + 3) if case.placed else None)
    (explained,) = fl.explain(case.example).reasons
    assert (explained["construct"], explained["hint"]) == (case.construct, case.rewrite)
    assert (explained["position"] is not None) == case.placed
    with refused(fl, e.NotDifferentiable, reason.message) as caught:
        fl.create_stream_table("broken", case.example, refresh_mode="DIFFERENTIAL")
    assert caught.value.construct == case.construct
    assert (caught.value.position is not None) == case.placed


def test_a_table_that_will_always_be_computed_in_full_is_created_with_a_warning(
    fl: Freshlake, caplog: pytest.LogCaptureFixture
) -> None:
    query = "SELECT id, current_date() AS today FROM orders"
    fl.create_stream_table("dated", query)
    assert "every refresh of dated will be FULL" in caplog.text
    assert TIME_IN_RESULT.rewrite in caplog.text
    kept = fl._engine.catalog.get("default.dated").reasons[0]
    assert (kept["construct"], kept["position"]) == (TIME_IN_RESULT.construct, {"line": 1, "column": 12})
    caplog.clear()
    fl.alter_stream_table("dated", query=query.replace("today", "day"), refresh_mode="FULL")
    assert "will be FULL" not in caplog.text
    fl.drop_stream_table("dated")


def test_many_columns_may_be_unpivoted(fl: Freshlake) -> None:
    """The limit is for grouping sets, not for what Spark computes in the same way."""
    names = [f"c{i}" for i in range(GROUPING_BRANCHES + 1)]
    wide = ", ".join(f"id AS {name}" for name in names)
    query = f"SELECT * FROM (SELECT {wide} FROM orders) UNPIVOT (v FOR name IN ({', '.join(names)}))"
    assert fl.validate(query).differential


def test_what_is_supported_is_not_refused(fl: Freshlake) -> None:
    for query in (
        "SELECT * FROM (SELECT region, amount FROM orders) PIVOT (sum(amount) FOR region IN ('north', 'south'))",
        "SELECT id FROM orders WHERE current_date() > DATE '2000-01-01'",
        "SELECT region, count(*) AS n FROM orders GROUP BY CUBE (region, id)",
        "SELECT session_window.start AS s, count(*) AS n FROM orders"
        " GROUP BY session_window(timestamp_seconds(id), '2 seconds')",
    ):
        answer = fl.validate(query)
        assert answer.differential, (query, answer.reasons)
