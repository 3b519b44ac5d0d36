"""Names and statements in strings."""

from __future__ import annotations

import pytest

from freshlake.errors import Unsupported
from freshlake.statements.dynamic import written_out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM IDENTIFIER('totals') WHERE b", "SELECT a FROM totals WHERE b"),
        ("select identifier ( \"t.a\" ) from Identifier('s.`odd t`') t", "select t.a from s.`odd t` t"),
        ("DROP VIEW IDENTIFIER(r'totals')", "DROP VIEW totals"),
        ("SELECT IDENTIFIER('upper')(a) FROM t", "SELECT upper(a) FROM t"),
        ("SELECT identifier, x.identifier('a') FROM t", "SELECT identifier, x.identifier('a') FROM t"),
        ("SELECT 'IDENTIFIER(1) EXECUTE IMMEDIATE' -- IDENTIFIER(x)", None),
        ("SELECT execute, immediate FROM t", None),
    ],
)
def test_a_name_in_a_string_is_written_out(text: str, expected: str | None) -> None:
    assert written_out(text) == (text if expected is None else expected)


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "/* now */ execute immediate text USING 1",
        "BEGIN IF true THEN EXECUTE IMMEDIATE 'DROP VIEW totals'; END IF; END",
        "SELECT * FROM IDENTIFIER('tot' || 'als')",
        "SELECT * FROM IDENTIFIER(name)",
        "SELECT * FROM IDENTIFIER('to' 'tals')",
    ],
)
def test_what_is_known_only_when_it_runs_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        written_out(text)
