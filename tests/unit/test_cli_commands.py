"""What each command asks of the API, what it prints, and how it exits; the lake is played by a double."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import freshlake
from freshlake.alerts import Alert, Event
from freshlake.catalog.enums import Action, AuditOutcome, RefreshMode
from freshlake.catalog.names import TableName
from freshlake.catalog.records import RefreshGroup
from freshlake.cli import main
from freshlake.errors import CatalogUnavailable, DataError, FreshlakeError, NotFound, UnsupportedLimit
from freshlake.refresh.result import FoldResult, RefreshResult, Verification
from freshlake.service.audits import AuditRecord
from freshlake.service.choices import Choice, PastChoice
from freshlake.service.doctor import Diagnosis, Verdict
from freshlake.service.report import Finding, Severity, TreeLine


@dataclass(frozen=True)
class Table:
    name: str
    status: str = "ACTIVE"


@dataclass(frozen=True)
class Loaded:
    name: str
    is_populated: bool


@dataclass(frozen=True)
class Reason:
    code: str
    message: str
    hint: str
    position: tuple[int, int] | None = None


@dataclass(frozen=True)
class Answer:
    differential: bool
    reasons: tuple[Reason, ...] = ()
    query: str = ""


@dataclass
class Double:
    """Remembers what it was asked; `answers` may replace an answer."""

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name != "close":
                self.calls.append((name, arguments, options))
            answer = self.answers.get(name, DEFAULTS.get(name))
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return call

    @property
    def asked(self) -> list[str]:
        return [name for name, _, _ in self.calls]


def refreshed(name: str) -> RefreshResult:
    return RefreshResult(name, Action.DIFFERENTIAL, None, 1234, 2, 56.7, {"sources": {}}, 3, spark_jobs=4)


def verified(name: str) -> Verification:
    return Verification(name, True, 0, 0, 10, (), (), {})


DEFAULTS: dict[str, Any] = {
    "status": [Table("revenue"), Table("top")],
    "refresh": refreshed,
    "refresh_all": [refreshed("revenue"), refreshed("top")],
    "verify": verified,
    "fold": lambda name: FoldResult(name, 2, 5, 7.0),
    "history": [],
    "sources": [],
    "validate": Answer(True),
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    double = Double()
    monkeypatch.setattr(freshlake, "connect", lambda path: double, raising=False)
    monkeypatch.setenv("FRESHLAKE_LAKE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return double


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_refresh_prints_what_happened(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("refresh", "revenue", "--mode", "full") == 0
    assert lake.calls == [("refresh", ("revenue",), {"mode": RefreshMode.FULL})]
    printed = capsys.readouterr().out
    for shown in ("revenue", "DIFFERENTIAL", "1,234", "57"):
        assert shown in printed


def test_json_has_every_field(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("refresh", "--all", "--json") == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["table"] for record in records] == ["revenue", "top"]
    assert records[0]["frontier"] == {"sources": {}}
    assert records[0]["action"] == "DIFFERENTIAL"


def skipped(name: str, reason: str, error: FreshlakeError | None = None) -> RefreshResult:
    told = error.to_dict() if error else None
    return RefreshResult(name, Action.SKIPPED, reason, 0, 0, 0.0, {}, 3, error=told)


def test_refresh_all_ends_with_1_when_a_table_failed(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = DataError("division by zero", hint="use try_divide")
    failed = [skipped("revenue", "data-error", wrong), skipped("top", "upstream-failed", wrong), refreshed("other")]
    lake.answers["refresh_all"] = failed
    assert run("refresh", "--all") == 1
    shown = capsys.readouterr()
    assert [shown.out.count(word) for word in ("upstream-failed", "DIFFERENTIAL")] == [1, 1]
    assert [shown.err.count(word) for word in ("data-error division by zero", "use try_divide")] == [1, 1]
    assert run("refresh", "--all", "--json") == 1
    shown = capsys.readouterr()
    codes = [(record["error"] or {}).get("code") for record in json.loads(shown.out)]
    assert (codes, shown.err) == (["data-error", "data-error", None], "")


def test_an_error_of_refreshed_tables_that_could_not_be_published_is_told_once(
    lake: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    told = CatalogUnavailable("the catalog does not answer").to_dict()
    lake.answers["refresh_all"] = [replace(refreshed(name), error=told) for name in ("revenue", "top")]
    assert run("refresh", "--all") == 1
    assert capsys.readouterr().err.count("the catalog does not answer") == 1


@pytest.mark.parametrize("reason", ["suspended", "quarantined", "refresh-in-progress"])
def test_refresh_all_ends_with_0_when_nothing_failed(lake: Double, reason: str) -> None:
    lake.answers["refresh_all"] = [refreshed("revenue"), skipped("top", reason)]
    assert run("refresh", "--all") == 0


@pytest.mark.parametrize(
    "words",
    [
        ("refresh",),
        ("refresh", "a", "--all"),
        ("refresh", "--all", "--mode", "full"),
        ("verify",),
        ("fold",),
        ("audit",),
        ("drop",),
        ("drop", "a", "--all"),
        ("repair",),
        ("create", "a"),
        ("create", "a", "SELECT 1", "--file", __file__),
        ("alter", "a"),
        ("create", "a", "SELECT 1", "--mode", "sometimes"),
        ("history", "a", "--limit", "0"),
        ("alerts", "--limit", "0"),
        ("no-such-command",),
    ],
)
def test_wrong_usage_exits_with_2_and_opens_nothing(lake: Double, words: tuple[str, ...]) -> None:
    assert run(*words) == 2
    assert lake.calls == []


def test_verify_exits_with_3_on_a_difference(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["verify"] = lambda name: Verification(name, False, 1, 0, 10, ({"region": "north", "n": 2},), (), {})
    assert run("verify", "revenue") == 3
    assert "north" in capsys.readouterr().out
    assert run("verify", "--all", "--json") == 3
    assert [record["equal"] for record in json.loads(capsys.readouterr().out)] == [False, False]


def test_verify_exits_with_0_when_all_is_equal(lake: Double) -> None:
    assert run("verify", "--all") == 0
    assert lake.asked == ["status", "verify", "verify"]


AT = datetime(2026, 5, 1, tzinfo=UTC)


def audited(name: str, outcome: str = "EQUAL") -> AuditRecord:
    return AuditRecord(name, 1, AT, AT, AuditOutcome(outcome), "request", 3, 0, 0, 9, (), None, None, None)


@pytest.mark.parametrize(("outcome", "code"), [("EQUAL", 0), ("REPAIRED", 0), ("MISMATCH", 3), ("UNREPAIRED", 3)])
def test_audit_and_repair_exit_with_3_if_a_table_is_left_in_quarantine(lake: Double, outcome: str, code: int) -> None:
    for command in ("audit", "repair"):
        lake.answers[command] = lambda name: audited(name, outcome)
        assert run(command, "revenue", "top") == code
        assert lake.calls[-2:] == [(command, ("revenue",), {}), (command, ("top",), {})]
    assert run("audit", "--all") == code


def test_audits_are_shown_of_all_or_of_one_table(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["audits"] = lambda name=None: [audited("revenue", "NOT_VERIFIED")]
    assert run("audits") == 0
    assert "NOT_VERIFIED" in capsys.readouterr().out
    assert run("audits", "revenue", "--limit", "3") == 0
    assert lake.calls == [("audits", (None,), {"limit": 20}), ("audits", ("revenue",), {"limit": 3})]


def test_alerts_are_shown_and_asked_for_by_event_and_table(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    lake.answers["alerts"] = [Alert(Event.RESUMED, at, "revenue", {"by": "request"}, 7)]
    assert run("alerts", "--event", "resumed", "--table", "revenue", "--limit", "3") == 0
    assert lake.calls == [("alerts", (3, "resumed", "revenue"), {})]
    printed = capsys.readouterr().out
    for shown in ("2026-", "resumed", "revenue", '{"by": "request"}'):
        assert shown in printed
    assert run("alerts", "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["id"], record["event"], record["payload"]) == (7, "resumed", {"by": "request"})


def test_health_exits_with_1_only_on_an_error(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    warning = Finding(Severity.WARNING, "stale-data", "revenue", "its data is old", "refresh it")
    lake.answers["health"] = [warning]
    assert run("health") == 0
    assert "stale-data" in capsys.readouterr().out
    lake.answers["health"] = [replace(warning, severity=Severity.ERROR), warning]
    assert run("health", "--json") == 1
    shown = capsys.readouterr()
    assert [record["severity"] for record in json.loads(shown.out)] == ["ERROR", "WARNING"]
    assert shown.err == ""


def test_the_doctor_exits_with_1_only_on_an_error(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    late = Diagnosis("status", Verdict.WARNING, "stale-data: it is late", "refresh it")
    lake.answers["doctor"] = [late]
    assert run("doctor", "totals") == 0
    assert "stale-data" in capsys.readouterr().out
    lake.answers["doctor"] = [late, replace(late, verdict=Verdict.ERROR)]
    assert run("doctor", "totals", "--json") == 1
    assert [line["verdict"] for line in json.loads(capsys.readouterr().out)] == ["WARNING", "ERROR"]


def test_a_healthy_lake_is_called_one(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["health"] = []
    assert run("health") == 0
    assert "healthy" in capsys.readouterr().err


def test_an_error_shows_code_message_and_hint_but_no_stack(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["refresh"] = NotFound("there is no stream table nope", hint="see `freshlake status`")
    assert run("refresh", "nope") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "not-found there is no stream table nope" in shown.err
    assert "see `freshlake status`" in shown.err
    assert "Traceback" not in shown.err


def test_an_error_is_json_when_asked_for(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["refresh"] = NotFound("there is no stream table nope")
    assert run("refresh", "nope", "--json") == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "not-found"


def test_a_defect_is_called_one(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["status"] = ZeroDivisionError("division by zero")
    assert run("status") == 1
    assert "internal-error ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_debug_lets_the_error_through(lake: Double) -> None:
    lake.answers["status"] = NotFound("nope")
    with pytest.raises(NotFound):
        main(["status", "--debug"])


def test_looking_at_a_lake_does_not_make_one(lake: Double, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "--lake", str(tmp_path / "none")) == 1
    assert "lake-not-found" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert lake.calls == []


def test_create_passes_on_only_what_was_said(lake: Double) -> None:
    assert run("create", "revenue", "SELECT 1 AS a") == 0
    assert lake.calls[0] == ("create_stream_table", ("revenue", "SELECT 1 AS a"), {})


def test_create_passes_on_all_options(lake: Double, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 2 AS a")
    words = ("--schedule", "5m", "--mode", "DIFFERENTIAL", "--fold", "manual", "--partition-by", "a", "--empty")
    assert run("create", "revenue", "-f", str(tmp_path / "q.sql"), *words, "--existing", "replace") == 0
    assert lake.calls[0] == (
        "create_or_replace_stream_table",
        ("revenue", "SELECT 2 AS a"),
        {
            "schedule": "5m",
            "refresh_mode": "DIFFERENTIAL",
            "fold_policy": "manual",
            "partition_by": ["a"],
            "initialize": False,
        },
    )


def test_alter_passes_on_only_what_changes(lake: Double) -> None:
    assert run("alter", "revenue", "--status", "suspended") == 0
    assert lake.calls[0] == ("alter_stream_table", ("revenue",), {"status": "SUSPENDED"})
    assert run("alter", "revenue", "--partition-by", "a", "--partition-by", "b", "--no-append-only") == 0
    assert lake.calls[2] == (
        "alter_stream_table",
        ("revenue",),
        {"partition_by": ["a", "b"], "append_only": False},
    )


def test_validate_says_why_not(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["validate"] = Answer(False, (Reason("no-rule", "Window has no rule yet", "use FULL"),))
    assert run("validate", "SELECT 1") == 0
    printed = capsys.readouterr().out
    assert "full" in printed
    assert "Window has no rule yet" in printed


def test_a_query_in_another_dialect_is_shown_as_spark_runs_it(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["validate"] = Answer(True, query="SELECT div(7, 2)")
    assert run("validate", "SELECT 7 / 2", "--dialect", "POSTGRES") == 0
    assert lake.calls == [("validate", ("SELECT 7 / 2",), {"dialect": "postgres"})]
    assert "SELECT div(7, 2)" in capsys.readouterr().out
    assert run("create", "a", "SELECT 1", "--dialect", "postgres") == 0
    assert lake.calls[1] == ("create_stream_table", ("a", "SELECT 1"), {"dialect": "postgres"})
    assert run("validate", "SELECT 1", "--dialect", "oracle") == 2


def test_a_refusal_is_shown_with_its_place(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["validate"] = UnsupportedLimit("no order", construct="LIMIT", position=(2, 7))
    assert run("validate", "SELECT 1") == 1
    assert "line 2, column 7" in capsys.readouterr().err
    assert run("validate", "SELECT 1", "--json") == 1
    shown = json.loads(capsys.readouterr().err)["error"]
    assert (shown["construct"], shown["position"]) == ("LIMIT", {"line": 2, "column": 7})


def test_an_empty_list_is_a_remark_not_a_table(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["status"] = []
    assert run("status") == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "freshlake create" in shown.err
    assert run("status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_drop_and_resume_call_the_api(lake: Double) -> None:
    assert run("drop", "a", "b") == 0
    assert run("resume", "a") == 0
    assert lake.asked == ["drop_stream_table", "drop_stream_table", "resume", "status"]


def test_drop_all_asks_for_all_or_for_names(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["drop_all"] = ["a", "b"]
    assert run("drop", "--all", "--json") == 0
    assert lake.calls == [("drop_all", (), {})]
    assert json.loads(capsys.readouterr().out) == {"dropped": ["a", "b"]}


def test_what_was_changed_is_shown_and_no_other_table_of_that_name(
    lake: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.answers["status"] = [Table("copy"), Table("sales.copy"), Table("other.copy")]
    for given, name in (("sales.COPY", "sales.copy"), ("copy", "copy"), ("spark_catalog.default.copy", "copy")):
        assert run("resume", given, "--json") == 0
        assert [record["name"] for record in json.loads(capsys.readouterr().out)] == [name]


def test_config_shows_settings_without_opening_the_lake(
    lake: Double, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "freshlake.toml").write_text('lease_seconds = 90\ncatalog = "postgresql://u:secret@h/d"\n')
    assert run("config", "--json") == 0
    printed = capsys.readouterr().out
    found = {record["name"]: (record["value"], record["origin"]) for record in json.loads(printed)}
    assert found["lease_seconds"] == (90, "freshlake.toml")
    assert found["catalog"] == ("postgresql://h/…", "freshlake.toml")
    assert "secret" not in printed
    assert run("config", "--lake", str(tmp_path / "none")) == 1
    (tmp_path / "freshlake.toml").write_text("lease_seconds = 0\n")
    assert run("config") == 1
    assert "invalid-setting" in capsys.readouterr().err
    assert lake.calls == []


def test_a_group_is_made_shown_and_dropped(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    group = RefreshGroup("g", (TableName("default", "a"), TableName("s", "b")), AT)
    lake.answers |= {"create_refresh_group": group, "refresh_groups": [group]}
    assert run("group", "create", "g", "a", "s.b") == 0
    assert "a, s.b" in capsys.readouterr().out
    assert run("group", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["members"] == ["a", "s.b"]
    assert run("group", "drop", "g", "--if-exists") == 0
    assert lake.calls == [
        ("create_refresh_group", ("g", ["a", "s.b"]), {}),
        ("refresh_groups", (), {}),
        ("drop_refresh_group", ("g",), {"if_exists": True}),
    ]
    assert run("group", "create", "g") == 2


def test_vacuum_leaves_out_what_was_never_loaded(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers |= {"vacuum": 3, "status": [Loaded("a", True), Loaded("b", False)]}
    assert run("vacuum", "--all", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"table": "a", "deleted_files": 3}]
    assert run("vacuum", "b") == 0
    assert [call for call in lake.calls if call[0] == "vacuum"] == [("vacuum", ("a",), {}), ("vacuum", ("b",), {})]


def test_wait_passes_on_version_and_time(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["wait_for"] = 12
    assert run("wait", "revenue", "orders", "--version", "11", "--timeout", "5") == 0
    assert lake.calls == [("wait_for", ("revenue", "orders", 11), {"timeout": 5.0})]
    assert "12" in capsys.readouterr().out


def test_a_snapshot_is_shown_table_by_table(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    class Frame:
        columns = ("n",)

        def take(self, count: int) -> list[tuple[int]]:
            return [(count,)]

    lake.answers["snapshot"] = lambda *names: dict.fromkeys(names, Frame())
    assert run("snapshot", "a", "b", "--limit", "4", "--json") == 0
    assert lake.calls == [("snapshot", ("a", "b"), {})]
    assert json.loads(capsys.readouterr().out) == {"a": [{"n": 4}], "b": [{"n": 4}]}
    assert run("snapshot", "a", "b", "--limit", "4") == 0
    assert [line for line in capsys.readouterr().err.splitlines() if line] == ["a:", "b:"]


def test_the_tree_is_drawn(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["top", "└─ [bold] [src]"]
    lake.answers["dependency_tree"] = [TreeLine(line, "n", "stream_table", 0, None, None) for line in lines]
    assert run("tree") == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert run("tree", "--json") == 0
    assert [each["tree_line"] for each in json.loads(capsys.readouterr().out)] == lines


@pytest.mark.parametrize(
    ("word", "call"),
    [
        ("status", "cdc_status"),
        ("health", "check_cdc_health"),
        ("slots", "slot_health"),
        ("buffers", "change_buffer_sizes"),
    ],
)
def test_capture_is_shown(lake: Double, capsys: pytest.CaptureFixture[str], word: str, call: str) -> None:
    lake.answers[call] = [{"source": "shop"}]
    assert run("cdc", word) == 0
    assert lake.asked == [call]
    assert "shop" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("freshlake ")


def choice(name: str) -> Choice:
    return Choice(name, "DIFFERENTIAL", None, None, None, "cost", 1234, 56.7, 890.1, {"mode": "AUTO"})


def past(same: bool) -> PastChoice:
    at = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    return PastChoice("revenue", "id", at, "FULL", "cost-model", None, "cost", "FULL" if same else "NO_DATA", same, {})


def test_choice_shows_what_the_next_refresh_would_do(lake: Double, capsys: pytest.CaptureFixture[str]) -> None:
    lake.answers["explain_choice"] = choice
    assert run("choice", "revenue") == 0
    printed = capsys.readouterr().out
    for shown in ("revenue", "DIFFERENTIAL", "cost", "1,234", "57", "890"):
        assert shown in printed
    assert run("choice", "revenue", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["inputs"] == {"mode": "AUTO"}
    assert lake.asked == ["explain_choice", "explain_choice"]


@pytest.mark.parametrize(("same", "code"), [(True, 0), (False, 3)])
def test_choice_makes_past_decisions_again(
    lake: Double, capsys: pytest.CaptureFixture[str], same: bool, code: int
) -> None:
    lake.answers["replay_choices"] = [past(True), past(same)]
    assert run("choice", "revenue", "--past", "7") == code
    assert lake.calls == [("replay_choices", ("revenue",), {"limit": 7})]
    assert "cost-model" in capsys.readouterr().out


def test_bounds_are_options_of_create_and_alter(lake: Double) -> None:
    words = ("--never-full", "--max-full-rows", "10", "--max-full-seconds", "9", "--fuse-rows", "0")
    bounds = {"never_full": True, "max_full_rows": 10, "max_full_seconds": 9, "fuse_rows": 0}
    assert run("create", "revenue", "SELECT 1", *words) == 0
    assert run("alter", "revenue", *words) == 0
    assert run("alter", "revenue", "--no-never-full") == 0
    options = [options for name, _, options in lake.calls if name != "status"]
    assert options == [bounds, bounds, {"never_full": False}]
