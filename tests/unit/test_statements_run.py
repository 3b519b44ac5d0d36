"""What each of Freshlake's statements asks of the API; the lake is played by a double."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from freshlake.catalog.names import TableName
from freshlake.catalog.records import RefreshGroup
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


@dataclass(frozen=True)
class Setting:
    name: str
    value: Any
    default: Any


GROUP = RefreshGroup("g", (TableName("default", "a"), TableName("s", "b")), datetime(2026, 5, 1, tzinfo=UTC))


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


@pytest.mark.parametrize(
    ("text", "call", "arguments"),
    [
        ("SHOW REFRESH GROUPS", "refresh_groups", ()),
        ("SHOW STREAM TABLE TREE", "dependency_tree", ()),
        ("SHOW STREAM TABLE SOURCES", "sources", (None,)),
        ("SHOW STREAM TABLE SOURCES t", "sources", ("t",)),
        ("SHOW STREAM TABLE WORKERS", "worker_pool_status", ()),
        ("SHOW STREAM TABLE JOBS", "parallel_job_status", ()),
        ("SHOW STREAM TABLE SETTINGS", "settings", ()),
        ("SHOW STREAM TABLE CHOICE t", "explain_choice", ("t",)),
        ("SHOW STREAM TABLE CHOICES t", "replay_choices", ("t",)),
        ("DIAGNOSE STREAM TABLE t", "doctor", ("t",)),
        ("SHOW CDC STATUS", "cdc_status", ()),
        ("SHOW CDC HEALTH", "check_cdc_health", ()),
        ("SHOW CDC SLOTS", "slot_health", ()),
        ("SHOW CDC BUFFERS", "change_buffer_sizes", ()),
        ("SHOW STREAM TABLE CHANGES t SINCE 3", "changes", ("t", 3)),
        ("VACUUM STREAM TABLE t", "vacuum", ("t",)),
        ("DROP ALL STREAM TABLES", "drop_all", ()),
        ("WAIT FOR STREAM TABLE t TO READ o", "wait_for", ("t", "o", None)),
    ],
)
def test_a_statement_is_one_call(lake: Double, text: str, call: str, arguments: tuple[object, ...]) -> None:
    lake.answers[call] = []
    run(lake, text)
    assert lake.calls == [(call, arguments, {})]


def test_a_group_is_shown_with_the_short_names_of_its_members(lake: Double) -> None:
    lake.answers |= {"create_refresh_group": GROUP, "refresh_groups": [GROUP]}
    shown = {"name": "g", "members": ("a", "s.b"), "created_at": GROUP.created_at}
    assert run(lake, "CREATE REFRESH GROUP g (a, s.b)") == [shown]
    assert run(lake, "SHOW REFRESH GROUPS") == [shown]
    assert run(lake, "DROP REFRESH GROUP IF EXISTS g") == []
    assert lake.calls == [
        ("create_refresh_group", ("g", ("a", "s.b")), {}),
        ("refresh_groups", (), {}),
        ("drop_refresh_group", ("g",), {"if_exists": True}),
    ]


def test_values_of_several_types_are_shown_as_text(lake: Double) -> None:
    lake.answers["settings"] = [Setting("enabled", True, True), Setting("lease_seconds", 9, 60)]
    found = run(lake, "SHOW STREAM TABLE SETTINGS")
    assert [(each.value, each.default) for each in found] == [("True", "True"), ("9", "60")]


def test_waiting_and_validating_pass_on_what_was_said(lake: Double) -> None:
    lake.answers["wait_for"] = 7
    waited = run(lake, "WAIT FOR STREAM TABLE t TO READ o VERSION 3 TIMEOUT 0.5")
    assert waited == [{"name": "t", "source": "o", "version": 7}]
    run(lake, "VALIDATE STREAM TABLE DIALECT postgres AS SELECT 1")
    assert lake.calls == [
        ("wait_for", ("t", "o", 3), {"timeout": 0.5}),
        ("validate", ("SELECT 1",), {"dialect": "postgres"}),
    ]
