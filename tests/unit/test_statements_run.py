"""What each of Freshlake's statements asks of the API; the lake is played by a double."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from freshlake.catalog.names import TableName
from freshlake.errors import InvalidArgument
from freshlake.service import statements
from freshlake.service.options import DEFAULTS
from tests.unit.test_cli_commands import Double


@dataclass(frozen=True)
class Made:
    full_name: TableName
    shown_status: str = "ACTIVE"
    version: int = 1


CALLS = ("create_stream_table", "create_or_replace_stream_table", "alter_stream_table")
DEFINED = dict.fromkeys(CALLS, Made(TableName("default", "t")))


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Double:
    def as_list(_: object, records: Iterable[Any]) -> list[Any]:
        return list(records)

    monkeypatch.setattr(statements, "as_frame", as_list)
    return Double(answers=dict(DEFINED))


def run(lake: Double, text: str) -> Any:
    return statements.run(lake, text)  # type: ignore[arg-type]


def test_create_passes_on_clauses_and_properties(lake: Double) -> None:
    run(
        lake,
        "CREATE OR REPLACE STREAM TABLE t SCHEDULE '5m' REFRESH MODE AUTO WITH (never_full = true, fuse_rows = 9,"
        " partition_by = 'a, b') AS SELECT 1",
    )
    given = {"schedule": "5m", "refresh_mode": "AUTO", "never_full": "true", "fuse_rows": "9", "partition_by": "a, b"}
    assert lake.calls == [
        ("create_or_replace_stream_table", ("t", "SELECT 1"), {**given, "initialize": True, "dialect": None})
    ]


@pytest.mark.parametrize("name", DEFAULTS)
def test_create_and_alter_know_every_option(lake: Double, name: str) -> None:
    run(lake, f"CREATE STREAM TABLE t WITH ({name} = x) AS SELECT 1")
    run(lake, f"ALTER STREAM TABLE t SET ({name} = x)")
    assert [options[name] for _, _, options in lake.calls] == ["x", "x"]


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("SCHEDULE '5m' WITH (schedule = '6m')", "schedule is given twice"),
        ("WITH (append_only = false) APPEND ONLY", "append_only is given twice"),
        ("WITH (colour = red)", "'colour' is not a property"),
        ("WITH (status = suspended)", "'status' is not a property"),
    ],
)
def test_what_create_refuses_reaches_no_table(lake: Double, clauses: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        run(lake, f"CREATE STREAM TABLE t {clauses} AS SELECT 1")
    assert caught.value.hint
    assert lake.calls == []
