"""Tables on the terminal: nothing is cut, and values of a query are shown as SQL writes them."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from rich.console import Console

from freshlake.cli.terminal import Terminal

RECORDS = [
    {
        "table": "default.by_customer",
        "last_action": "DIFFERENTIAL",
        "rows": 1234,
        "columns_used": ("a", "b"),
        "error": None,
    },
    {"table": "other.sales", "last_action": "NO_DATA", "rows": 5, "columns_used": (), "error": None},
]
FIELDS = ("table", "last_action", "rows", "columns_used", "error")


def shown(width: int, *spare: str) -> list[str]:
    screen = io.StringIO()
    Terminal(out=Console(file=screen, width=width)).records(RECORDS, FIELDS, "", spare)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_names_are_short_lists_are_words_and_empty_columns_are_left_out() -> None:
    assert shown(80) == [
        "table        last action    rows  columns used",
        "──────────────────────────────────────────────",
        "by_customer  DIFFERENTIAL  1,234  a, b",
        "other.sales  NO_DATA           5",
    ]


def test_headings_take_several_lines_before_a_word_is_broken() -> None:
    assert shown(42)[:2] == ["             last                 columns", "table        action         rows  used"]


def test_spare_columns_are_left_out_one_by_one_where_there_is_no_room() -> None:
    spare = ("rows", "columns_used")
    assert shown(80, *spare) == shown(80)
    assert shown(33, *spare)[0] == "table        last action    rows"
    assert shown(28, *spare)[0] == "table        last action"
    assert shown(20, *spare) == shown(20)


def test_what_is_too_wide_becomes_a_list() -> None:
    assert shown(30) == [
        "table         by_customer",
        "last action   DIFFERENTIAL",
        "rows          1,234",
        "columns used  a, b",
        "",
        "table         other.sales",
        "last action   NO_DATA",
        "rows          5",
        "columns used",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(2026, "2026"), (True, "true"), (None, "NULL"), (Decimal("1234.50"), "1234.50"), (1.25, "1.25"), ([1], "[1]")],
)
def test_the_values_of_a_query_are_not_made_up(value: object, text: str) -> None:
    screen = io.StringIO()
    Terminal(out=Console(file=screen, width=40)).rows(["a"], [[value]])
    assert screen.getvalue().split()[-1] == text
