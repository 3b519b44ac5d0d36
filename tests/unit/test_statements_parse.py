"""Stream table statements."""

from __future__ import annotations

import pytest

from freshlake.catalog import FoldPolicy, RefreshMode
from freshlake.errors import FreshlakeError, InvalidName, InvalidStatement
from freshlake.statements import (
    AuditStreamTable,
    CreateRefreshGroup,
    CreateStreamTable,
    DropAllStreamTables,
    DropRefreshGroup,
    DropStreamTable,
    ExplainStreamTable,
    FoldStreamTable,
    RefreshAllStreamTables,
    RefreshStreamTable,
    RepairStreamTable,
    ResumeStreamTable,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    Show,
    ShowAlerts,
    ShowAudits,
    ShowChanges,
    ShowHealth,
    ShowHistory,
    Shown,
    ShowStreamTables,
    Statement,
    SuspendStreamTable,
    VacuumStreamTable,
    ValidateQuery,
    VerifyStreamTable,
    WaitFor,
    parse_statement,
)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE STREAM TABLE t AS SELECT 1", CreateStreamTable("t", "SELECT 1")),
        ("create stream table Sales.Revenue as select 1;", CreateStreamTable("Sales.Revenue", "select 1")),
        ("CREATE STREAM TABLE `s`.`t` AS SELECT 1", CreateStreamTable("s.t", "SELECT 1")),
        ('CREATE STREAM TABLE "s"."t" AS SELECT 1', CreateStreamTable("s.t", "SELECT 1")),
        ("CREATE OR REPLACE STREAM TABLE t AS SELECT 1", CreateStreamTable("t", "SELECT 1", or_replace=True)),
        ("CREATE STREAM TABLE IF NOT EXISTS t AS SELECT 1", CreateStreamTable("t", "SELECT 1", if_not_exists=True)),
        (
            "CREATE STREAM TABLE t SCHEDULE '1h30m' REFRESH MODE DIFFERENTIAL APPEND ONLY PARTITION BY (a, `b c`)"
            " FOLD manual WITH NO DATA AS SELECT 1",
            CreateStreamTable(
                "t",
                "SELECT 1",
                schedule="1h30m",
                refresh_mode=RefreshMode.DIFFERENTIAL,
                append_only=True,
                partition_by=("a", "b c"),
                fold=FoldPolicy.MANUAL,
                with_data=False,
            ),
        ),
        (
            "CREATE STREAM TABLE t WITH NO DATA PARTITIONED BY (a) REFRESH MODE incremental SCHEDULE CALCULATED"
            " AS WITH x AS (SELECT 1) SELECT * FROM x",
            CreateStreamTable(
                "t",
                "WITH x AS (SELECT 1) SELECT * FROM x",
                schedule="calculated",
                refresh_mode=RefreshMode.DIFFERENTIAL,
                partition_by=("a",),
                with_data=False,
            ),
        ),
        (
            "CREATE OR REPLACE STREAM TABLE t WITH (Tier = warm, fuse_rows = 10) WITH NO DATA AS SELECT 1",
            CreateStreamTable(
                "t", "SELECT 1", or_replace=True, with_data=False, options=(("tier", "warm"), ("fuse_rows", "10"))
            ),
        ),
        ("ALTER STREAM TABLE t SET QUERY AS SELECT 2", SetQuery("t", "SELECT 2")),
        ("ALTER STREAM TABLE t SET QUERY SELECT 2 ;", SetQuery("t", "SELECT 2")),
        ("ALTER STREAM TABLE t SET SCHEDULE '*/5 * * * *'", SetSchedule("t", "*/5 * * * *")),
        ('ALTER STREAM TABLE t SET SCHEDULE "5m"', SetSchedule("t", "5m")),
        ("ALTER STREAM TABLE t SET REFRESH MODE full", SetRefreshMode("t", RefreshMode.FULL)),
        (
            "ALTER STREAM TABLE t SET (Fold = 'always', n = 3, x = true, y = 'it''s')",
            SetOptions("t", (("fold", "always"), ("n", "3"), ("x", "true"), ("y", "it's"))),
        ),
        ("ALTER STREAM TABLE t SUSPEND", SuspendStreamTable("t")),
        ("ALTER STREAM TABLE t RESUME", ResumeStreamTable("t")),
        ("DROP STREAM TABLE t", DropStreamTable("t")),
        ("DROP STREAM TABLE IF EXISTS t CASCADE", DropStreamTable("t", if_exists=True, cascade=True)),
        ("DROP STREAM TABLE IF EXISTS s.t;;", DropStreamTable("s.t", if_exists=True)),
        ("REFRESH STREAM TABLE t", RefreshStreamTable("t")),
        ("REFRESH STREAM TABLE t FULL", RefreshStreamTable("t", full=True)),
        ("DROP ALL STREAM TABLES", DropAllStreamTables()),
        ("REFRESH ALL STREAM TABLES", RefreshAllStreamTables()),
        ("SHOW STREAM TABLES", ShowStreamTables()),
        ("SHOW STREAM TABLE HEALTH", ShowHealth()),
        ("SHOW STREAM TABLE ALERTS", ShowAlerts()),
        ("SHOW STREAM TABLE AUDITS", ShowAudits()),
        ("show stream table audits;", ShowAudits()),
        ("SHOW STREAM TABLE AUDITS s.t", ShowAudits("s.t")),
        ("AUDIT STREAM TABLE t", AuditStreamTable("t")),
        ("REPAIR STREAM TABLE t", RepairStreamTable("t")),
        ("SHOW STREAM TABLE HISTORY t", ShowHistory("t")),
        ("SHOW STREAM TABLE HISTORY health", ShowHistory("health")),
        ("EXPLAIN STREAM TABLE t", ExplainStreamTable("t")),
        ("CREATE REFRESH GROUP g (a, s.b)", CreateRefreshGroup("g", ("a", "s.b"))),
        ("DROP REFRESH GROUP g", DropRefreshGroup("g")),
        ("DROP REFRESH GROUP IF EXISTS g", DropRefreshGroup("g", if_exists=True)),
        ("SHOW REFRESH GROUPS", Show(Shown.GROUPS)),
        ("VACUUM STREAM TABLE t", VacuumStreamTable("t")),
        ("WAIT FOR STREAM TABLE t TO READ shop.public.o", WaitFor("t", "shop.public.o")),
        ("WAIT FOR STREAM TABLE t TO READ o VERSION 3 TIMEOUT 0.5", WaitFor("t", "o", 3, 0.5)),
        ("VALIDATE STREAM TABLE AS SELECT 1", ValidateQuery("SELECT 1")),
        ("VALIDATE STREAM TABLE DIALECT postgres AS SELECT 1::int", ValidateQuery("SELECT 1::int", "postgres")),
        ("DIAGNOSE STREAM TABLE t", Show(Shown.DIAGNOSIS, "t")),
        ("SHOW STREAM TABLE CHOICE t", Show(Shown.CHOICE, "t")),
        ("SHOW STREAM TABLE CHOICES t", Show(Shown.CHOICES, "t")),
        ("SHOW STREAM TABLE CHANGES t SINCE 3", ShowChanges("t", 3)),
        ("SHOW STREAM TABLE SOURCES", Show(Shown.SOURCES)),
        ("SHOW STREAM TABLE SOURCES t", Show(Shown.SOURCES, "t")),
        ("SHOW STREAM TABLE TREE", Show(Shown.TREE)),
        ("SHOW STREAM TABLE WORKERS", Show(Shown.WORKERS)),
        ("SHOW STREAM TABLE JOBS", Show(Shown.JOBS)),
        ("SHOW STREAM TABLE SETTINGS", Show(Shown.SETTINGS)),
        ("SHOW CDC STATUS", Show(Shown.CDC_STATUS)),
        ("SHOW CDC HEALTH", Show(Shown.CDC_HEALTH)),
        ("SHOW CDC SLOTS", Show(Shown.CDC_SLOTS)),
        ("SHOW CDC BUFFERS;", Show(Shown.CDC_BUFFERS)),
        ("VERIFY STREAM TABLE t", VerifyStreamTable("t")),
        ("FOLD STREAM TABLE t", FoldStreamTable("t")),
        ("\n-- why\n/* a /* nested */ comment */ show\tstream -- x\n tables ; ", ShowStreamTables()),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  -- nothing",
        ";",
        "SELECT 1",
        "CREATE TABLE stream (a INT) USING delta",
        "CREATE TABLE t AS SELECT 'CREATE STREAM TABLE x AS SELECT 1'",
        "CREATE STREAMING TABLE t AS SELECT 1",
        "'CREATE' STREAM TABLE t",
        "`CREATE` STREAM TABLE t",
        "REFRESH TABLE t",
        "REFRESH FUNCTION f",
        "EXPLAIN SELECT * FROM stream",
        "EXPLAIN EXTENDED SELECT 1",
        "DROP TABLE t",
        "SHOW TABLES",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "INSERT INTO stream TABLE x",
        "/* CREATE STREAM TABLE t AS SELECT 1",
        "'unfinished",
    ],
)
def test_everything_else_belongs_to_spark(text: str) -> None:
    assert parse_statement(text) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ';' AS a, \";\" AS b, `;` AS c",
        "SELECT 1 -- a; b\n, 2",
        "SELECT 1 /* ; /* ; */ ; */ + 1",
        "-- first\nSELECT 1",
        "SELECT 'it''s', 'a\\'b;', r'\\', \"x\"\"y;\" -- end",
        "SELECT\n\t1,\n   '  two  '",
        "FROM t |> WHERE a > 1",
        "SELECT 'unfinished ; string",
        "SELECT `unfinished ; name",
        "SELECT 1 /* unfinished ; comment",
        "SELECT a FROM t AS `SCHEDULE` WHERE 'ü' = \"日本\"",
    ],
)
@pytest.mark.parametrize("start", ["CREATE STREAM TABLE t AS ", "ALTER STREAM TABLE t SET QUERY AS\n"])
def test_the_query_is_kept_as_written(start: str, query: str) -> None:
    statement = parse_statement(start + query)
    assert isinstance(statement, CreateStreamTable | SetQuery)
    assert statement.query == query


