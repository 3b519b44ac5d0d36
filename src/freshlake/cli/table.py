"""A table that fits: words stay whole, and what is too wide even so becomes a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A heading and the cells under it; numbers stand to the right."""

    heading: str
    cells: Sequence[Text]
    numeric: bool = False


def fits(columns: Sequence[Column], console: Console) -> bool:
    """Whether the console has room for a table of these."""
    return bool(columns) and _measured(_table(columns, "\n"), console).minimum <= console.width


def draw(columns: Sequence[Column], console: Console) -> None:
    """As wide as it likes, with headings of several lines, or as a list: the first that the console has room for."""
    widths = (_table(columns, "\n"), _table(columns, " "))
    narrow, wide = (_measured(table, console) for table in widths)
    if wide.maximum <= console.width:
        console.print(widths[1])
    elif narrow.minimum <= console.width:
        console.print(widths[0])
    else:
        _print_list(columns, console)


def _measured(table: Table, console: Console) -> Measurement:
    return Measurement.get(console, console.options.update(max_width=10**6), table)


def _table(columns: Sequence[Column], between_words: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        unbroken = not any(" " in cell.plain for cell in column.cells)
        heading = column.heading.replace(" ", between_words) if unbroken else column.heading
        table.add_column(Text(heading), justify="right" if column.numeric else "left", no_wrap=unbroken)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _print_list(columns: Sequence[Column], console: Console) -> None:
    for number in range(len(columns[0].cells)):
        grid = Table(box=None, show_header=False, pad_edge=False)
        for column in columns:
            grid.add_row(Text(column.heading, style="dim"), column.cells[number])
        if number:
            console.print()
        console.print(grid)
