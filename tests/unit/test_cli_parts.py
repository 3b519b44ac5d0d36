"""The pieces of the command: splitting scripts, moving global options, turning values into plain data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import Row

from freshlake.catalog.enums import Action
from freshlake.cli.arguments import hoist, load_function, one_query
from freshlake.cli.plain import plain
from freshlake.cli.script import statements
from freshlake.errors import DefinitionNotImportable


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT 2;\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS `a;b`, \"x;y\"; SELECT 2", ["SELECT ';' AS `a;b`, \"x;y\"", "SELECT 2"]),
        ("-- first; really\nSELECT 1 /* ; */ + 1;", ["SELECT 1 /* ; */ + 1"]),
        ("SELECT 'it\\'s; here'; SELECT 'it''s; there'", ["SELECT 'it\\'s; here'", "SELECT 'it''s; there'"]),
        (";; -- nothing\n ;", []),
        ("SELECT 5 - 3 / 2", ["SELECT 5 - 3 / 2"]),
        ("BEGIN SELECT 1; SELECT 2; END", ["BEGIN SELECT 1; SELECT 2; END"]),
    ],
)
def test_a_script_is_split_only_where_a_statement_ends(script: str, expected: list[str]) -> None:
    assert statements(script) == expected


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["status", "--json"], ["--json", "status"]),
        (["refresh", "a", "--lake", "x", "--debug"], ["--lake", "x", "--debug", "refresh", "a"]),
        (["status", "--lake=x"], ["--lake=x", "status"]),
        (["sql", "--", "--json"], ["sql", "--", "--json"]),
        (["create", "a", "-f", "q.sql"], ["create", "a", "-f", "q.sql"]),
    ],
)
def test_global_options_may_stand_anywhere(given: list[str], parsed: list[str]) -> None:
    assert hoist(given) == parsed


@dataclass(frozen=True)
class Sample:
    action: Action
    path: Path
    frontier: dict[str, Any]
    sample: tuple[Any, ...]


def test_records_become_json_without_losing_values() -> None:
    record = Sample(
        Action.NO_DATA,
        Path("a/b"),
        {"orders": {"version": 3}},
        (Row(a=Decimal("1.20"), b=None), date(2026, 1, 2), b"\x01\xff", float("nan"), True, timedelta(seconds=1)),
    )
    assert json.loads(json.dumps(plain(record))) == {
        "action": "NO_DATA",
        "path": "a/b",
        "frontier": {"orders": {"version": 3}},
        "sample": [{"a": "1.20", "b": None}, "2026-01-02", "01ff", "nan", True, "0:00:01"],
    }
    assert plain(datetime(2026, 1, 2, 3, tzinfo=UTC)) == "2026-01-02T03:00:00+00:00"


def test_a_query_is_given_in_one_place(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 2")
    assert one_query(None, file) == "SELECT 2"
    assert one_query("SELECT 1", None) == "SELECT 1"
    with pytest.raises(typer.BadParameter):
        one_query("SELECT 1", file)


def test_a_function_is_imported_by_reference() -> None:
    assert load_function("math:floor")(1.5) == 1
    with pytest.raises(DefinitionNotImportable):
        load_function("math:no_such_name")
    with pytest.raises(DefinitionNotImportable):
        load_function("no_such_module:f")
    with pytest.raises(typer.BadParameter):
        load_function("math.floor")
