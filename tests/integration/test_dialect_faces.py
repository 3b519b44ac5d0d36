"""dialect="postgres" through every face: what is stored, what is shown, and that refreshes go on as for Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, refused, rows

HALVES = 'SELECT Region, sum(amount) / 2 AS "Half", count(*) FROM orders GROUP BY region'


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        yield lake


def test_the_spark_text_is_run_and_shown_and_the_original_is_kept(fl: Freshlake) -> None:
    table = fl.create_stream_table("halves", HALVES, dialect="postgres")
    assert (table.original_query, table.dialect) == (HALVES, "postgres")
    assert "div(sum(amount), 2) AS Half" in table.defining_query
    assert rows(fl, "halves") == rows(fl, "SELECT region, sum(amount) DIV 2, count(*) FROM orders GROUP BY region")
    assert fl.table("halves").columns == ["region", "Half", "count"]
    (status,) = (s for s in fl.status() if s.name == "halves")
    assert (status.query, status.dialect) == (table.defining_query, "postgres")
    explained = fl.explain("halves")
    assert explained.query == table.defining_query
    assert (explained.facts["dialect"], explained.facts["written as"]) == ("postgres", HALVES)

    fl.sql("INSERT INTO orders VALUES (9, 'north', 6)")
    assert str(fl.refresh("halves").action) == "DIFFERENTIAL"
    assert fl.verify("halves").equal

    # the same meaning again changes nothing, in whichever dialect it is written
    assert fl.create_or_replace_stream_table("halves", HALVES, dialect="postgres").generation == table.generation
    assert fl.create_or_replace_stream_table("halves", table.defining_query).generation == table.generation

    altered = fl.alter_stream_table("halves", query="SELECT id / 2 AS half FROM orders", dialect="postgres")
    assert altered.dialect == "postgres"
    plain = fl.alter_stream_table("halves", query="SELECT id / 2 AS half FROM orders")
    assert (plain.dialect, plain.original_query) == ("spark", plain.defining_query)
    fl.drop_stream_table("halves")


def test_a_stream_table_is_read_with_its_types(fl: Freshlake) -> None:
    fl.create_stream_table("totals", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
    fl.create_stream_table("over", "SELECT region, total / 4 AS quarter FROM totals", dialect="postgres")
    assert rows(fl, "over") == rows(fl, "SELECT region, total DIV 4 FROM totals")
    fl.drop_stream_table("totals", cascade=True)


def test_statements_say_the_dialect(fl: Freshlake) -> None:
    fl.sql(
        "CREATE STREAM TABLE IF NOT EXISTS said DIALECT POSTGRES SCHEDULE '5m' AS"
        " SELECT id, 'back\\' || coalesce(region, '$;') AS r FROM orders;"
    )
    assert fl.sql("SELECT r FROM said WHERE id = 1").first() == ("back\\north",)
    fl.sql(
        "ALTER STREAM TABLE said SET QUERY DIALECT postgresql AS SELECT DISTINCT ON (region) region, id FROM orders"
        " ORDER BY region, id DESC"
    )
    assert rows(fl, "said") == rows(fl, "SELECT region, max(id) FROM orders GROUP BY region")
    fl.sql("CREATE OR REPLACE STREAM TABLE said DIALECT spark AS SELECT id / 2 AS half FROM orders")
    assert fl.table("said").dtypes == [("half", "double")]
    fl.drop_stream_table("said")


def test_validate_shows_the_translation_and_creates_nothing(fl: Freshlake) -> None:
    before = [s.name for s in fl.status()]
    answer = fl.validate("SELECT id::text AS id FROM orders WHERE amount > 1", dialect="postgres")
    assert answer.differential
    assert "CAST(id AS STRING) AS id" in answer.query
    assert answer.columns == (("id", "string"),)
    assert [s.name for s in fl.status()] == before


def test_what_is_refused_leaves_nothing_behind(fl: Freshlake) -> None:
    for query, kind, position in (
        ("SELECT id,\n initcap(region) FROM orders", e.UnsupportedTranslation, (2, 2)),
        ("SELECT id FROM orders FOR UPDATE", e.UnsupportedRowLock, (1, 23)),
        ("SELECT * FROM nowhere", e.TableNotFound, None),
        ("SELECT nothing FROM orders", e.InvalidQuery, None),
        ("SELECT id FROM orders WHERE", e.InvalidQuery, (1, 23)),
    ):
        for call in (fl.validate, lambda q, dialect: fl.create_stream_table("broken", q, dialect=dialect)):
            with refused(fl, kind) as caught:
                call(query, dialect="postgres")
            assert caught.value.position == position


def test_arguments_that_do_not_fit(fl: Freshlake) -> None:
    with refused(fl, e.InvalidArgument, "oracle", "postgres"):
        fl.create_stream_table("broken", "SELECT 1 AS a", dialect="oracle")
    with refused(fl, e.InvalidArgument, "function"):
        fl.validate("tests.integration.shop_definitions:large", dialect="postgres")
    fl.create_stream_table("plain", "SELECT id FROM orders")
    with refused(fl, e.InvalidArgument, "query"):
        fl.alter_stream_table("plain", dialect="postgres")
    fl.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with refused(fl, e.InvalidArgument, "spark.sql.ansi.enabled"):
            fl.create_stream_table("broken", "SELECT id FROM orders", dialect="postgres")
    finally:
        fl.spark.conf.set("spark.sql.ansi.enabled", "true")
    fl.drop_stream_table("plain")
