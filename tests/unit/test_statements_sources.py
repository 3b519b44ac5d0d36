"""Statements about source databases."""

from __future__ import annotations

import pytest

from freshlake.errors import InvalidStatement
from freshlake.statements import AlterSource, CreateSource, DropSource, ShowSources, Statement, parse_statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'env:SHOP'", CreateSource("shop", "env:SHOP")),
        (
            "create source `Shop` from postgres connection 'service:s' cdc mode wal "
            'tables (public.Orders, "My".items) schemas (public, My) as text (public.orders.shape);',
            CreateSource(
                *("Shop", "service:s", ("public", "My"), ("public.Orders", "My.items")),
                *(("public.orders.shape",), "wal"),
            ),
        ),
        ("ALTER SOURCE shop SET CDC MODE Wal", AlterSource("shop", "wal")),
        ("alter source shop set as text (public.t.a)", AlterSource("shop", as_text=("public.t.a",))),
        ("ALTER SOURCE shop SET AS TEXT ()", AlterSource("shop", as_text=())),
        ("DROP SOURCE shop", DropSource("shop")),
        ("DROP SOURCE IF EXISTS shop CASCADE", DropSource("shop", True, True)),
        ("SHOW SOURCES", ShowSources()),
    ],
)
def test_a_statement_is_read(text: str, expected: Statement) -> None:
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SOURCE FROM POSTGRES", "expected FROM"),
        ("CREATE SOURCE shop FROM MYSQL CONNECTION 'x'", "expected POSTGRES"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION env", "expected where the address is kept"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'x' SCHEMAS public", "expected '('"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'x' SCHEMAS (a) SCHEMAS (b)", "expected each clause once"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'x' CDC MODE fast", "expected a mode of capture"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'x' AND more", "expected the end of the statement"),
        ("ALTER SOURCE shop SET MODE wal", "expected CDC"),
        ("ALTER SOURCE shop SET CDC MODE off", "expected a mode of capture"),
        ("CREATE SOURCE shop FROM POSTGRES CONNECTION 'x' SCHEMAS ()", "expected a schema"),
        ("DROP SOURCE", "expected the name of a source"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, expected: str) -> None:
    with pytest.raises(InvalidStatement, match=expected.replace("(", r"\(")):
        parse_statement(text)
