"""The documentation and the code name the same things: links resolve, and nothing public is without its place."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
import typer.main

from freshlake import lake
from freshlake.alerts import Alert
from freshlake.cli.app import app
from freshlake.compiler.explain import Explanation
from freshlake.compiler.rules import JOINS, RULES, STORED
from freshlake.config import Settings, allowed, shown_default
from freshlake.refresh import choose, quarantine, repair
from freshlake.refresh.result import FoldResult, RefreshResult, Verification
from freshlake.service import rounds
from freshlake.service.audits import AuditRecord
from freshlake.service.capture_report import BufferInfo, CdcHealth, CdcStatus, SlotInfo
from freshlake.service.choices import Choice, PastChoice
from freshlake.service.deliveries import DeliveryInfo
from freshlake.service.pool import JobStatus, WorkerPool
from freshlake.service.report import Finding, RefreshRecord, SourceInfo, StreamTableStatus, TreeLine, Validation
from freshlake.service.settings import SettingInfo
from freshlake.service.sources import SourceDatabaseInfo
from freshlake.statements import parse
from freshlake.storage import policy
from tests.docs.generated import TABLES, with_table
from tests.docs.markdown import DOCS, ROOT, anchors, blocks, links, pages, sections

OPERATORS = DOCS / "operators"
FORMS_OF_AGGREGATE = {"distinct", "having", "nested_aggregates"}
FORMS_OF_JOIN = {"current_time", "right_join"}
WITH_PAGES = (*RULES.values(), *JOINS.values(), *STORED.values())
RECORDS = (
    Alert,
    RefreshResult,
    FoldResult,
    Verification,
    AuditRecord,
    StreamTableStatus,
    RefreshRecord,
    SourceInfo,
    Finding,
    Validation,
    Explanation,
    TreeLine,
    Choice,
    PastChoice,
    WorkerPool,
    JobStatus,
    SourceDatabaseInfo,
    DeliveryInfo,
    CdcStatus,
    CdcHealth,
    BufferInfo,
    SlotInfo,
    SettingInfo,
)
WORDS = (
    *("stream table", "source", "change", "weight", "delta", "frontier", "base", "log", "fold", "refresh", "program"),
    *("step", "strategy", "reason", "lease", "tick", "publish"),
)
CALLS = {name: call for kind in reversed(lake.Freshlake.mro()[:-1]) for name, call in vars(kind).items()}
METHODS = [name for name in CALLS if not name.startswith("_")]
TOP = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS = {
    " ".join(words): command
    for name, top in TOP.items()
    for words, command in ([((name, sub), c) for sub, c in getattr(top, "commands", {}).items()] or [((name,), top)])
}


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_links_resolve(page: Path) -> None:
    broken = []
    for target in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


def test_the_architecture_names_files_that_exist() -> None:
    named = re.findall(r"`([\w/*]+/[\w*.]*|\w+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    places = (ROOT, ROOT / "src" / "freshlake", ROOT / "src" / "freshlake" / "compiler")
    gone = [name for name in named if not any(list(p.glob(name)) for p in places)]
    assert gone == []


def test_the_architecture_has_a_place_for_every_folder_and_module_at_the_top() -> None:
    table = sections((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))["Where things live"]
    found = (ROOT / "src" / "freshlake").iterdir()
    names = {f"{p.name}/" if p.is_dir() else p.name for p in found if not p.name.startswith("__")}
    files = {name for name in names if name.endswith(("/", ".py"))}
    assert sorted(name for name in files if f"`{name}`" not in table) == []


def test_every_page_is_linked_from_an_index() -> None:
    indexes = [DOCS / "README.md", OPERATORS / "README.md", DOCS / "decisions" / "README.md"]
    linked = {
        (index.parent / target.partition("#")[0]).resolve()
        for index in indexes
        for target in links(index.read_text(encoding="utf-8"))
    }
    assert [shown(page) for page in DOCS.rglob("*.md") if page not in linked and page != indexes[0]] == []


def test_operator_pages_are_those_of_the_rules() -> None:
    found = {page.stem for page in OPERATORS.glob("*.md")} - {"README"}
    assert found == {rule.name for rule in WITH_PAGES} | FORMS_OF_AGGREGATE | FORMS_OF_JOIN | {"recursion"}


@pytest.mark.parametrize("rule", WITH_PAGES, ids=lambda rule: rule.name)
def test_a_rule_and_its_page_state_the_same_law(rule: object) -> None:
    page = text("operators", f"{rule.name}.md")  # type: ignore[attr-defined]
    assert f"**Law:** {rule.law}\n" in page  # type: ignore[attr-defined]
    assert f"**Linearity:** {rule.linearity}\n" in page  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", [p for p in OPERATORS.glob("*.md") if p.stem != "README"], ids=shown)
def test_an_operator_page_has_all_its_parts(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    assert {"Example", "Cost", "Traps"} <= set(sections(content))
    assert re.search(r"^\*\*Law:\*\* .+\n\n\*\*Linearity:\*\* (linear|bilinear|non-linear)$", content, re.MULTILINE)


@pytest.mark.parametrize("page", TABLES)
def test_a_table_made_from_the_code_is_up_to_date(page: str) -> None:
    """`python -m tests.docs.generated` writes them anew."""
    found = text(page)
    assert with_table(found, TABLES[page]()) == found


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_described_with_its_default_and_range(name: str) -> None:
    section = sections(text("reference", "settings.md"))[name]
    field = Settings.model_fields[name]
    assert field.description in section
    assert f"Default `{shown_default(name)}`; {allowed(name)}." in " ".join(section.split())


def test_no_setting_is_described_that_does_not_exist() -> None:
    headings = re.findall(r"^### `(\w+)`$", text("reference", "settings.md"), re.MULTILINE)
    assert sorted(headings) == sorted(Settings.model_fields)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_described_with_all_its_options(name: str) -> None:
    section = sections(text("reference", "cli.md"))[name]
    options = {o for p in COMMANDS[name].params for o in p.opts if o.startswith("-")}
    assert set(re.findall(r"`(--?[a-z-]+)`", _option_rows(section))) == options


def test_no_command_is_described_that_does_not_exist() -> None:
    headings = re.findall(r"^### `([\w ]+)`$", text("reference", "cli.md"), re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)


def test_global_options_are_described() -> None:
    options = {o for p in typer.main.get_command(app).params for o in p.opts}
    assert set(re.findall(r"`(--[a-z-]+)`", _option_rows(text("reference", "cli.md").partition("\n## ")[0]))) == options


def _option_rows(section: str) -> str:
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `-"))


@pytest.mark.parametrize("name", ["connect", *METHODS])
def test_a_method_is_described_with_its_signature(name: str) -> None:
    owner, member = ("freshlake", lake.connect) if name == "connect" else ("fl", CALLS[name])
    section = sections(text("reference", "api.md"))[f"{owner}.{name}"]
    if not isinstance(member, property):
        assert f"```python\n{owner}.{name}{_signature(member)}\n```" in section
        assert [p for p in _parameters(member) if f"`{p}`" not in section and p not in ("name", "text", "query")] == []


def test_no_method_is_described_that_does_not_exist() -> None:
    headings = re.findall(r"^### `fl\.(\w+)`$", text("reference", "api.md"), re.MULTILINE)
    assert sorted(headings) == sorted(METHODS)


def _parameters(function: object) -> list[str]:
    found = inspect.signature(function).parameters  # type: ignore[arg-type]
    many = [name for name in found if name not in ("self", "name_or_query")]
    return many if len(many) > 1 else []


def _signature(function: object) -> str:
    words, starred = [], False
    for p in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        plain = {p.VAR_KEYWORD: "**", p.VAR_POSITIONAL: "*"}.get(p.kind, "") + p.name
        words.append(plain if p.default is p.empty else f"{plain}={p.default!r}")
    return f"({', '.join(words)})"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_is_described_with_all_its_fields(record: type) -> None:
    section = sections(text("reference", "api.md"))[record.__name__]
    rows = "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == {field.name for field in dataclasses.fields(record)}


@pytest.mark.parametrize("start", [" ".join(words) for words, _ in parse._STATEMENTS])
def test_a_statement_is_described(start: str) -> None:
    lines = [re.sub(r"[\[\]]", "", line) for line in _forms().splitlines()]
    plain = [line.replace("CREATE OR REPLACE STREAM", "CREATE STREAM") for line in lines]
    assert any(line.startswith(start) for line in [*lines, *plain])


@pytest.mark.parametrize("clause", [" ".join(words) for words, _, _ in parse._CLAUSES if words[0] != "PARTITIONED"])
def test_a_clause_is_described(clause: str) -> None:
    assert f"[{clause}" in _forms()


def _forms() -> str:
    return "\n".join(block.text for block in blocks(text("reference", "sql.md")) if not block.info)


def test_every_reason_is_explained() -> None:
    page = text("howto", "choose-a-mode.md")
    codes = set()
    for module in (choose, policy, quarantine, repair, rounds):
        codes |= set(
            re.findall(
                r'"([a-z]+(?:-[a-z]+)+|requested|reinitialize|suspended|quarantined)"', inspect.getsource(module)
            )
        )
    assert codes
    assert sorted(code for code in codes if f"`{code}`" not in page) == []


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_code_is_in_the_glossary(word: str) -> None:
    assert word in sections(text("glossary.md"))


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^### (.+)$", text("glossary.md"), re.MULTILINE)
    assert words == sorted(words)


def test_decisions_are_numbered_and_complete() -> None:
    found = sorted(page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md")
    assert [page.name[:4] for page in found] == [f"{number:04d}" for number in range(1, len(found) + 1)]
    for page in found:
        parts = list(sections(page.read_text(encoding="utf-8")))
        assert parts[0].startswith(f"{page.name[:4]}: ")
        assert parts[1:] == ["Context", "Decision", "Consequences"]
