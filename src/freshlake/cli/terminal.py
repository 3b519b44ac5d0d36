"""What the user sees: results on stdout as tables or JSON, progress and errors on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from freshlake.cli.plain import fields, plain
from freshlake.errors import FreshlakeError

# Width of a table that goes into a pipe: nothing is cut there, a reader's tool may do that.
_PIPE_WIDTH = 10_000
_COLOURS = {
    "DIFFERENTIAL": "green",
    "NO_DATA": "dim",
    "FULL": "yellow",
    "REINITIALIZE": "yellow",
    "SKIPPED": "dim",
    "ACTIVE": "green",
    "COMPLETED": "green",
    "SUSPENDED": "yellow",
    "ERROR": "red",
    "FAILED": "red",
}


def _stdout() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


@dataclass(frozen=True)
class Terminal:
    """Both streams and the chosen form of output."""

    as_json: bool = False
    out: Console = field(default_factory=_stdout)
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))

    def records(self, records: Sequence[Any], columns: Sequence[str], empty: str) -> None:
        """One row per record: the named columns, or all where a record has none of them. JSON has every field."""
        if self.as_json:
            self.data([plain(record) for record in records])
        elif not records:
            self.note(empty)
        else:
            rows = [fields(record) for record in records]
            shown = [name for name in columns if any(name in row for row in rows)] or list(rows[0])
            self._table(shown, [[_readable(name, row.get(name)) for name in shown] for row in rows])

    def record(self, record: Any) -> None:
        """One record, a line per field."""
        if self.as_json:
            self.data(plain(record))
            return
        grid = Table(box=None, show_header=False, pad_edge=False)
        for name, value in fields(record).items():
            grid.add_row(Text(heading(name), style="dim"), cell(value))
        self.out.print(grid)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """The rows of a query; JSON is a list of objects."""
        if self.as_json:
            self.data([{name: plain(value) for name, value in zip(columns, row, strict=True)} for row in rows])
        elif columns:
            self._table(columns, rows, as_named=True)

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
        if self.as_json:
            self.err.print(json.dumps({"error": error.to_dict()}, ensure_ascii=False), markup=False)
            return
        self.err.print(f"[bold red]{error.code}[/] {escape(error.message)}")
        if error.detail:
            self.err.print(f"  [dim]detail[/] {escape(error.detail)}")
        if error.hint:
            self.err.print(f"  [cyan]hint[/]   {escape(error.hint)}")

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], as_named: bool = False) -> None:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for index, name in enumerate(columns):
            numeric = any(_is_number(row[index]) for row in rows)
            table.add_column(escape(name if as_named else heading(name)), justify="right" if numeric else "left")
        for row in rows:
            table.add_row(*(_null() if as_named and value is None else cell(value) for value in row))
        self.out.print(table)


def heading(name: str) -> str:
    """rows_inserted → rows inserted, duration_ms → ms, staleness_seconds → staleness."""
    known = {"duration_ms": "ms", "spark_jobs": "jobs", "rows_inserted": "rows +", "rows_deleted": "rows −"}
    return known.get(name, name.removesuffix("_seconds").replace("_", " "))


def cell(value: Any) -> Text:
    """One value for a person; known words have their colour."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    if isinstance(value, Decimal):
        return Text(f"{value:,f}")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    simple = plain(value)
    text = simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False)
    return Text(text, style=_COLOURS.get(text, ""))


def _readable(name: str, value: Any) -> Any:
    """Fields of records whose unit is in their name, and points in time, as people write them."""
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float) and name.endswith("_ms"):
        return round(value)
    if isinstance(value, int | float) and name.endswith("_seconds"):
        return _duration(round(value))
    return value


def _duration(seconds: int) -> str:
    """The two largest units: 45s, 3m 5s, 2h 10m, 4d 1h."""
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count or unit == "s")


def _null() -> Text:
    return Text("NULL", style="dim")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
