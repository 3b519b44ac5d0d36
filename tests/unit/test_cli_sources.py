"""The commands about source databases: what they ask of the API and what they print; a double plays the lake."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import freshlake
from freshlake.errors import CaptureUnsupported
from freshlake.service.sources import SourceDatabaseInfo
from tests.unit.test_cli_commands import Double, run

SHOP = SourceDatabaseInfo(
    name="shop",
    connection="env:SHOP",
    schemas=None,
    tables=None,
    cdc_mode="auto",
    captured_by="trigger",
    captured_tables=("public.orders",),
    position=7,
    created_at=datetime(2026, 5, 1, tzinfo=UTC),
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    double = Double(answers={"add_postgres": SHOP, "alter_source": SHOP, "list_sources": [SHOP]})
    monkeypatch.setattr(freshlake, "connect", lambda path: double, raising=False)
    monkeypatch.setenv("FRESHLAKE_LAKE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return double


def test_add_passes_on_what_may_be_captured_and_how(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--schema", "public", "--table", "public.a", "--table", "public.b", "--as-text", "public.a.shape")
    assert run("source", "add", "shop", "env:SHOP", *limits, "--cdc-mode", "WAL") == 0
    given = {"schemas": ["public"], "tables": ["public.a", "public.b"], "as_text": ["public.a.shape"]}
    assert lake.calls == [("add_postgres", ("shop", "env:SHOP"), {**given, "cdc_mode": "wal"})]
    assert "public.orders" in capsys.readouterr().out


def test_alter_needs_a_mode_and_passes_it_on(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("source", "alter", "shop") == 2
    assert run("source", "alter", "shop", "--cdc-mode", "telepathy") == 2
    assert lake.calls == []
    capsys.readouterr()
    assert run("source", "alter", "shop", "--cdc-mode", "trigger", "--json") == 0
    assert lake.calls == [("alter_source", ("shop",), {"cdc_mode": "trigger", "as_text": None})]
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["cdc_mode"], shown["captured_by"]) == ("auto", "trigger")
    assert run("source", "alter", "shop", "--as-text", "public.t.a", "--as-text", "public.t.b") == 0
    assert lake.calls[-1][2] == {"cdc_mode": None, "as_text": ["public.t.a", "public.t.b"]}
    assert run("source", "alter", "shop", "--no-as-text") == 0
    assert lake.calls[-1][2] == {"cdc_mode": None, "as_text": []}
    assert run("source", "alter", "shop", "--no-as-text", "--as-text", "public.t.a") == 2


def test_a_refusal_is_shown_with_its_code_and_hint(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["alter_source"] = CaptureUnsupported("table public.t cannot be captured", hint="give it a key")
    assert run("source", "alter", "shop", "--cdc-mode", "wal") != 0
    printed = capsys.readouterr().err
    assert "capture-unsupported" in printed
    assert "give it a key" in printed


def test_list_and_drop(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("source", "list") == 0
    assert "trigger" in capsys.readouterr().out
    assert run("source", "drop", "shop", "--cascade", "--if-exists") == 0
    assert lake.calls[-1] == ("drop_source", ("shop",), {"if_exists": True, "cascade": True})
