"""A source that changes under a stream table: answered by the right refresh, or by an error that changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, BY_NAME, folder_of, orders, refused, rows


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=ANY_SHARE) as lake:
        yield lake


def watch(fl: Freshlake, source: str, **options: str) -> str:
    """A stream table over a fresh source; it is called `<source>_by_region`."""
    orders(fl, source)
    name = f"{source}_by_region"
    query = f"SELECT region, count(*) AS n, sum(amount) AS total FROM {source} GROUP BY region"
    fl.create_stream_table(name, query, **options)
    return name


def test_a_dropped_source_is_an_error_until_it_is_back(fl: Freshlake) -> None:
    name = watch(fl, "dropped")
    contents = rows(fl, name)
    fl.sql("DROP TABLE dropped")
    with refused(fl, e.SourceDropped, "dropped", status=name):
        fl.refresh(name)
    (state,) = [s for s in fl.status() if s.name == name]
    assert state.status == "ERROR"
    assert fl.history(name)[0].error_code == "source-dropped"
    assert fl.sources(name)[0].problem
    assert rows(fl, name) == contents
    orders(fl, "dropped")
    fl.sql("DELETE FROM dropped WHERE id = 1")
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("FULL", "source-replaced")
    assert fl.verify(name).equal
    assert next(s for s in fl.status() if s.name == name).status == "ACTIVE"


def test_a_source_removed_by_hand_is_dropped_too(fl: Freshlake) -> None:
    name = watch(fl, "removed")
    shutil.rmtree(folder_of(fl, "removed"))
    with refused(fl, e.SourceDropped, "removed", status=name):
        fl.refresh(name)
    fl.drop_stream_table(name)


def test_a_source_dropped_and_made_again_at_the_same_place(fl: Freshlake) -> None:
    name = watch(fl, "again")
    version = fl.sources(name)[0].position
    fl.sql("DROP TABLE again")
    orders(fl, "again")
    fl.sql("UPDATE again SET amount = 50 WHERE id = 4")
    fl.sql("DROP TABLE again")
    orders(fl, "again")
    assert fl.sources(name)[0].head == version  # the same number, another table
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("FULL", "source-replaced")
    assert (result.rows_inserted, result.rows_deleted) == (0, 0)
    assert fl.verify(name).equal
    fl.sql("INSERT INTO again VALUES (9, 'north', 1)")
    assert str(fl.refresh(name).action) == "DIFFERENTIAL"
    assert fl.verify(name).equal


def test_a_source_made_again_without_a_column_the_query_reads(fl: Freshlake) -> None:
    name = watch(fl, "poorer")
    fl.sql("DROP TABLE poorer")
    fl.sql("CREATE TABLE poorer (id BIGINT, region STRING) USING delta")
    with refused(fl, e.SourceSchemaChanged, name, "amount", "SET QUERY"):
        fl.refresh(name)
    fl.alter_stream_table(name, query="SELECT region, count(*) AS n FROM poorer GROUP BY region")
    fl.sql("INSERT INTO poorer VALUES (1, 'east')")
    assert str(fl.refresh(name).action) == "DIFFERENTIAL"
    assert rows(fl, name) == rows(fl, "SELECT 'east', 1L")


def test_a_source_restored_to_an_older_version_is_just_a_change(fl: Freshlake) -> None:
    name = watch(fl, "restored")
    fl.sql("UPDATE restored SET amount = 99")
    fl.refresh(name)
    fl.sql("RESTORE TABLE restored TO VERSION AS OF 1")
    fl.refresh(name)
    assert fl.verify(name).equal
    assert rows(fl, f"SELECT sum(total) FROM {name}") == rows(fl, "SELECT 24L")


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE {}", "DELETE FROM {}"])
def test_an_emptied_source_empties_its_readers(fl: Freshlake, statement: str) -> None:
    source = statement.split()[0].lower() + "d"
    name = watch(fl, source)
    fl.create_stream_table(f"{source}_all", f"SELECT count(*) AS n, sum(amount) AS total FROM {source}")
    fl.sql(statement.format(source))
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("FULL", "truncate-detected")
    assert not rows(fl, name)
    fl.refresh(f"{source}_all")
    assert rows(fl, f"{source}_all") == rows(fl, "SELECT 0L, cast(NULL AS BIGINT)")
    fl.sql(f"INSERT INTO {source} VALUES (1, 'west', 2)")
    fl.refresh_all()
    assert fl.verify(name).equal
    assert fl.verify(f"{source}_all").equal


def test_a_vacuumed_source_is_read_in_full(fl: Freshlake) -> None:
    name = watch(fl, "vacuumed")
    fl.sql("UPDATE vacuumed SET amount = amount + 1")
    fl.sql("UPDATE vacuumed SET amount = amount + 1")
    fl.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    fl.sql("VACUUM vacuumed RETAIN 0 HOURS")
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("FULL", "history-lost")
    assert fl.verify(name).equal
    fl.sql("INSERT INTO vacuumed VALUES (9, 'north', 1)")
    assert str(fl.refresh(name).action) == "DIFFERENTIAL"
    assert fl.verify(name).equal


def test_a_source_whose_log_was_cut_is_read_in_full(fl: Freshlake) -> None:
    name = watch(fl, "cut")
    for i in range(10):
        fl.sql(f"INSERT INTO cut VALUES ({i}, 'north', 1)")
    logs = sorted((folder_of(fl, "cut") / "_delta_log").glob("*.json"))
    checkpoint = next((folder_of(fl, "cut") / "_delta_log").glob("*.checkpoint*.parquet"))
    kept = int(checkpoint.name[:20])
    for path in [p for p in logs if int(p.name[:20]) < kept]:
        path.unlink()
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("FULL", "history-lost")
    assert fl.verify(name).equal


def test_a_column_that_changed_its_type_rebuilds_the_table(fl: Freshlake) -> None:
    name = watch(fl, "retyped")
    fl.sql("CREATE OR REPLACE TABLE retyped USING delta AS SELECT id, region, amount * 1.5D AS amount FROM retyped")
    result = fl.refresh(name)
    assert (str(result.action), result.reason) == ("REINITIALIZE", "source-replaced")
    assert dict(fl.table(name).dtypes)["total"] == "double"
    assert fl.verify(name).equal
    fl.sql("INSERT INTO retyped VALUES (9, 'north', 0.25D)")
    assert str(fl.refresh(name).action) == "DIFFERENTIAL"
    assert fl.verify(name).equal


def test_a_widened_type_is_not_misread(fl: Freshlake) -> None:
    name = watch(fl, "widened")
    fl.sql("ALTER TABLE widened SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    fl.sql("ALTER TABLE widened ALTER COLUMN amount TYPE BIGINT")
    fl.sql("INSERT INTO widened VALUES (9, 'north', 3000000000)")
    assert fl.refresh(name).reason in ("schema-changed", "definition-changed")
    assert fl.verify(name).equal
    fl.sql("INSERT INTO widened VALUES (10, 'north', 3000000000)")
    fl.refresh(name)
    assert fl.verify(name).equal


def mapped(fl: Freshlake, source: str) -> str:
    name = watch(fl, source)
    fl.sql(f"ALTER TABLE {source} SET TBLPROPERTIES ({BY_NAME})")
    return name


def test_a_dropped_column_that_the_query_reads(fl: Freshlake) -> None:
    name = mapped(fl, "less")
    fl.sql("ALTER TABLE less DROP COLUMN amount")
    with refused(fl, e.SourceSchemaChanged, "amount", "SET QUERY"):
        fl.refresh(name)
    assert next(s for s in fl.status() if s.name == name).consecutive_errors == 1
    fl.sql(f"ALTER STREAM TABLE {name} SET QUERY SELECT region, count(*) AS n FROM less GROUP BY region")
    assert fl.verify(name).equal


def test_a_renamed_column_that_the_query_reads(fl: Freshlake) -> None:
    name = mapped(fl, "called")
    fl.sql("ALTER TABLE called RENAME COLUMN amount TO price")
    with refused(fl, e.SourceSchemaChanged, "amount"):
        fl.refresh(name)
    fl.sql("ALTER TABLE called RENAME COLUMN price TO amount")
    fl.refresh(name)
    assert fl.verify(name).equal


def test_columns_that_the_query_does_not_read_may_come_and_go(fl: Freshlake) -> None:
    name = mapped(fl, "wider")
    fl.sql("ALTER TABLE wider ADD COLUMN note STRING")
    fl.sql("INSERT INTO wider VALUES (9, 'north', 1, 'new')")
    assert str(fl.refresh(name).action) == "DIFFERENTIAL"
    fl.sql("ALTER TABLE wider RENAME COLUMN note TO remark")
    fl.sql("ALTER TABLE wider DROP COLUMN remark")
    fl.sql("INSERT INTO wider VALUES (10, 'south', 1)")
    fl.refresh(name)
    assert fl.verify(name).equal


def test_a_new_column_rebuilds_a_table_that_selects_all(fl: Freshlake) -> None:
    orders(fl, "grown")
    fl.create_stream_table("grown_copy", "SELECT * FROM grown")
    fl.create_stream_table("grown_top", "SELECT id FROM grown_copy")
    fl.sql("ALTER TABLE grown ADD COLUMN note STRING")
    fl.sql("INSERT INTO grown VALUES (9, 'north', 1, 'new')")
    results = {r.table: r for r in fl.refresh_all()}
    assert str(results["default.grown_copy"].action) == "REINITIALIZE"
    assert fl.table("grown_copy").columns == ["id", "region", "amount", "note"]
    assert fl.verify("grown_copy").equal
    assert fl.verify("grown_top").equal
    fl.sql("INSERT INTO grown VALUES (10, 'north', 1, 'newer')")
    assert {str(r.action) for r in fl.refresh_all() if "grown" in r.table} == {"DIFFERENTIAL"}
    assert fl.verify("grown_top").equal


def test_a_replaced_view_changes_what_its_readers_hold(fl: Freshlake) -> None:
    orders(fl, "seen")
    orders(fl, "unseen")
    fl.sql("CREATE VIEW lens AS SELECT region, amount FROM seen WHERE amount > 1")
    fl.create_stream_table("through", "SELECT region, count(*) AS n FROM lens GROUP BY region")
    assert str(fl.refresh("through").action) == "NO_DATA"
    fl.sql("CREATE OR REPLACE VIEW lens AS SELECT region, amount FROM unseen WHERE amount <= 1")
    result = fl.refresh("through")
    assert (str(result.action), result.reason) == ("REINITIALIZE", "definition-changed")
    assert rows(fl, "through") == rows(fl, "SELECT cast(NULL AS STRING), 2L")
    assert [s.source for s in fl.sources("through")] == ["default.unseen"]
    fl.sql("INSERT INTO unseen VALUES (9, 'north', 0)")
    assert str(fl.refresh("through").action) == "DIFFERENTIAL"
    assert fl.verify("through").equal
    fl.sql("DROP VIEW lens")
    fl.sql("INSERT INTO unseen VALUES (10, 'north', 0)")
    with refused(fl, e.SourceDropped, "lens", status="through"):
        fl.refresh("through")
    fl.drop_stream_table("through")


def test_a_view_replaced_by_one_that_reads_its_reader(fl: Freshlake) -> None:
    orders(fl, "start")
    fl.sql("CREATE VIEW ring AS SELECT region, amount FROM start")
    fl.create_stream_table("ringed", "SELECT region, amount FROM ring")
    fl.sql("CREATE OR REPLACE VIEW ring AS SELECT region, amount FROM ringed")
    with refused(fl, e.CycleDetected, "ringed"):
        fl.refresh("ringed")
    fl.sql("CREATE OR REPLACE VIEW ring AS SELECT region, amount FROM start")
    fl.refresh("ringed")
    assert fl.verify("ringed").equal


def test_rows_that_never_met_cannot_fail_a_refresh(fl: Freshlake) -> None:
    """The old divisor meets the new dividend only in the delta; in full the query is fine before and after."""
    fl.sql("CREATE TABLE dividends (k INT, x INT) USING delta")
    fl.sql("CREATE TABLE divisors (k INT, y INT) USING delta")
    fl.sql("INSERT INTO dividends VALUES (1, 10), (2, 20)")
    fl.sql("INSERT INTO divisors VALUES (1, 2), (3, 0)")
    query = "SELECT a.k, a.x div b.y AS q FROM dividends a JOIN divisors b ON a.k = b.k"
    fl.create_stream_table("quotients", query)
    fl.sql("INSERT INTO dividends VALUES (3, 30)")
    fl.sql("UPDATE divisors SET y = 3 WHERE k = 3")
    result = fl.refresh("quotients")
    assert (str(result.action), result.reason) == ("FULL", "delta-evaluation-error")
    assert "DIVIDE_BY_ZERO" in str(result.detail)
    assert fl.history("quotients")[0].status == "COMPLETED"
    assert fl.verify("quotients").equal
    fl.sql("INSERT INTO dividends VALUES (1, 100)")
    assert str(fl.refresh("quotients").action) == "DIFFERENTIAL"
    assert fl.verify("quotients").equal


def test_rows_that_do_fail_leave_the_table_as_it_was(fl: Freshlake) -> None:
    fl.sql("CREATE TABLE bad_rows (k INT, y INT) USING delta")
    fl.sql("INSERT INTO bad_rows VALUES (1, 2)")
    fl.create_stream_table("inverse", "SELECT k, 10 div y AS q FROM bad_rows")
    fl.sql("INSERT INTO bad_rows VALUES (2, 0)")
    for attempt in (1, 2, 3):
        with refused(fl, e.DataError, "DIVIDE_BY_ZERO", status="inverse"):
            fl.refresh("inverse")
        state = next(s for s in fl.status() if s.name == "inverse")
        assert (state.consecutive_errors, str(state.status)) == (attempt, "ERROR" if attempt == 3 else "ACTIVE")
    assert [str(r.status) for r in fl.history("inverse", limit=3)] == ["FAILED"] * 3
    fl.sql("DELETE FROM bad_rows WHERE y = 0")
    fl.refresh("inverse")
    state = next(s for s in fl.status() if s.name == "inverse")
    assert (state.consecutive_errors, str(state.status)) == (0, "ACTIVE")
    assert fl.verify("inverse").equal


def test_one_broken_table_does_not_stop_the_others(fl: Freshlake) -> None:
    broken, sound = watch(fl, "bad_source"), watch(fl, "good_source")
    fl.create_stream_table("above_broken", f"SELECT region FROM {broken}")
    fl.sql("DROP TABLE bad_source")
    fl.sql("INSERT INTO good_source VALUES (9, 'north', 1)")
    results = {r.table.removeprefix("default."): r for r in fl.refresh_all()}
    assert (str(results[broken].action), results[broken].reason) == ("SKIPPED", "source-dropped")
    assert (str(results["above_broken"].action), results["above_broken"].reason) == ("SKIPPED", "upstream-failed")
    assert str(results[sound].action) == "DIFFERENTIAL"
    assert fl.verify(sound).equal
