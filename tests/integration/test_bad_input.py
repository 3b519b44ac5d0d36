"""A definition that cannot be: its own error code, a hint, and nothing made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, NO_RULE, orders, refused, rows

PER_REGION = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        lake.sql("CREATE VIEW big_orders AS SELECT * FROM orders WHERE amount > 5")
        lake.create_stream_table("revenue", PER_REGION)
        lake.create_stream_table("large", "SELECT region, total FROM revenue WHERE total > 1")
        yield lake


def test_a_syntax_error_is_shown_with_its_position(fl: Freshlake) -> None:
    with refused(fl, e.InvalidQuery, "PARSE_SYNTAX_ERROR", "line 1, pos"):
        fl.create_stream_table("broken", "SELECT region FROM orders GROUP region")


def test_a_syntax_error_in_a_statement_is_shown_with_its_position(fl: Freshlake) -> None:
    with refused(fl, e.InvalidStatement, "line 1"):
        fl.sql("CREATE STREAM TABLE broken SCHEDULE 5 AS SELECT 1")


def test_a_name_error_is_shown_with_its_position(fl: Freshlake) -> None:
    with refused(fl, e.InvalidQuery, "no_such_column", "line 1 pos 7"):
        fl.create_stream_table("broken", "SELECT no_such_column FROM orders")


def test_a_type_error_is_sparks_own(fl: Freshlake) -> None:
    with refused(fl, e.InvalidQuery, "DATATYPE_MISMATCH"):
        fl.create_stream_table("broken", "SELECT amount + array(1) AS x FROM orders")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM orders",
        "INSERT INTO orders SELECT * FROM orders",
        "WITH o AS (SELECT * FROM orders) INSERT INTO orders SELECT * FROM o",
        "FROM orders INSERT INTO orders SELECT *",
        "UPDATE orders SET amount = 0",
        "MERGE INTO orders USING orders AS o ON orders.id = o.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE orders",
        "DROP TABLE orders",
        "CREATE TABLE broken_too USING delta AS SELECT 1 AS a",
        "SET spark.sql.ansi.enabled = false",
        "VACUUM orders",
        "SHOW TABLES",
    ],
)
def test_a_statement_that_is_no_query_is_not_run(fl: Freshlake, statement: str) -> None:
    before = rows(fl, "orders")
    for call in (
        lambda: fl.create_stream_table("broken", statement),
        lambda: fl.validate(statement),
        lambda: fl.explain(statement),
    ):
        with refused(fl, e.InvalidQuery, "query"):
            call()
    assert rows(fl, "orders") == before


def test_an_empty_query_is_refused(fl: Freshlake) -> None:
    with pytest.raises(e.InvalidArgument):
        fl.create_stream_table("broken", "  ;")


@pytest.mark.parametrize("query", ["SELECT * FROM nothing_here", "SELECT * FROM no_schema.nothing_here"])
def test_an_unknown_table_is_named(fl: Freshlake, query: str) -> None:
    with refused(fl, e.TableNotFound, "nothing_here"):
        fl.create_stream_table("broken", query)


@pytest.mark.parametrize("name", ["revenue", "REVENUE", "default.revenue", "orders", "big_orders"])
def test_a_name_is_taken_by_a_stream_table_a_table_or_a_view(fl: Freshlake, name: str) -> None:
    with refused(fl, e.AlreadyExists, name.lower().removeprefix("default.")):
        fl.create_stream_table(name, PER_REGION)


@pytest.mark.parametrize("name", ["a.b.c.d", "", "1st", "has space", "__fl_mine", "a..b"])
def test_a_name_that_is_none(fl: Freshlake, name: str) -> None:
    with refused(fl, e.InvalidName):
        fl.create_stream_table(name, PER_REGION)


def test_a_schema_that_does_not_exist(fl: Freshlake) -> None:
    with refused(fl, e.FreshlakeError, "nowhere", code="table-not-found"):
        fl.create_stream_table("nowhere.revenue", PER_REGION)


@pytest.mark.parametrize("schedule", ["soon", "5x", "-5m", "* * *", "61 * * * *", ""])
def test_a_schedule_that_is_none(fl: Freshlake, schedule: str) -> None:
    with refused(fl, e.InvalidSchedule):
        fl.create_stream_table("broken", PER_REGION, schedule=schedule)
    with refused(fl, e.InvalidSchedule):
        fl.alter_stream_table("revenue", schedule=schedule)


def test_a_schedule_below_the_floor_names_the_floor(fl: Freshlake) -> None:
    with refused(fl, e.ScheduleTooShort, "60", "min_schedule_seconds"):
        fl.create_stream_table("broken", PER_REGION, schedule="10s")
    with refused(fl, e.ScheduleTooShort, "60"):
        fl.alter_stream_table("revenue", schedule="10s")


def test_a_mode_that_is_none(fl: Freshlake) -> None:
    with refused(fl, e.InvalidArgument, "SOMETIMES"):
        fl.create_stream_table("broken", PER_REGION, refresh_mode="SOMETIMES")


def test_a_table_cannot_come_to_read_itself(fl: Freshlake) -> None:
    with refused(fl, e.CycleDetected, "revenue", "large"):
        fl.alter_stream_table("revenue", query="SELECT region, 1L AS n, total FROM large")
    with refused(fl, e.CycleDetected, "revenue"):
        fl.alter_stream_table("revenue", query="SELECT region, n, total FROM revenue")


def test_a_table_cannot_come_to_read_itself_through_a_view(fl: Freshlake) -> None:
    fl.sql("CREATE VIEW back AS SELECT region, 1L AS n, total FROM large")
    try:
        with refused(fl, e.CycleDetected, "revenue"):
            fl.alter_stream_table("revenue", query="SELECT * FROM back")
    finally:
        fl.sql("DROP VIEW back")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT id, rand() AS r FROM orders", "rand"),
        ("SELECT id, uuid() AS u FROM orders", "uuid"),
        ("SELECT id FROM orders WHERE rand() < 0.5", "rand"),
        ("SELECT id, monotonically_increasing_id() AS m FROM orders", "monotonically_increasing_id"),
        ("SELECT region, sum(s) AS s FROM (SELECT region, randn() AS s FROM orders) GROUP BY region", "randn"),
    ],
)
def test_a_query_that_gives_other_rows_each_time(fl: Freshlake, query: str, word: str) -> None:
    with refused(fl, e.NonDeterministic, word):
        fl.create_stream_table("broken", query)


@pytest.mark.parametrize("function", ["current_timestamp()", "now()", "current_date()", "localtimestamp()"])
def test_a_query_that_shows_the_time_has_no_differential_refresh(fl: Freshlake, function: str) -> None:
    with refused(fl, e.NotDifferentiable, function):
        fl.create_stream_table("broken", f"SELECT id, {function} AS at FROM orders", refresh_mode="DIFFERENTIAL")


def test_a_query_that_reads_the_user(fl: Freshlake) -> None:
    with refused(fl, e.UserError, code="unsupported-query"):
        fl.create_stream_table("broken", "SELECT id, current_user() AS who FROM orders")


def test_a_sample_has_its_own_code_and_a_rewrite(fl: Freshlake) -> None:
    with refused(fl, e.UnsupportedTablesample, "TABLESAMPLE", "rand()"):
        fl.create_stream_table("broken", "SELECT * FROM orders TABLESAMPLE (50 PERCENT)")


def test_a_script_is_refused(fl: Freshlake) -> None:
    with refused(fl, e.UnsupportedQuery, "TRANSFORM"):
        fl.create_stream_table("broken", "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM orders")


def test_java_called_by_reflection_is_refused(fl: Freshlake) -> None:
    with refused(fl, e.UserError):
        fl.create_stream_table("broken", "SELECT reflect('java.util.UUID', 'randomUUID') AS x FROM orders")


def test_two_columns_of_one_name(fl: Freshlake) -> None:
    with refused(fl, e.InvalidQuery, "REGION", "AS"):
        fl.create_stream_table("broken", "SELECT region, id AS REGION FROM orders")
    with refused(fl, e.InvalidQuery, "__fl_"):
        fl.create_stream_table("broken", "SELECT id AS __fl_weight FROM orders")


def test_a_fixed_version_of_a_source(fl: Freshlake) -> None:
    with refused(fl, e.TimeTravelUnsupported, "orders", "VERSION"):
        fl.create_stream_table("broken", "SELECT * FROM orders VERSION AS OF 1")


def test_a_source_that_is_not_delta(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE flat USING parquet AS SELECT 1 AS id")
    with refused(fl, e.SourceNotDelta, "flat", "delta"):
        fl.create_stream_table("broken", "SELECT * FROM flat")


def test_a_source_that_exists_only_in_this_session(fl: Freshlake) -> None:
    fl.spark.createDataFrame([(1,)], "id INT").createOrReplaceTempView("passing")
    try:
        with refused(fl, e.FreshlakeError, "passing"):
            fl.create_stream_table("broken", "SELECT * FROM passing")
    finally:
        fl.spark.catalog.dropTempView("passing")


@pytest.mark.usefixtures("windows_without_rule")
def test_a_strict_differential_table_names_the_operator_without_a_rule(fl: Freshlake) -> None:
    with refused(fl, e.NotDifferentiable, "recursive query", "AUTO"):
        fl.create_stream_table("broken", NO_RULE, refresh_mode="DIFFERENTIAL")
    assert fl.validate(NO_RULE).reasons[0].code == "not-differentiable"


@pytest.mark.usefixtures("windows_without_rule")
def test_an_alteration_to_differential_is_checked_first(fl: Freshlake) -> None:
    fl.create_stream_table("pairs", NO_RULE)
    try:
        with refused(fl, e.NotDifferentiable, "recursive query"):
            fl.alter_stream_table("pairs", refresh_mode="DIFFERENTIAL")
    finally:
        fl.drop_stream_table("pairs")


def test_a_function_that_no_other_process_can_import(fl: Freshlake) -> None:
    def local(spark: SparkSession) -> DataFrame:
        return spark.table("orders")

    for query in (
        local,
        lambda spark: spark.table("orders"),
        "no_such_module:build",
        "tests.integration.lakes:nothing",
    ):
        with refused(fl, e.DefinitionNotImportable):
            fl.create_stream_table("broken", query)


def test_a_function_that_returns_no_dataframe(fl: Freshlake) -> None:
    with refused(fl, e.InvalidArgument, "DataFrame"):
        fl.create_stream_table("broken", "tests.integration.test_bad_input:returns_nothing")


def returns_nothing(spark: SparkSession) -> DataFrame:
    return None  # type: ignore[return-value]


def test_a_dataframe_is_no_definition(fl: Freshlake) -> None:
    with refused(fl, e.InvalidArgument, "function"):
        fl.create_stream_table("broken", fl.table("orders"))  # type: ignore[arg-type]


def test_a_partition_column_that_the_query_lacks(fl: Freshlake) -> None:
    with refused(fl, e.InvalidArgument, "elsewhere"):
        fl.create_stream_table("broken", PER_REGION, partition_by=["elsewhere"])


def test_data_that_the_query_cannot_take_leaves_no_table(fl: Freshlake) -> None:
    with refused(fl, e.DataError, "DIVIDE_BY_ZERO"):
        fl.create_stream_table("broken", "SELECT id, 1 / (amount - 1) AS x FROM orders")


def test_data_that_an_altered_query_cannot_take_leaves_the_old_one(fl: Freshlake) -> None:
    with refused(fl, e.DataError, "CAST_INVALID_INPUT"):
        fl.alter_stream_table("large", query="SELECT region, cast(region AS INT) AS total FROM revenue")
    assert next(s for s in fl.status() if s.name.endswith("large")).consecutive_errors == 0


def test_a_refused_alteration_keeps_the_old_query(fl: Freshlake) -> None:
    for query in ("SELEC", "SELECT nothing FROM orders", "SELECT rand() AS r FROM orders"):
        with refused(fl, e.UserError):
            fl.alter_stream_table("large", query=query)
    with refused(fl, e.InvalidArgument):
        fl.alter_stream_table("large", status="SLEEPY")
    with refused(fl, e.InvalidArgument):
        fl.alter_stream_table("large", fold_policy="never")


def test_a_failed_replacement_keeps_what_was_there(fl: Freshlake) -> None:
    with refused(fl, e.InvalidQuery):
        fl.create_or_replace_stream_table("large", "SELECT nothing FROM revenue")


def test_a_table_that_others_read_is_not_dropped(fl: Freshlake) -> None:
    with refused(fl, e.StreamTableInUse, "large"):
        fl.drop_stream_table("revenue")
    with refused(fl, e.StreamTableInUse, "large"):
        fl.sql("DROP STREAM TABLE revenue")


def test_unknown_names_everywhere(fl: Freshlake) -> None:
    for call in (
        lambda: fl.refresh("nothing_here"),
        lambda: fl.drop_stream_table("nothing_here"),
        lambda: fl.alter_stream_table("nothing_here", schedule="5m"),
        lambda: fl.resume("nothing_here"),
        lambda: fl.verify("nothing_here"),
        lambda: fl.fold("nothing_here"),
        lambda: fl.vacuum("nothing_here"),
        lambda: fl.history("nothing_here"),
        lambda: fl.sources("nothing_here"),
        lambda: fl.changes("nothing_here", 0),
        lambda: fl.explain("nothing_here"),
        lambda: fl.sql("REFRESH STREAM TABLE nothing_here"),
    ):
        with pytest.raises(e.NotFound) as caught:
            call()
        assert caught.value.hint
    with pytest.raises(e.TableNotFound):
        fl.table("nothing_here")
    fl.drop_stream_table("nothing_here", if_exists=True)
    fl.sql("DROP STREAM TABLE IF EXISTS nothing_here")


def test_versions_that_are_not_there(fl: Freshlake) -> None:
    for version in (-1, 999):
        with refused(fl, e.InvalidArgument, str(version)):
            fl.changes("revenue", since=version)


def test_after_all_this_the_tables_still_work(fl: Freshlake) -> None:
    fl.sql("INSERT INTO orders VALUES (9, 'north', 100)")
    assert str(fl.refresh("large").action) == "DIFFERENTIAL"
    assert fl.verify("revenue").equal
    assert fl.verify("large").equal
    assert rows(fl, "SELECT total FROM large WHERE region = 'north'") == rows(fl, "SELECT 115L AS total")