@pytest.mark.parametrize(
    ("text", "place", "expected", "found"),
    [
        ("CREATE STREAM t AS SELECT 1", (1, 15), "TABLE", "t"),
        ("CREATE STREAM TABLE", (1, 20), "a stream table name", "the end"),
        ("CREATE STREAM TABLE AS SELECT 1", (1, 21), "a stream table name", "AS"),
        ("CREATE STREAM TABLE 't' AS SELECT 1", (1, 21), "a stream table name", "'t'"),
        ("CREATE STREAM TABLE s. AS", (1, 26), "SCHEDULE", "the end"),
        ("CREATE STREAM TABLE s.5 AS SELECT 1", (1, 23), "a name after '.'", "5"),
        ("CREATE STREAM TABLE t\n  SCHEDUL '5m'\nAS SELECT 1", (2, 3), "SCHEDULE", "SCHEDUL"),
        ("CREATE STREAM TABLE t SCHEDULE 5m AS SELECT 1", (1, 32), "a schedule in quotes", "5"),
        ("CREATE STREAM TABLE t SCHEDULE '5m AS SELECT 1", (1, 32), "a schedule in quotes", "without its end"),
        ("CREATE STREAM TABLE t REFRESH AUTO AS SELECT 1", (1, 23), "REFRESH MODE", "REFRESH"),
        ("CREATE STREAM TABLE t REFRESH MODE lazy AS SELECT 1", (1, 36), "AUTO, DIFFERENTIAL, FULL", "lazy"),
        ("CREATE STREAM TABLE t FOLD never AS SELECT 1", (1, 28), "ALWAYS, AUTO, MANUAL", "never"),
        ("CREATE STREAM TABLE t PARTITION BY a AS SELECT 1", (1, 36), "'('", "a"),
        ("CREATE STREAM TABLE t PARTITION BY () AS SELECT 1", (1, 37), "a column name", ")"),
        ("CREATE STREAM TABLE t PARTITION BY (a b) AS SELECT 1", (1, 39), "')'", "b"),
        ("CREATE STREAM TABLE t WITH DATA AS SELECT 1", (1, 23), "WITH NO DATA", "WITH"),
        ("CREATE STREAM TABLE t WITH () AS SELECT 1", (1, 29), "an option name", ")"),
        ("CREATE STREAM TABLE t WITH (a = 1, A = 2) AS SELECT 1", (1, 36), "each option once", "A"),
        ("CREATE STREAM TABLE t WITH (a = 1) WITH (b = 1) AS SELECT 1", (1, 36), "each clause once", "WITH"),
        ("CREATE STREAM TABLE t SCHEDULE '5m' SCHEDULE '6m' AS SELECT 1", (1, 37), "each clause once", "SCHEDULE"),
        ("CREATE STREAM TABLE t SELECT 1", (1, 23), "AS", "SELECT"),
        ("CREATE STREAM TABLE t AS", (1, 25), "a query", "the end"),
        ("CREATE STREAM TABLE t AS ; -- SELECT 1", (1, 26), "a query", ";"),
        ("CREATE STREAM TABLE t AS SELECT 1; SELECT 2", (1, 36), "the end of the statement", "SELECT"),
        ("CREATE OR REPLACE STREAM TABLE IF NOT EXISTS t AS SELECT 1", (1, 32), "OR REPLACE excludes", "IF"),
        ("ALTER STREAM TABLE t", (1, 21), "SET, SUSPEND or RESUME", "the end"),
        ("ALTER STREAM TABLE t RENAME TO u", (1, 22), "SET, SUSPEND or RESUME", "RENAME"),
        ("ALTER STREAM TABLE t SET TIER 'hot'", (1, 26), "QUERY, SCHEDULE, REFRESH MODE or '('", "TIER"),
        ("ALTER STREAM TABLE t SET ()", (1, 27), "an option name", ")"),
        ("ALTER STREAM TABLE t SET (a 'x')", (1, 29), "'='", "'x'"),
        ("ALTER STREAM TABLE t SET (a = )", (1, 31), "a value", ")"),
        ("ALTER STREAM TABLE t SET (a = 1", (1, 32), "')'", "the end"),
        ("ALTER STREAM TABLE t SET (a = 1, A = 2)", (1, 34), "each option once", "A"),
        ("ALTER STREAM TABLE t SUSPEND NOW", (1, 30), "the end of the statement", "NOW"),
        ("DROP STREAM TABLE", (1, 18), "a stream table name", "the end"),
        ("DROP STREAM TABLE a, b", (1, 20), "the end of the statement", ","),
        ("REFRESH STREAM TABLE t NOW", (1, 24), "the end of the statement", "NOW"),
        ("REFRESH ALL STREAM TABLE", (1, 20), "TABLES", "TABLE"),
        ("SHOW STREAM TABLE t", (1, 19), "HISTORY", "t"),
        ("EXPLAIN STREAM TABLE", (1, 21), "a stream table name", "the end"),
        ("CREATE REFRESH GROUP g a, b", (1, 24), "'('", "a"),
        ("CREATE REFRESH GROUP g ()", (1, 25), "a stream table name", ")"),
        ("SHOW STREAM TABLE CHANGES t", (1, 28), "SINCE", "the end"),
        ("SHOW STREAM TABLE CHANGES t SINCE 1.5", (1, 35), "a version", "1.5"),
        ("SHOW STREAM TABLE CHOICE", (1, 25), "a stream table name", "the end"),
        ("WAIT FOR STREAM TABLE t TO READ o VERSION 'x'", (1, 43), "a version", "'x'"),
        ("VALIDATE STREAM TABLE SELECT 1", (1, 23), "AS", "SELECT"),
    ],
)
def test_mistakes_are_placed_and_explained(text: str, place: tuple[int, int], expected: str, found: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        parse_statement(text)
    message = caught.value.message
    assert message.startswith(f"syntax error at line {place[0]}, column {place[1]}: expected ")
    assert expected in message.split(", found ")[0]
    assert message.rsplit(", found ", 1)[1].startswith(found) or found in message
    assert ">>>" in (caught.value.detail or "")


@pytest.mark.parametrize("name", ["`a b`", "`a.b`", "__fl_x", "a.b.c.d", "`1a`"])
def test_names_that_no_table_can_have_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_statement(f"CREATE STREAM TABLE {name} AS SELECT 1")


def test_long_texts_are_read_in_one_pass() -> None:
    query = "SELECT " + ", ".join(f"'{i}'''" for i in range(50_000))
    statement = parse_statement(f"CREATE STREAM TABLE t AS {query}")
    assert isinstance(statement, CreateStreamTable)
    assert statement.query == query
    assert parse_statement("CREATE STREAM TABLE t AS SELECT '" + "''" * 50_000) is not None


def test_a_query_in_another_dialect_is_taken_unread() -> None:
    text = "SELECT 'a\\' AS x, $$;$$ AS y FROM \"T\" -- '"
    found = parse_statement(f"CREATE STREAM TABLE t DIALECT postgres FOLD ALWAYS AS {text} ;\n;")
    assert isinstance(found, CreateStreamTable)
    assert (found.query, found.dialect) == (text, "postgres")
    assert parse_statement("ALTER STREAM TABLE t SET QUERY DIALECT PostgreSQL AS SELECT 1") == SetQuery(
        "t", "SELECT 1", "postgres"
    )
    assert parse_statement("ALTER STREAM TABLE t SET QUERY SELECT 1") == SetQuery("t", "SELECT 1")


@pytest.mark.parametrize(
    "text", ["CREATE STREAM TABLE t DIALECT postgres AS ;", "CREATE STREAM TABLE t DIALECT AS SELECT 1"]
)
def test_a_dialect_without_its_name_or_query(text: str) -> None:
    with pytest.raises(FreshlakeError):
        parse_statement(text)
