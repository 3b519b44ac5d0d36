"""Creating, altering, replacing and dropping stream tables, through Python and through SQL alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import freshlake
from freshlake import errors as e
from freshlake.compiler.plan import Loop
from freshlake.compiler.walk import nodes
from freshlake.lake import Freshlake
from freshlake.refresh import certify
from tests.integration import shop_definitions
from tests.integration.lakes import ANY_SHARE, BY_NAME, NO_RULE, bag, orders, refused, rows

PER_REGION = "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        orders(lake)
        yield lake


@pytest.fixture
def table(fl: Freshlake) -> Iterator[str]:
    """The stream table `t`, dropped after the test with everything that reads it."""
    fl.create_stream_table("t", PER_REGION)
    yield "t"
    fl.drop_stream_table("t", if_exists=True, cascade=True)


def state(fl: Freshlake, name: str) -> Any:
    return next(s for s in fl.status() if s.name == name)


def record(fl: Freshlake, name: str) -> Any:
    return fl._engine.catalog.get(f"default.{name}")


def streams(fl: Freshlake) -> set[str]:
    return {p.name.split("-")[0] for p in (fl.path / "_freshlake" / "streams").iterdir()}


# Create ---------------------------------------------------------------------------------------------------------------


def test_only_name_and_query_are_required(fl: Freshlake, table: str) -> None:
    shown = state(fl, table)
    assert (str(shown.status), str(shown.refresh_mode), shown.schedule) == ("ACTIVE", "AUTO", "calculated")
    assert (shown.is_populated, shown.version, shown.rows) == (True, 1, 3)
    assert shown.depends_on == ("default.orders",)
    assert record(fl, table).original_query == PER_REGION
    assert fl.sources(table)[0].columns_used == ("region", "amount")
    assert fl.history(table)[0].reason == "first-load"
    assert rows(fl, table) == rows(fl, PER_REGION)
    assert fl.verify(table).equal


def test_the_statement_gives_the_same_as_the_call(fl: Freshlake) -> None:
    options = {"schedule": "10m", "refresh_mode": "DIFFERENTIAL", "fold_policy": "manual"}
    by_call = fl.create_stream_table("by_call", PER_REGION, **options)
    fl.sql(f"CREATE STREAM TABLE by_statement SCHEDULE '10m' REFRESH MODE DIFFERENTIAL FOLD MANUAL AS\n{PER_REGION};")
    by_statement = record(fl, "by_statement")
    for part in ("original_query", "schedule", "refresh_mode", "fold_policy", "fingerprint", "output_schema", "status"):
        assert getattr(by_call, part) == getattr(by_statement, part), part
    assert rows(fl, "by_call") == rows(fl, "by_statement")
    fl.sql("DROP STREAM TABLE by_call")
    fl.drop_stream_table("by_statement")


def test_a_table_may_be_created_without_data(fl: Freshlake) -> None:
    for create in (
        lambda: fl.create_stream_table("empty", PER_REGION, initialize=False),
        lambda: fl.sql(f"CREATE STREAM TABLE empty WITH NO DATA AS {PER_REGION}"),
    ):
        create()
        shown = state(fl, "empty")
        assert (str(shown.status), shown.is_populated, shown.version) == ("INITIALIZING", False, 0)
        for read in (
            lambda: fl.table("empty"),
            lambda: fl.sql("SELECT * FROM empty"),
            lambda: fl.sql("SELECT * FROM default.empty AS e"),
            lambda: fl.changes("empty", 0),
            lambda: fl.verify("empty"),
        ):
            with pytest.raises(e.StreamTableNotPopulated) as caught:
                read()
            assert "refresh" in str(caught.value.hint).lower()
        assert fl.sql("SELECT 1 AS empty FROM orders LIMIT 1").collect()  # a column of that name is no table
        result = fl.refresh("empty", mode="DIFFERENTIAL")
        assert (str(result.action), result.reason) == ("FULL", "first-load")
        assert (str(state(fl, "empty").status), state(fl, "empty").is_populated) == ("ACTIVE", True)
        assert fl.verify("empty").equal
        fl.drop_stream_table("empty")


def test_a_table_that_does_not_say_where_it_stands_is_computed_as_a_whole(fl: Freshlake, table: str) -> None:
    def lose() -> None:
        fl.sql("INSERT INTO orders VALUES (90, 'lost', 1)")
        fl._engine.catalog.update(record(fl, table).id, frontier={"sources": {}})

    lose()
    before = record(fl, table)
    with pytest.raises(e.SourceHistoryLost, match="orders") as caught:
        fl.refresh(table, mode="DIFFERENTIAL")
    assert "FULL" in str(caught.value.hint)
    assert (record(fl, table).version, record(fl, table).frontier) == (before.version, before.frontier)
    result = fl.refresh(table)
    assert (str(result.action), result.reason) == ("FULL", "history-lost")
    assert fl.verify(table).equal
    fl.sql("DELETE FROM orders WHERE id = 90")
    assert str(fl.refresh(table).action) == "DIFFERENTIAL"
    assert fl.verify(table).equal


def test_a_table_over_one_without_data_loads_both(fl: Freshlake) -> None:
    fl.create_stream_table("lower", PER_REGION, initialize=False)
    fl.create_stream_table("upper_empty", "SELECT region FROM lower WHERE n > 1", initialize=False)
    fl.create_stream_table("upper", "SELECT region, total FROM lower")
    assert state(fl, "lower").is_populated
    assert fl.verify("upper").equal
    fl.refresh("upper_empty")
    assert fl.verify("upper_empty").equal
    fl.drop_stream_table("lower", cascade=True)


def test_creating_it_again_needs_the_right_word(fl: Freshlake, table: str) -> None:
    before = record(fl, table)
    for create in (
        lambda: fl.create_stream_table(table, PER_REGION),
        lambda: fl.sql(f"CREATE STREAM TABLE {table} AS {PER_REGION}"),
    ):
        with pytest.raises(e.AlreadyExists):
            create()
    fl.create_stream_table_if_not_exists(table, "SELECT 1 AS another")
    fl.sql(f"CREATE STREAM TABLE IF NOT EXISTS {table} AS SELECT 1 AS another")
    assert record(fl, table) == before


def test_selecting_everything_is_accepted_with_a_warning(fl: Freshlake, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="freshlake"):
        fl.create_stream_table("everything", "SELECT * FROM orders")
    assert "everything" in caplog.text
    fl.drop_stream_table("everything")


def test_settings_that_change_meaning_are_kept_with_the_table(fl: Freshlake) -> None:
    fl.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        query = "SELECT id, cast(timestamp_seconds(id) AS STRING) AS at, try_divide(id, 0) AS x FROM orders"
        fl.create_stream_table("zoned", query)
    finally:
        fl.spark.conf.set("spark.sql.session.timeZone", "UTC")
    fl.sql("INSERT INTO orders VALUES (77, 'east', 1)")
    fl.refresh("zoned")
    assert rows(fl, "SELECT at FROM zoned WHERE id = 77") == rows(fl, "SELECT '1970-01-01 09:01:17'")
    assert fl.verify("zoned").equal
    fl.drop_stream_table("zoned")
    fl.sql("DELETE FROM orders WHERE id = 77")


def test_settings_that_expressions_look_up_are_kept_too(fl: Freshlake) -> None:
    fl.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    try:
        fl.create_stream_table(
            "maps", "SELECT id, map_from_arrays(array(1, 1), array(0, amount))[1] AS last FROM orders"
        )
    finally:
        fl.spark.conf.unset("spark.sql.mapKeyDedupPolicy")
    fl.sql("INSERT INTO orders VALUES (78, 'east', 6)")
    assert str(fl.refresh("maps").action) == "DIFFERENTIAL"
    assert rows(fl, "maps") == rows(fl, "SELECT id, amount FROM orders")
    assert fl.verify("maps").equal
    fl.drop_stream_table("maps")
    fl.sql("DELETE FROM orders WHERE id = 78")


@contextmanager
def settings(fl: Freshlake, **values: str) -> Iterator[None]:
    keys = {"spark.sql." + key.replace("__", "."): value for key, value in values.items()}
    for key, value in keys.items():
        fl.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            fl.spark.conf.unset(key)


def test_a_query_is_read_as_the_session_read_it_when_it_was_created(fl: Freshlake) -> None:
    other_ways = {
        "ansi__doubleQuotedIdentifiers": "true",
        "parser__escapedStringLiterals": "true",
        "legacy__setopsPrecedence__enabled": "true",
        "jsonGenerator__ignoreNullFields": "false",
    }
    query = (
        "SELECT \"id\" AS i, '\\t' AS t, to_json(named_struct('a', nullif(\"id\", '1'))) AS j FROM orders UNION ALL"
        " SELECT NULL, '', '' INTERSECT SELECT string(id), '\\t', '{\"a\":3}' FROM orders"
    )
    with settings(fl, **other_ways):
        fl.create_stream_table("read", query)
    fl.sql("INSERT INTO orders VALUES (79, 'east', 6)")
    assert str(fl.refresh("read").action) == "DIFFERENTIAL"
    with settings(fl, **other_ways):
        assert fl.validate(query).differential
        assert rows(fl, "read") == rows(fl, query)
    assert rows(fl, "read") != rows(fl, query)
    assert fl.verify("read").equal
    fl.drop_stream_table("read")
    fl.sql("DELETE FROM orders WHERE id = 79")


def test_the_limits_of_recursions_are_kept(fl: Freshlake) -> None:
    with settings(fl, cteRecursionLevelLimit="7"):
        fl.create_stream_table("deep", NO_RULE, initialize=False)
    loops = [n for n in nodes(fl._engine.compiled(record(fl, "deep")).plan) if isinstance(n, Loop)]
    assert [n.limit for n in loops] == [7]
    fl.drop_stream_table("deep")


def test_the_time_zone_is_kept_where_none_was_set(fl: Freshlake, table: str) -> None:
    assert record(fl, table).session_settings["spark.sql.session.timeZone"] == fl.spark.conf.get(
        "spark.sql.session.timeZone"
    )


@pytest.mark.usefixtures("windows_without_rule")
def test_a_refresh_that_must_be_differential_is_refused_where_it_cannot_be(fl: Freshlake) -> None:
    fl.create_stream_table("pairs", NO_RULE)
    assert fl.history("pairs")[0].status == "COMPLETED"
    with refused(fl, e.NotDifferentiable, "pairs"):
        fl.refresh("pairs", mode="DIFFERENTIAL")
    assert fl.history("pairs")[0].status == "COMPLETED"
    assert str(fl.refresh("pairs").action) == "NO_DATA"
    fl.drop_stream_table("pairs")


def test_changes_are_consolidated(fl: Freshlake) -> None:
    fl.create_stream_table("narrow", "SELECT region FROM orders")
    fl.sql("INSERT INTO orders VALUES (79, 'east', 1), (80, 'east', 2)")
    fl.refresh("narrow")
    assert [tuple(row) for row in fl.changes("narrow", since=1).collect()] == [("east", 2)]
    fl.drop_stream_table("narrow")
    fl.sql("DELETE FROM orders WHERE id IN (79, 80)")


def test_the_older_word_for_differential_is_understood(fl: Freshlake, table: str) -> None:
    fl.alter_stream_table(table, refresh_mode="incremental")
    assert str(state(fl, table).refresh_mode) == "DIFFERENTIAL"


# The certificate ------------------------------------------------------------------------------------------------------

MEASURED = "SELECT region, avg(amount) AS mean, collect_list(id) AS ids, count(*) AS n FROM orders GROUP BY region"


@pytest.mark.parametrize(
    ("column", "value", "accepted"),
    [
        ("mean", "mean * (1 + 1e-12)", True),
        ("mean", "mean * (1 + 1e-6)", False),
        ("ids", "reverse(ids)", True),
        ("ids", "transform(ids, i -> i + 1)", False),
        ("n", "n + 1", False),
    ],
)
def test_what_is_stored_is_compared_with_the_query(
    fl: Freshlake, monkeypatch: pytest.MonkeyPatch, column: str, value: str, accepted: bool
) -> None:
    def altered(*arguments: Any) -> Any:
        return stored(*arguments).withColumn(column, F.expr(value))

    stored = certify.stored
    monkeypatch.setattr(certify, "stored", altered)
    if accepted:
        fl.create_stream_table("measured", MEASURED)
        fl.drop_stream_table("measured")
        return
    with refused(fl, e.NotReproducible, "measured"):
        fl.create_stream_table("measured", MEASURED)


# Replace --------------------------------------------------------------------------------------------------------------


def test_replacing_does_only_what_is_needed(fl: Freshlake, table: str) -> None:
    before = record(fl, table)
    runs = len(fl.history(table, limit=100))
    fl.create_or_replace_stream_table(table, PER_REGION)
    fl.sql(f"CREATE OR REPLACE STREAM TABLE {table} AS {PER_REGION}")
    assert record(fl, table) == before
    fl.create_or_replace_stream_table(table, PER_REGION, schedule="5m", refresh_mode="FULL", fold_policy="always")
    after = record(fl, table)
    assert (after.schedule, str(after.refresh_mode), str(after.fold_policy)) == ("5m", "FULL", "always")
    assert (after.storage_id, after.generation, after.version) == (before.storage_id, before.generation, before.version)
    assert len(fl.history(table, limit=100)) == runs
    fl.create_or_replace_stream_table(table, "SELECT region FROM orders")
    changed = record(fl, table)
    assert (changed.schedule, str(changed.refresh_mode), changed.generation) == (None, "AUTO", before.generation + 1)
    assert rows(fl, table) == rows(fl, "SELECT region FROM orders")


def test_replacing_what_is_absent_creates_it(fl: Freshlake) -> None:
    fl.create_or_replace_stream_table("fresh", PER_REGION, schedule="5m")
    assert fl.verify("fresh").equal
    fl.drop_stream_table("fresh")


def test_deploying_a_table_that_was_never_loaded_loads_it(fl: Freshlake) -> None:
    """Its first load died, or was not asked for; a scheduler does not load it."""
    fl.create_stream_table("late", PER_REGION, initialize=False)
    fl.create_stream_table_if_not_exists("late", PER_REGION, initialize=False)
    fl.sql(f"CREATE OR REPLACE STREAM TABLE late WITH NO DATA AS {PER_REGION}")
    assert not state(fl, "late").is_populated
    fl.alter_stream_table("late", status="SUSPENDED")
    fl.create_or_replace_stream_table("late", PER_REGION)
    assert not state(fl, "late").is_populated, "a person wants it to rest"
    fl.resume("late")
    assert str(state(fl, "late").status) == "INITIALIZING", "only a load makes it active"
    fl.create_or_replace_stream_table("late", PER_REGION, schedule="5m")
    assert (str(state(fl, "late").status), state(fl, "late").schedule) == ("ACTIVE", "5m")
    assert fl.verify("late").equal
    fl.drop_stream_table("late")
    fl.create_stream_table("late", PER_REGION, initialize=False)
    fl.sql(f"CREATE STREAM TABLE IF NOT EXISTS late AS {PER_REGION}")
    assert fl.verify("late").equal
    fl.drop_stream_table("late")


# Alter ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "statement", "part", "value"),
    [
        ({"schedule": "5m"}, "SET SCHEDULE '5m'", "schedule", "5m"),
        ({"schedule": "@hourly"}, "SET SCHEDULE '@hourly'", "schedule", "@hourly"),
        ({"schedule": "calculated"}, "SET SCHEDULE CALCULATED", "schedule", "calculated"),
        ({"refresh_mode": "full"}, "SET REFRESH MODE FULL", "refresh_mode", "FULL"),
        ({"status": "suspended"}, "SUSPEND", "status", "SUSPENDED"),
        ({"status": "active"}, "RESUME", "status", "ACTIVE"),
    ],
)
def test_properties_change_in_place(
    fl: Freshlake, table: str, call: dict[str, str], statement: str, part: str, value: str
) -> None:
    before = record(fl, table)
    fl.alter_stream_table(table, **call)
    by_call = getattr(state(fl, table), part)
    fl.alter_stream_table(table, schedule="1h", refresh_mode="AUTO", status="ACTIVE")
    fl.sql(f"ALTER STREAM TABLE {table} {statement}")
    assert str(by_call) == str(getattr(state(fl, table), part)) == value
    after = record(fl, table)
    assert (after.version, after.generation, after.frontier) == (before.version, before.generation, before.frontier)


def test_several_properties_change_in_one_statement(fl: Freshlake, table: str) -> None:
    fl.sql(f"ALTER STREAM TABLE {table} SET (schedule = '15m', refresh_mode = FULL, fold_policy = always)")
    shown = state(fl, table)
    assert (shown.schedule, str(shown.refresh_mode)) == ("15m", "FULL")
    with pytest.raises(e.InvalidArgument) as caught:
        fl.sql(f"ALTER STREAM TABLE {table} SET (colour = 'red')")
    assert "schedule" in str(caught.value.hint)


def test_a_mode_decides_how_the_next_refresh_works(fl: Freshlake, table: str) -> None:
    fl.alter_stream_table(table, refresh_mode="FULL")
    fl.sql("INSERT INTO orders VALUES (50, 'north', 1)")
    result = fl.refresh(table)
    assert (str(result.action), result.reason) == ("FULL", "mode-full")
    assert (result.rows_inserted, result.rows_deleted) == (1, 1)  # as a difference, not a rewrite
    fl.alter_stream_table(table, refresh_mode="AUTO")
    fl.sql("DELETE FROM orders WHERE id = 50")
    assert str(fl.refresh(table).action) == "DIFFERENTIAL"
    assert str(fl.sql(f"REFRESH STREAM TABLE {table} FULL").first()["action"]) == "FULL"  # type: ignore[index]
    assert fl.verify(table).equal


def test_a_suspended_table_rests_until_it_is_resumed(fl: Freshlake, table: str) -> None:
    fl.create_stream_table("reader", f"SELECT region FROM {table}")
    fl.alter_stream_table(table, status="SUSPENDED")
    fl.sql("INSERT INTO orders VALUES (51, 'sleepy', 1)")
    with pytest.raises(e.StreamTableSuspended) as caught:
        fl.refresh(table)
    assert "resume" in str(caught.value.hint).lower()
    results = {r.table: r for r in fl.refresh_all()}
    assert (str(results["default.t"].action), results["default.t"].reason) == ("SKIPPED", "suspended")
    assert str(fl.refresh("reader").action) == "NO_DATA"  # what it reads has not moved
    assert "sleepy" not in str(fl.table("reader").collect())
    fl.resume(table)
    assert str(fl.refresh(table).action) == "DIFFERENTIAL"
    fl.refresh("reader")
    assert fl.verify("reader").equal
    fl.sql("DELETE FROM orders WHERE id = 51")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT region, count(*) AS n, sum(amount) AS total FROM orders WHERE amount > 1 GROUP BY region",
        "SELECT region, count(*) AS n, sum(amount) AS total, max(id) AS newest FROM orders GROUP BY region",
        "SELECT region FROM orders GROUP BY region",
        "SELECT region, cast(count(*) AS STRING) AS n, array(sum(amount)) AS total FROM orders GROUP BY region",
    ],
    ids=["same columns", "one more", "fewer", "other types"],
)
def test_a_new_query_is_swapped_in_at_once(fl: Freshlake, table: str, query: str) -> None:
    """A reader that holds the old contents keeps them; at no moment is the table empty or half full."""
    held, before = fl.table(table), rows(fl, table)
    during = []
    fl._engine.observer = lambda step: during.append((step, fl.table(table).columns, rows(fl, table)))
    try:
        fl.alter_stream_table(table, query=query)
    finally:
        fl._engine.observer = None
    steps = {step: (columns, seen) for step, columns, seen in during}
    assert steps["loaded"] == (["region", "n", "total"], before)
    assert rows(fl, table) == rows(fl, query)
    assert fl.table(table).dtypes == fl.sql(query).dtypes
    assert record(fl, table).original_query == query
    assert (fl.history(table)[0].action, fl.history(table)[0].reason) == ("REINITIALIZE", "query-altered")
    assert bag(tuple(r) for r in held.collect()) == before
    fl.sql("INSERT INTO orders VALUES (60, 'north', 3)")
    assert str(fl.refresh(table).action) == "DIFFERENTIAL"
    assert fl.verify(table).equal
    fl.sql("DELETE FROM orders WHERE id = 60")
    fl.fold(table)
    assert fl.verify(table).equal


def test_query_and_properties_change_in_one_call(fl: Freshlake, table: str) -> None:
    fl.alter_stream_table(table, query="SELECT DISTINCT region FROM orders", schedule="7m", refresh_mode="FULL")
    shown = state(fl, table)
    assert (shown.schedule, str(shown.refresh_mode), shown.rows) == ("7m", "FULL", 3)
    with pytest.raises(e.ScheduleTooShort):
        fl.alter_stream_table(table, query=PER_REGION, schedule="1s")
    assert record(fl, table).original_query == "SELECT DISTINCT region FROM orders"


def test_readers_follow_a_table_whose_query_changed(fl: Freshlake, table: str) -> None:
    fl.create_stream_table("reader", f"SELECT region, total FROM {table} WHERE total > 5")
    fl.create_stream_table("narrow", f"SELECT n FROM {table}")
    fl.sql(f"ALTER STREAM TABLE {table} SET QUERY SELECT region, sum(amount) * 2 AS total FROM orders GROUP BY region")
    result = fl.refresh("reader")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "source-replaced")
    assert fl.verify("reader").equal
    with pytest.raises(e.SourceSchemaChanged) as caught:
        fl.refresh("narrow")
    assert "`n`" in str(caught.value.detail)
    assert rows(fl, "SELECT count(*) FROM narrow") == rows(fl, "SELECT 3L")
    fl.alter_stream_table("narrow", query=f"SELECT total FROM {table}")
    assert fl.verify("narrow").equal


# Drop -----------------------------------------------------------------------------------------------------------------


def test_dropping_leaves_nothing(fl: Freshlake) -> None:
    fl.create_stream_table("gone", PER_REGION)
    fl.create_stream_table("gone_too", "SELECT n FROM gone")
    fl.drop_stream_table("gone", cascade=True)
    assert not {"gone", "gone_too"} & {s.name for s in fl.status()}
    assert not {"gone", "gone_too"} & streams(fl)
    assert not [r for r in fl.history(limit=1000) if r.table in ("gone", "gone_too", "?")]
    assert not fl.spark.catalog.tableExists("gone")
    with pytest.raises(e.TableNotFound):
        fl.sql("SELECT * FROM gone")
    fl.sql("CREATE TABLE gone (a INT) USING delta")  # the name is free again
    fl.sql("DROP TABLE gone")


def test_the_storage_of_a_dropped_query_is_cleaned_up(fl: Freshlake, table: str) -> None:
    """After its readers had their time, an old generation goes with vacuum."""
    fl.alter_stream_table(table, query="SELECT region FROM orders")
    folder = fl._engine.layout.folder(record(fl, table).storage_id)
    assert {p.name for p in folder.iterdir()} == {"g1", "g2"}
    fl.vacuum(table)
    assert {p.name for p in folder.iterdir()} == {"g1", "g2"}  # younger than reader_min_age_seconds
    with freshlake.connect(fl.path, settings={"reader_min_age_seconds": 0}) as patient:
        patient.vacuum(table)
        assert {p.name for p in folder.iterdir()} == {"g2"}
        assert patient.verify(table).equal


def test_the_catalog_says_which_rows_of_an_order_are_kept(fl: Freshlake) -> None:
    def kept(query: str) -> tuple[int | None, str | None, int | None]:
        fl.create_or_replace_stream_table("top", query)
        found = record(fl, "top")
        return found.topk_limit, found.topk_order_by, found.topk_offset

    try:
        assert kept("SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 2") == (
            2,
            "amount DESC NULLS LAST, id ASC NULLS FIRST",
            None,
        )
        assert kept("SELECT id FROM orders ORDER BY id LIMIT 2 OFFSET 1") == (2, "id ASC NULLS FIRST", 1)
        assert kept("SELECT id FROM orders ORDER BY id OFFSET 3") == (None, "id ASC NULLS FIRST", 3)
        assert kept("SELECT id FROM orders") == (None, None, None)
    finally:
        fl.drop_stream_table("top", if_exists=True)


# Functions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [shop_definitions.by_region, "tests.integration.shop_definitions:by_region"])
def test_a_function_defines_the_same_table_as_its_sql(fl: Freshlake, query: Callable[..., Any] | str) -> None:
    fl.create_stream_table("by_function", query, refresh_mode="DIFFERENTIAL")
    try:
        assert rows(fl, "by_function") == rows(fl, PER_REGION)
        stored = record(fl, "by_function")
        assert stored.definition_reference == "tests.integration.shop_definitions:by_region"
        assert "groupBy" in stored.original_query
        fl.create_stream_table("above", shop_definitions.above)
        fl.sql("INSERT INTO orders VALUES (70, 'north', 3)")
        assert {str(r.action) for r in fl.refresh_all()} == {"DIFFERENTIAL"}
        assert fl.verify("by_function").equal
        assert fl.verify("above").equal
        with pytest.raises(e.CycleDetected):
            fl.alter_stream_table("by_function", query="SELECT region, 1L AS n, total FROM above")
        with freshlake.connect(fl.path, settings=ANY_SHARE) as again:
            again.sql("DELETE FROM orders WHERE id = 70")
            assert str(again.refresh("above").action) == "DIFFERENTIAL"
            assert again.verify("above").equal
        fl.alter_stream_table("by_function", query=PER_REGION)
        assert record(fl, "by_function").definition_reference is None
    finally:
        fl.drop_stream_table("by_function", cascade=True)


def test_a_function_that_changed_rebuilds_its_table(fl: Freshlake, monkeypatch: pytest.MonkeyPatch) -> None:
    fl.create_stream_table("by_function", shop_definitions.by_region)
    try:
        monkeypatch.setattr(shop_definitions, "by_region", shop_definitions.large)
        with freshlake.connect(fl.path, settings=ANY_SHARE) as later:
            later.sql("INSERT INTO orders VALUES (71, 'north', 30)")
            result = later.refresh("by_function")
            assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed")
            assert later.table("by_function").columns == ["id", "amount"]
            assert later.verify("by_function").equal
        monkeypatch.delattr(shop_definitions, "by_region")
        fl.sql("DELETE FROM orders WHERE id = 71")
        with freshlake.connect(fl.path) as lost, pytest.raises(e.DefinitionNotImportable):
            lost.refresh("by_function")
        assert rows(fl, "SELECT count(*) FROM by_function WHERE id = 71") == rows(fl, "SELECT 1L")
    finally:
        fl.drop_stream_table("by_function")


# Looking --------------------------------------------------------------------------------------------------------------


def test_every_report_has_its_statement(fl: Freshlake, table: str) -> None:
    names = {r["name"] for r in fl.sql("SHOW STREAM TABLES").collect()}
    assert names == {s.name for s in fl.status()}
    (run,) = fl.sql(f"SHOW STREAM TABLE HISTORY {table}").collect()
    assert (run["action"], run["reason"]) == ("FULL", "first-load")
    assert fl.sql(f"VERIFY STREAM TABLE {table}").first()["equal"]  # type: ignore[index]
    assert "Aggregate" in str(fl.sql(f"EXPLAIN STREAM TABLE {table}").first())
    fl.sql("INSERT INTO orders VALUES (80, 'north', 3)")
    (done,) = fl.sql(f"REFRESH STREAM TABLE {table}").collect()
    assert (done["action"], done["rows_inserted"], done["version"]) == ("DIFFERENTIAL", 1, 2)
    (folded,) = fl.sql(f"FOLD STREAM TABLE {table}").collect()
    assert folded["folded_versions"] == 1
    assert fl.sql("REFRESH ALL STREAM TABLES").first()["action"] == "NO_DATA"  # type: ignore[index]
    fl.sql("DELETE FROM orders WHERE id = 80")
    assert [line.tree_line for line in fl.dependency_tree()] == ["t", "└─ orders [src]"]
    assert fl.validate(PER_REGION).differential
    assert [c for c, _ in fl.validate(PER_REGION).columns] == ["region", "n", "total"]


# Connections ----------------------------------------------------------------------------------------------------------


def test_everything_is_found_again_after_a_reconnect(spark: SparkSession, lake_dir: Path) -> None:
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as first:
        orders(first)
        first.sql("CREATE SCHEMA sales")
        first.sql("CREATE TABLE sales.targets (region STRING, goal INT) USING delta")
        first.sql("INSERT INTO sales.targets VALUES ('north', 10)")
        first.sql("CREATE TABLE flat USING parquet AS SELECT 1 AS a")
        first.sql("CREATE VIEW z_orders AS SELECT * FROM orders WHERE amount > 1")
        first.sql("CREATE VIEW a_orders AS SELECT region, amount FROM z_orders")
        first.create_stream_table("sales.reached", "SELECT region, sum(amount) AS s FROM a_orders GROUP BY region")
        first.sql("USE sales")
        first.create_stream_table(
            "done", "SELECT r.region, s, goal FROM reached r JOIN targets t ON r.region = t.region"
        )
        first.sql("CREATE VIEW summary AS SELECT count(*) AS n FROM done")
        first.sql("CREATE VIEW broken AS SELECT goal FROM targets")
        first.sql(f"ALTER TABLE targets SET TBLPROPERTIES ({BY_NAME})")
        first.sql("ALTER TABLE targets RENAME COLUMN goal TO aim")
        seen = {
            name: rows(first, name) for name in ("default.a_orders", "sales.reached", "sales.done", "sales.summary")
        }
    with freshlake.connect(lake_dir, settings=ANY_SHARE) as again:
        assert {s.name for s in again.status()} == {"sales.reached", "sales.done"}
        assert {name: rows(again, name) for name in seen} == seen
        assert rows(again, "flat") == rows(again, "SELECT 1")
        again.sql("INSERT INTO orders VALUES (9, 'north', 100)")
        with pytest.raises(e.SourceSchemaChanged):
            again.refresh("sales.done")
        again.sql("ALTER TABLE sales.targets RENAME COLUMN aim TO goal")
        assert {r.table: str(r.action) for r in again.refresh_all()}["sales.reached"] in ("NO_DATA", "DIFFERENTIAL")
        assert again.verify("sales.done").equal
        assert rows(again, "SELECT s FROM sales.done") == rows(again, "SELECT 115L")
        assert rows(again, "sales.broken") == rows(again, "SELECT 10")


def test_connections_to_one_lake_see_each_others_tables(spark: SparkSession, lake_dir: Path) -> None:
    one, two = (freshlake.connect(lake_dir, settings=ANY_SHARE) for _ in range(2))
    orders(one)
    one.sql("CREATE VIEW big AS SELECT id, region, amount FROM orders WHERE amount > 5")
    one.create_stream_table("copy", "SELECT id, amount FROM big")
    assert rows(two, "copy") == rows(one, "copy")
    two.sql("INSERT INTO orders VALUES (9, 'north', 100)")
    assert str(two.refresh("copy").action) == "DIFFERENTIAL"
    assert rows(one, "copy") == rows(two, "copy")
    two.alter_stream_table("copy", query="SELECT id FROM big")
    assert one.table("copy").columns == ["id"]
    one.sql("INSERT INTO orders VALUES (10, 'north', 100)")
    assert str(one.refresh("copy").action) == "DIFFERENTIAL"
    assert two.verify("copy").equal
    two.drop_stream_table("copy")
    two.sql("DROP VIEW big")
    two.sql("DROP TABLE orders")
    assert not one.status()
    for name in ("copy", "big", "orders"):
        with pytest.raises(e.TableNotFound):
            one.sql(f"SELECT * FROM {name}")
    one.sql("CREATE TABLE orders (other STRING) USING delta")
    assert two.table("orders").columns == ["other"]
    one.close()
    two.close()


def test_lakes_in_one_process_are_strangers(spark: SparkSession, tmp_path: Path) -> None:
    one, two = (freshlake.connect(tmp_path / name, settings=ANY_SHARE) for name in ("one", "two"))
    for lake, value in ((one, 1), (two, 2)):
        lake.sql("CREATE TABLE t (a INT) USING delta")
        lake.sql(f"INSERT INTO t VALUES ({value})")
        lake.create_stream_table("s", "SELECT a FROM t")
    assert (rows(one, "s"), rows(two, "s")) == (rows(one, "SELECT 1"), rows(two, "SELECT 2"))
    assert (tmp_path / "two" / "tables" / "t").is_dir()
    one.sql("INSERT INTO t VALUES (3)")
    assert [str(lake.refresh("s").action) for lake in (one, two)] == ["DIFFERENTIAL", "NO_DATA"]
    one.drop_stream_table("s")
    assert two.verify("s").equal
    one.close()
    two.close()


def test_a_session_of_the_users_own_keeps_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.sql("CREATE SCHEMA IF NOT EXISTS theirs")
    session.sql(f"CREATE TABLE theirs.t (a INT) USING delta LOCATION '{tmp_path}/t'")
    session.sql("INSERT INTO theirs.t VALUES (1), (1)")
    try:
        with freshlake.connect(tmp_path / "lake", spark=session, settings=ANY_SHARE) as fl:
            assert fl.spark is session
            fl.create_stream_table("theirs.s", "SELECT a FROM theirs.t")
            session.sql("INSERT INTO theirs.t VALUES (2)")
            assert str(fl.refresh("theirs.s").action) == "DIFFERENTIAL"
            assert fl.verify("theirs.s").equal
            assert session.table("theirs.t").count() == fl.sql("SELECT * FROM theirs.s").count() == 3
            fl.drop_stream_table("theirs.s")
    finally:
        session.sql("DROP SCHEMA theirs CASCADE")
