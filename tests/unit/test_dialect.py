"""The PostgreSQL dialect without a database: what is refused and where, and texts that must not change meaning."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from freshlake.dialect import Dialect, to_spark
from freshlake.dialect.aggregates import AGGREGATES, WINDOWS
from freshlake.dialect.functions import FUNCTIONS
from freshlake.dialect.intervals import Interval, parse_interval
from freshlake.dialect.patterns import UnknownPattern, of_regex, of_similar
from freshlake.dialect.types import array, of_spark
from freshlake.errors import FreshlakeError, InvalidArgument, InvalidQuery, TableNotFound, UnsupportedTranslation
from tests.docs.markdown import DOCS, sections, tables
from tests.integration.postgres_queries import COLUMNS

PAGE = (DOCS / "reference" / "postgres.md").read_text(encoding="utf-8")
REFUSED = next(table for _, table in tables(sections(PAGE)["Refused"])).rows
_JSON = {"INT": "integer", "BIGINT": "long", "DECIMAL(10,2)": "decimal(10,2)"}
_LISTS = {
    "ARRAY<INT>": '{"type":"array","elementType":"integer","containsNull":true}',
    "ARRAY<STRING>": '{"type":"array","elementType":"string","containsNull":true}',
}


def columns_of(table: str) -> list[tuple[str, str]]:
    if table not in COLUMNS:
        raise TableNotFound(f"there is no table {table}")
    return [(name, _JSON.get(kind) or _LISTS.get(kind) or kind.lower()) for name, _, kind in COLUMNS[table]]


def spark(query: str) -> str:
    """On one line."""
    return re.sub(r"\s+", " ", to_spark(query, Dialect.POSTGRES, columns_of))


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_what_the_page_says_is_refused(row: tuple[str, ...]) -> None:
    example, construct, code, rewrite = row
    with pytest.raises(FreshlakeError) as caught:
        spark(example.strip("`"))
    error = caught.value
    assert (error.construct, f"`{error.code}`", error.hint) == (construct, code, rewrite)
    assert error.detail or error.code == "non-deterministic"


def test_the_page_names_every_function() -> None:
    shown = sections(PAGE)
    for title, names in (("Functions", FUNCTIONS), ("Aggregates", AGGREGATES), ("Window functions", WINDOWS)):
        listed = set(re.findall(r"`(\w+)`", shown[title].partition(";")[0].partition(", with ")[0]))
        assert listed == set(names) - {"strposition"}


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("SELECT n,\n  initcap(s)\nFROM t", (2, 3)),
        ("SELECT *\nFROM t\nFOR SHARE", (3, 1)),
        ("SELECT id FROM t\n  TABLESAMPLE SYSTEM (1)", (2, 3)),
        ("SELECT id\nFROM t WHERE s ~ k", (2, 14)),
    ],
)
def test_a_refusal_says_where(query: str, position: tuple[int, int]) -> None:
    with pytest.raises(FreshlakeError) as caught:
        spark(query)
    assert caught.value.position == position
    assert f"line {position[0]}, column {position[1]}" in str(caught.value)
    assert caught.value.to_dict()["position"] == {"line": position[0], "column": position[1]}


@pytest.mark.parametrize(
    "query",
    ["SELEC 1", "SELECT n FROM t WHERE", "SELECT 1; SELECT 2", "UPDATE t SET n = 1", "", "SELECT 'open", "SELECT ("],
)
def test_what_is_no_query_is_invalid(query: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        spark(query)
    assert "sqlglot" not in str(caught.value)


def test_a_captured_table_has_three_parts() -> None:
    asked = []

    def columns_of(table: str) -> list[tuple[str, str]]:
        asked.append(table)
        return [("id", "long"), ("region", "string")]

    query = "SELECT o.region FROM Shop.public.Orders AS o JOIN shop.public.items ON items.id = o.id"
    shown = re.sub(r"\s+", " ", to_spark(query, Dialect.POSTGRES, columns_of))
    assert shown == "SELECT o.region FROM shop.public.orders AS o JOIN shop.public.items ON items.id = o.id"
    assert asked == ["shop.public.orders", "shop.public.items"]


def test_a_table_that_does_not_exist_is_named() -> None:
    with pytest.raises(TableNotFound, match="nothing"):
        spark("SELECT * FROM nothing")
    assert "FROM x" in spark("WITH x AS (SELECT 1 AS a) SELECT a FROM x")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 'it''s' AS a", r"SELECT 'it\'s' AS a"),
        (r"SELECT 'a\b' AS a", r"SELECT 'a\\b' AS a"),
        ("SELECT n / 2 AS a FROM t", "SELECT CAST(div(n, 2) AS INT) AS a FROM t"),
        ("SELECT b / 2 AS a FROM t", "SELECT div(b, 2) AS a FROM t"),
        ("SELECT n FROM t ORDER BY n, id DESC", "SELECT n FROM t ORDER BY n NULLS LAST, id DESC NULLS FIRST"),
        ('SELECT N AS "N", K FROM T', "SELECT n AS N, k FROM t"),
        ("SELECT count(*) FROM t", "SELECT count(*) AS count FROM t"),
        ("SELECT - - n AS a FROM t", "SELECT -( -n ) AS a FROM t"),
        ("SELECT 1e3 AS a", "SELECT 1000BD AS a"),
        ("SELECT '2024-03-10 07:30+01'::timestamptz AS a", "SELECT CAST('2024-03-10 07:30:00+01' AS TIMESTAMP) AS a"),
        ("SELECT '2024-03-10 07:30'::timestamp AS a", "SELECT CAST('2024-03-10 07:30' AS TIMESTAMP_NTZ) AS a"),
        ("SELECT n -- a comment\nFROM t /* another */", "SELECT n FROM t"),
        ('SELECT n AS "left" FROM t', "SELECT n AS `left` FROM t"),
    ],
)
def test_a_text_as_spark_reads_it(query: str, text: str) -> None:
    assert spark(query) == text


def test_a_column_named_like_a_made_up_name_is_not_captured() -> None:
    text = spark("SELECT element = ANY(arr) AS a FROM (SELECT n AS element, arr FROM t) x")
    assert "exists(arr, __fl_element -> element = __fl_element)" in text


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("n > ALL (SELECT y FROM u)", "NOT EXISTS( SELECT 1 FROM ( SELECT y FROM u ) AS __fl_query(__fl_value)"),
        ("n > ANY (SELECT y FROM u)", "EXISTS( SELECT 1 FROM ( SELECT y FROM u ) AS __fl_query(__fl_value)"),
        ("n = ANY (SELECT y FROM u)", "n IN ( SELECT y FROM u )"),
    ],
)
def test_any_and_all_of_a_subquery_are_one_join_where_only_true_counts(condition: str, text: str) -> None:
    assert spark(f"SELECT id FROM t WHERE {condition}").startswith(f"SELECT id FROM t WHERE {text}")
    # NULL is not FALSE under NOT and as a value
    kept = [spark(f"SELECT id FROM t WHERE NOT ({condition})"), spark(f"SELECT {condition} AS a FROM t")]
    assert ["THEN NULL" in query and query.count("EXISTS(") == 2 for query in kept] == [True, True]


def test_types_that_are_not_known_are_refused_only_where_they_matter() -> None:
    def struct(_: str) -> list[tuple[str, str]]:
        return [("a", '{"type":"struct","fields":[]}'), ("b", "variant")]

    assert to_spark("SELECT a FROM x", Dialect.POSTGRES, struct)
    with pytest.raises(UnsupportedTranslation, match="/"):
        to_spark("SELECT b / 2 FROM x", Dialect.POSTGRES, struct)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("1 day", Interval(0, 1, 0)),
        ("1 year 2 months", Interval(14, 0, 0)),
        ("-1 mon 2 days 03:04:05.5", Interval(-1, 2, 11_045_500_000)),
        ("2 weeks ago", Interval(0, -14, 0)),
        ("90 minutes", Interval(0, 0, 5_400_000_000)),
        ("-00:00:01", Interval(0, 0, -1_000_000)),
        ("1.5 seconds", Interval(0, 0, 1_500_000)),
        ("1.5 days", None),
        ("1 fortnight", None),
        ("soon", None),
        ("", None),
        ("5", None),
    ],
)
def test_an_interval_is_read_whole_or_not_at_all(text: str, interval: Interval | None) -> None:
    assert parse_interval(text) == interval


def test_an_interval_of_two_kinds_is_two_in_spark() -> None:
    assert Interval(14, -3, -1).spark() == ["INTERVAL '14' MONTH", "INTERVAL '-3 00:00:00.000001' DAY TO SECOND"]
    assert Interval(0, 1, 0).spark() == ["INTERVAL '1' DAY"]
    assert Interval().spark() == ["INTERVAL '0' SECOND"]


def test_patterns_keep_their_meaning_or_are_unknown() -> None:
    assert of_regex("^a.b$", False) == r"(?s)^a.b\z"
    assert of_regex("a", True) == "(?siu)a"
    assert of_similar("a.%_") == r"(?s)\A(?:a\..*.)\z"
    for pattern in (r"\y", "(?i)a", "[[:digit:]]", "a{", r"\1", "a++", "(?<!a)b", "[a"):
        with pytest.raises(UnknownPattern):
            of_regex(pattern, False)


def test_types_come_from_spark() -> None:
    assert str(of_spark("decimal(10,2)")) == "numeric"
    assert of_spark("decimal(10,2)").digits == (10, 2)
    assert of_spark(_LISTS["ARRAY<INT>"]) == array(of_spark("integer"))
    assert str(of_spark('{"type":"map"}')) == "other"


def test_dialects_have_names() -> None:
    assert Dialect.parse(None) is Dialect.SPARK
    assert Dialect.parse("PostgreSQL") is Dialect.POSTGRES
    with pytest.raises(InvalidArgument, match="oracle"):
        Dialect.parse("oracle")


def test_sqlglot_is_imported_only_when_it_is_needed() -> None:
    code = "import sys, freshlake.lake, freshlake.cli.app; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
