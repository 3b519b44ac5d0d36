"""Dependencies run one way; the contracts are in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from importlinter import cli

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold() -> None:
    assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == cli.EXIT_STATUS_SUCCESS
