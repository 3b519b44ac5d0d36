"""Python, SQL and the command give one definition the same result, and one mistake the same error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.cli import main
from freshlake.errors import FreshlakeError, InvalidArgument, NotFound
from freshlake.lake import Freshlake
from freshlake.service.options import DEFAULTS, stored_as
from tests.integration.lakes import NO_RULE, orders

TOTALS = "SELECT region, sum(amount) AS total FROM orders GROUP BY region"
USAGE = "wrong usage"
"""What the parser of the command refuses by itself, with exit code 2."""


@dataclass(frozen=True)
class Case:
    """A definition; `code` of the error that it meets, `command` where the command says it in another way."""

    query: str = TOTALS
    name: str = "made"
    options: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None
    command: str | None = None


def case(query: str = TOTALS, code: str | None = None, *, name: str = "made", command: str = "", **options: Any) -> Any:
    words = (code or "made", *(f"{key}={value}" for key, value in options.items()), *([name] if name != "made" else []))
    return pytest.param(Case(query, name, options, code, command or code), id=" ".join(words))


CASES = [
    case(),
    case(schedule="5m", refresh_mode="DIFFERENTIAL", fold_policy="manual"),
    case(schedule="*/5 * * * *", tier="warm", diamond_consistency="none", diamond_schedule_policy="slowest"),
    case(never_full="true", max_full_rows="10", max_full_seconds="9", fuse_rows="20", cdc_mode="trigger"),
    case(append_only="true", partition_by="region"),
    case(refresh_mode="IMMEDIATE"),
    case("SELECT nothing FROM orders", "invalid-query"),
    case("SELECT id FROM nowhere", "table-not-found"),
    case("SELECT id FROM orders LIMIT 2", "unsupported-limit"),
    case("SELECT id FROM", "invalid-query"),
    case(NO_RULE, "not-differentiable", refresh_mode="DIFFERENTIAL"),
    case(NO_RULE, "not-differentiable", never_full="true"),
    case(code="invalid-argument", never_full="true", refresh_mode="FULL"),
    case(code="invalid-argument", refresh_mode="IMMEDIATE", schedule="5m"),
    case(code="invalid-argument", refresh_mode="IMMEDIATE", cdc_mode="wal"),
    case(code="invalid-argument", partition_by="elsewhere"),
    case(code="invalid-schedule", schedule="now and then"),
    case(code="schedule-too-short", schedule="1s"),
    case(code="invalid-argument", fuse_rows="-1", command=USAGE),
    case(code="invalid-argument", max_full_rows="many", command=USAGE),
    case(code="invalid-argument", max_full_seconds="1.5", command=USAGE),
    case(code="invalid-argument", tier="lukewarm", command=USAGE),
    case(code="invalid-argument", cdc_mode="telepathy", command=USAGE),
    case(code="invalid-argument", refresh_mode="SOMETIMES", command=USAGE),
    case(code="already-exists", name="orders"),
    case(code="invalid-name", name="a.b.c.d"),
    case(code="table-not-found", name="noschema.made"),
]


class Kept:
    """The lake that all faces share: the command does not close it."""

    def __init__(self, lake: Freshlake) -> None:
        self._lake = lake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def close(self) -> None:
        """It is still needed."""


@pytest.fixture(scope="module")
def fl(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("faces")) as lake:
        orders(lake)
        yield lake


def by_python(fl: Freshlake, made: Case) -> None:
    fl.create_stream_table(made.name, made.query, initialize=False, **made.options)


def by_sql(fl: Freshlake, made: Case) -> None:
    options = ", ".join(f"{name} = '{value}'" for name, value in made.options.items())
    clause = f"WITH ({options}) " if options else ""
    fl.sql(f"CREATE STREAM TABLE {made.name} WITH NO DATA {clause}AS {made.query}")


_OPTIONS = {"refresh_mode": "--mode", "fold_policy": "--fold"}
_FLAGS = ("never_full", "append_only")


def by_command(made: Case) -> int:
    words = ["--json", "create", made.name, made.query, "--empty"]
    for name, value in made.options.items():
        option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        words.append(option if name in _FLAGS else f"{option}={value}")
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def outcome(fl: Freshlake, made: Case, call: Callable[[], object]) -> tuple[str, object]:
    """Code and message of the error, or the options as the catalog has them; nothing is left behind."""
    try:
        call()
    except FreshlakeError as error:
        return error.code, error.message
    return "made", _stored(fl, made)


def _stored(fl: Freshlake, made: Case) -> dict[str, object]:
    found = fl._engine.catalog.get(f"default.{made.name}")
    fl.drop_stream_table(made.name)
    return {name: str(getattr(found, stored_as(name))) for name in DEFAULTS}


@pytest.mark.parametrize("made", CASES)
def test_three_faces_give_one_outcome(
    fl: Freshlake, made: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(freshlake, "connect", lambda path: Kept(fl))
    monkeypatch.setenv("FRESHLAKE_LAKE", str(fl.path))
    said = outcome(fl, made, lambda: by_python(fl, made))
    assert said[0] == (made.code or "made")
    assert outcome(fl, made, lambda: by_sql(fl, made)) == said

    code = by_command(made)
    if made.command == USAGE:
        assert code == 2
    elif made.code is None:
        assert (code, _stored(fl, made)) == (0, said[1])
    else:
        error = json.loads(capsys.readouterr().err)["error"]
        assert (code, error["code"], error["message"]) == (1, *said)
    assert fl.status() == []


def test_what_a_statement_answers_is_what_the_call_answers(fl: Freshlake) -> None:
    fl.sql(f"CREATE STREAM TABLE totals WITH (tier = warm) AS {TOTALS}")
    fl.sql("CREATE STREAM TABLE large WITH NO DATA AS SELECT region FROM totals WHERE total > 5")

    def shown(text: str, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in fl.sql(text).collect()]

    assert shown("CREATE REFRESH GROUP both (totals, large)", "name", "members") == [("both", '["large", "totals"]')]
    assert shown("SHOW REFRESH GROUPS", "name") == [("both",)]
    assert shown("SHOW STREAM TABLE TREE", "tree_line") == [(line.tree_line,) for line in fl.dependency_tree()]
    assert shown("SHOW STREAM TABLE SOURCES totals", "source", "pending") == [("default.orders", False)]
    assert shown("SHOW STREAM TABLE CHOICE totals", "action", "by") == [("NO_DATA", "rule")]
    assert shown("SHOW STREAM TABLE CHOICES totals", "action", "same") == [("FULL", True)]
    assert dict(shown("SHOW STREAM TABLE SETTINGS", "name", "value"))["lease_seconds"] == "60"
    assert len(shown("DIAGNOSE STREAM TABLE totals", "check", "verdict")) == len(fl.doctor("totals"))
    assert shown("VALIDATE STREAM TABLE AS SELECT id FROM orders", "differential", "columns") == [
        (True, '[["id", "bigint"]]')
    ]
    assert shown("WAIT FOR STREAM TABLE totals TO READ orders TIMEOUT 1", "version") == [(1,)]
    assert shown("SHOW STREAM TABLE CHANGES totals SINCE 1", "region") == []
    assert shown("VACUUM STREAM TABLE totals", "name", "deleted_files") == [("totals", 0)]
    for text in ("WORKERS", "JOBS"):
        assert shown(f"SHOW STREAM TABLE {text}") == []
    for text in ("STATUS", "HEALTH", "SLOTS", "BUFFERS"):
        assert shown(f"SHOW CDC {text}") == []
    with pytest.raises(InvalidArgument, match="IMMEDIATE"):
        fl.refresh("totals", mode="immediate")
    for tables in (["totals"], ["totals", "TOTALS"]):
        with pytest.raises(InvalidArgument, match="fewer than two"):
            fl.create_refresh_group("alone", tables)
    assert shown("DROP REFRESH GROUP both") == []
    assert sorted(shown("DROP ALL STREAM TABLES", "name")) == [("large",), ("totals",)]
    assert (fl.status(), fl.refresh_groups()) == ([], [])
    with pytest.raises(NotFound):
        fl.sql("DROP REFRESH GROUP both")
    fl.sql("DROP REFRESH GROUP IF EXISTS both")
