"""Views and functions that a query uses are found by name, and the one that changed is named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from freshlake.catalog.enums import TableKind
from freshlake.catalog.names import TableName
from freshlake.catalog.records import RegisteredTable
from freshlake.refresh.uses import differing, texts_used
from freshlake.statements.target import of_function

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(name: str, kind: TableKind, text: str | None = None) -> RegisteredTable:
    return RegisteredTable(TableName("default", name), kind, None, None, text, NOW)


LAKE = (
    entry("orders", TableKind.TABLE),
    entry("large", TableKind.VIEW, "SELECT taxed(amount) AS a FROM orders"),
    entry("taxed()", TableKind.FUNCTION, "taxed(x INT) RETURN x + 1"),
    entry("other()", TableKind.FUNCTION, "other(x INT) RETURN x"),
)


def test_what_a_view_uses_counts() -> None:
    assert set(texts_used("SELECT * FROM Large", LAKE)) == {"view large", "function taxed"}
    assert set(texts_used("SELECT amount FROM orders", LAKE)) == set()


def test_the_one_that_changed_is_named() -> None:
    before = texts_used("SELECT * FROM large", LAKE)
    changed = [*LAKE[:2], entry("taxed()", TableKind.FUNCTION, "taxed(x INT) RETURN x + 2"), LAKE[3]]
    assert differing(before, texts_used("SELECT * FROM large", changed)) == ("function taxed was changed",)
    assert differing(before, before) == ()
    assert differing({}, before) == ()


@pytest.mark.parametrize(
    ("text", "verb", "name", "body", "temporary"),
    [
        ("CREATE FUNCTION f(x INT) RETURN x", "CREATE", ("f",), "f(x INT) RETURN x", False),
        ("create or replace function a.`f`(x INT) return x", "CREATE", ("a", "f"), "a.`f`(x INT) return x", False),
        ("CREATE FUNCTION IF NOT EXISTS f AS 'com.Some'", "CREATE", ("f",), "f AS 'com.Some'", False),
        ("CREATE TEMPORARY FUNCTION f() RETURN 1", "CREATE", ("f",), "f() RETURN 1", True),
        ("DROP FUNCTION IF EXISTS a.f", "DROP", ("a", "f"), "a.f", False),
    ],
)
def test_statements_about_functions(text: str, verb: str, name: tuple[str, ...], body: str, temporary: bool) -> None:
    found = of_function(text)
    assert found is not None
    assert (found.verb, found.name, found.body, found.temporary) == (verb, name, body, temporary)


@pytest.mark.parametrize(
    "text", ["CREATE TABLE function (a INT)", "SELECT 1", "DROP TABLE f", "CREATE VIEW function AS x"]
)
def test_other_statements(text: str) -> None:
    assert of_function(text) is None
