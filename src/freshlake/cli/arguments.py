"""Arguments that several commands share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from freshlake.dialect import Dialect
from freshlake.errors import DefinitionNotImportable, FreshlakeError

# Global options that take a value, and those that do not.
_WITH_VALUE = ("--lake",)
_FLAGS = ("--json", "--debug")

Name = Annotated[str, typer.Argument(help="Name of the stream table.", show_default=False)]
Names = Annotated[list[str] | None, typer.Argument(help="Names of stream tables.", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="Every stream table, in dependency order.")]
QueryText = Annotated[str | None, typer.Argument(help="SQL text; '-' reads it from stdin.", show_default=False)]
QueryFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="Read the SQL text from a file.", exists=True, dir_okay=False, readable=True),
]
DialectOption = Annotated[
    Dialect | None, typer.Option("--dialect", case_sensitive=False, help="The SQL dialect of the query.")
]
Function = Annotated[
    str | None,
    typer.Option("--function", metavar="MODULE:NAME", help="An importable PySpark function instead of SQL text."),
]


def hoist(arguments: list[str]) -> list[str]:
    """Global options may stand anywhere before `--`; the parser wants them first."""
    ahead: list[str] = []
    rest: list[str] = []
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*ahead, *rest, word, *remaining]
        if word in _WITH_VALUE:
            ahead += [word, *remaining[:1]]
            del remaining[:1]
        elif word in _FLAGS or word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            ahead.append(word)
        else:
            rest.append(word)
    return [*ahead, *rest]


def one_query(text: str | None, file: Path | None, function: str | None = None) -> str | Callable[..., Any] | None:
    """The query from wherever it was given, None when it was not; more than one place is a mistake."""
    if sum(part is not None for part in (text, file, function)) > 1:
        raise typer.BadParameter("give the query in one place only: as text, with --file or with --function")
    if function is not None:
        return load_function(function)
    if file is not None:
        return file.read_text(encoding="utf-8")
    return sys.stdin.read() if text == "-" else text


def required_query(text: str | None, file: Path | None, function: str | None = None) -> str | Callable[..., Any]:
    """The same where a query must be given."""
    query = one_query(text, file, function)
    if query is None:
        raise typer.BadParameter("no query: give SQL text, '-' for stdin, or --file")
    return query


def load_function(reference: str) -> Callable[..., Any]:
    """Import `module:name`, also from the working directory."""
    module, _, name = reference.partition(":")
    if not module or not name:
        raise typer.BadParameter(f"{reference!r} is not of the form MODULE:NAME", param_hint="--function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _not_found(reference, error) from error
    return found


def _not_found(reference: str, error: Exception) -> FreshlakeError:
    return DefinitionNotImportable(
        f"the function {reference} could not be imported",
        detail=str(error),
        hint="run the command where Python can import the module, or set PYTHONPATH",
    )
