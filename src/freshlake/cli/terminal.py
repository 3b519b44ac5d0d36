"""What the user sees: results on stdout as tables or JSON, progress and errors on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from freshlake.cli import cells
from freshlake.cli.plain import fields, plain
from freshlake.cli.table import Column, draw, fits
from freshlake.errors import FreshlakeError

# Width of a table that goes into a pipe: nothing is cut there, a reader's tool may do that.
_PIPE_WIDTH = 10_000


def _stdout() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


@dataclass(frozen=True)
class Terminal:
    """Both streams and the chosen form of output."""

    as_json: bool = False
    out: Console = field(default_factory=_stdout)
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))

    def records(self, records: Sequence[Any], names: Sequence[str], empty: str, spare: Sequence[str] = ()) -> None:
        """One row per record, with those of the named fields that any record has. JSON has every field.

        Fields in `spare` are left out where there is no room for all, the last one first.
        """
        if self.as_json:
            self.data([plain(record) for record in records])
        elif not records:
            self.note(empty)
        else:
            rows = [fields(record) for record in records]
            columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
            found = {name: column for name, column in columns.items() if column}
            draw(_with_room(found, spare, self.out), self.out)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """The rows of a query; JSON is a list of objects."""
        if self.as_json:
            self.data(objects(columns, rows))
        elif columns:
            values = [[row[index] for row in rows] for index in range(len(columns))]
            shown = [Column(n, [cells.sql(v) for v in vs], _numeric(vs)) for n, vs in zip(columns, values, strict=True)]
            draw(shown, self.out)

    def text(self, text: str) -> None:
        """Text that was laid out by its author."""
        self.out.print(Text(text), soft_wrap=True)

    def data(self, value: Any) -> None:
        """JSON, on one line when it goes into a pipe."""
        indent = 2 if self.out.is_terminal else None
        self.out.print(json.dumps(value, indent=indent, ensure_ascii=False), markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark for a person; it does not mix with the data."""
        if not self.as_json:
            self.err.print(escape(text), style="dim")

    def dropped(self, names: Sequence[str]) -> None:
        """What there was and is no more."""
        if self.as_json:
            self.data({"dropped": list(names)})
        else:
            self.note(f"dropped {', '.join(names) or 'nothing: there are no stream tables'}")

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A spinner while long work runs; nothing where nobody watches."""
        if self.as_json or not self.err.is_terminal:
            yield
            return
        with self.err.status(escape(text)):
            yield

    def error(self, error: FreshlakeError) -> None:
        """Code, message, detail and hint."""
        told = error.to_dict()
        if self.as_json:
            self.err.print(json.dumps({"error": told}, ensure_ascii=False), markup=False)
        else:
            self.failure(told)

    def failure(self, told: Mapping[str, Any]) -> None:
        """An error as plain data, for a person."""
        self.err.print(f"[bold red]{told['code']}[/] {escape(told['message'])}")
        if at := told.get("position"):
            self.err.print(f"  [dim]at[/]     line {at['line']}, column {at['column']} of the query")
        if told["detail"]:
            self.err.print(f"  [dim]detail[/] {escape(told['detail'])}")
        if told["hint"]:
            self.err.print(f"  [cyan]hint[/]   {escape(told['hint'])}")


def objects(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows for JSON."""
    return [{name: plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]


def _with_room(columns: Mapping[str, Column], spare: Sequence[str], console: Console) -> list[Column]:
    """Without spare ones as far as that makes a table; a list has room for all."""
    for count in range(len(spare) + 1):
        left_out = spare[len(spare) - count :]
        chosen = [column for name, column in columns.items() if name not in left_out]
        if fits(chosen, console):
            return chosen
    return list(columns.values())


def _column(name: str, values: Sequence[Any]) -> Column | None:
    """A field of several records; None when it is empty in all of them."""
    if all(value is None or value == () for value in values):
        return None
    return Column(cells.heading(name), [cells.field(name, value) for value in values], _numeric(values))


def _numeric(values: Sequence[Any]) -> bool:
    return any(cells.is_number(value) for value in values)
