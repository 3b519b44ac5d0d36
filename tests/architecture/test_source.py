"""What every module of the package looks like, whoever writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "freshlake"
MODULES = sorted(SOURCE.rglob("*.py"))
FACES = (SOURCE / "cli", SOURCE / "demo")
MAXIMUM_LINES = 400
VAGUE = {"utils", "util", "helpers", "common", "misc", "manager"}
# Folders of one person or one machine; a system-wide folder such as /usr/lib/jvm is the same everywhere.
MACHINE_PATH = re.compile(r"""(?<=["'\s(=:`])/(?:home|root|Users|work|mnt)/\w""")


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_module_has_a_docstring(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_module_is_about_one_thing(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    # the tree of errors is one list, drawn once
    assert lines <= MAXIMUM_LINES or module == SOURCE / "errors.py", f"{lines} lines: there are two things in it"
    assert module.stem not in VAGUE


@pytest.mark.parametrize("module", [m for m in MODULES if not any(face in m.parents for face in FACES)], ids=named)
def test_only_the_faces_print(module: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("print", "input")]


def test_package_files_only_reexport() -> None:
    busy = [named(module) for module in MODULES if module.name == "__init__.py" and _defines(module)]
    assert busy == []


def _defines(module: Path) -> bool:
    body = ast.parse(module.read_text(encoding="utf-8")).body
    # A lazy re-export is still a re-export.
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "__getattr__" for node in body)


def test_no_file_names_a_folder_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in _texts()
        for match in MACHINE_PATH.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def _texts() -> Iterator[Path]:
    for folder in ("src", "docs", "scripts", "bench", ".ci"):
        yield from (p for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".md", ".sh", ".properties", ".toml"})
    yield from (ROOT / name for name in ("Makefile", "pyproject.toml", "constraints.txt"))
