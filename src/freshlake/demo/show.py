"""The demo's words and tables, on a terminal or in a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from freshlake.demo.measure import Recompute
from freshlake.demo.shop import VIEWS, View

if TYPE_CHECKING:
    from freshlake.refresh.result import RefreshResult, Verification


@dataclass(frozen=True)
class Line:
    """One stream table in one round; where nothing changed there is nothing to compare with."""

    view: View
    refresh: RefreshResult
    recompute: Recompute | None


@dataclass(frozen=True)
class Stage:
    """Where the demo is shown."""

    console: Console

    def opening(self, folder: Path, orders: int) -> None:
        """What is about to happen."""
        self.console.print(
            Panel(
                Text.assemble(
                    ("Freshlake", "bold cyan"),
                    " keeps query results fresh.\n",
                    f"A shop with {orders:,} orders, in {folder}. Every stream table is a SQL query whose ",
                    "stored result follows its sources. Each round changes the shop, refreshes only what changed, ",
                    "and does the same work in full beside it. At the end every result is compared with its query.",
                ),
                box=box.ROUNDED,
                width=min(100, self.console.width),
                padding=(0, 2),
            )
        )

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Something that takes a moment."""
        if self.console.is_terminal:
            with self.console.status(text):
                yield
        else:
            yield

    def done(self, text: str, seconds: float) -> None:
        """A step that is over."""
        self.console.print(f"[green]✓[/] {text} [dim]{seconds:.1f} s[/]")

    def graph(self) -> None:
        """Who reads whom."""
        tree = Tree("[bold]orders, customers, products[/] [dim]Delta tables[/]", guide_style="dim")
        nodes: dict[str | None, Tree] = {None: tree}
        for view in VIEWS:
            nodes[view.name] = nodes[view.parent].add(f"[bold cyan]{view.name}[/] [dim]{view.about}[/]")
        self.console.print()
        self.console.print(tree)

    def section(self, title: str, about: str) -> None:
        """What comes now."""
        self.console.print()
        self.console.rule(f"[bold]{title}[/] {about}", align="left", style="dim")

    def round(self, number: int, title: str, statements: Sequence[str]) -> None:
        """What happens in the shop."""
        self.section(f"Round {number}", title)
        for statement in statements:
            text = " ".join(statement.split())
            self.console.print(Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True))

    def lines(self, lines: Sequence[Line]) -> None:
        """What each refresh did, beside a full recompute where there is one."""
        full = [line.recompute for line in lines if line.recompute]
        table = self._table()
        table.add_column("table", "all", no_wrap=True)
        table.add_column("action", no_wrap=True)
        table.add_column("rows +", justify="right")
        table.add_column("rows −", justify="right")
        table.add_column("refresh", milliseconds(_spent(lines)), justify="right")
        table.add_column("jobs", str(sum(line.refresh.spark_jobs for line in lines)), justify="right")
        if full:
            total = sum(each.duration_ms for each in full)
            table.add_column("in full", milliseconds(total), justify="right", style="dim")
            table.add_column("jobs", str(sum(each.spark_jobs for each in full)), justify="right", style="dim")
            table.add_column("faster", times(total, _spent(lines)), justify="right")
        for line in lines:
            table.add_row(*_cells(line))
        self.console.print(table)
        for line in lines:
            if line.refresh.reason and str(line.refresh.action) in ("FULL", "REINITIALIZE"):
                self.console.print(f"  [yellow]{line.view.name}[/] was not differential: {line.refresh.reason}")

    def verified(self, answers: Sequence[Verification]) -> None:
        """The stored rows against the query, both ways."""
        table = self._table()
        table.add_column("table", "all", no_wrap=True)
        for name, total in (
            ("rows compared", sum(answer.compared_rows for answer in answers)),
            ("missing", sum(answer.missing for answer in answers)),
            ("unexpected", sum(answer.unexpected for answer in answers)),
        ):
            table.add_column(name, f"{total:,}", justify="right")
        table.add_column("equal", _tick(all(answer.equal for answer in answers)), justify="center")
        for answer in answers:
            counts = (answer.compared_rows, answer.missing, answer.unexpected)
            name = answer.table.split(".")[-1]
            table.add_row(f"[cyan]{name}[/]", *(f"{count:,}" for count in counts), _tick(answer.equal))
        self.console.print(table)

    def closing(self, folder: Path, lines: Sequence[Line], seconds: float) -> None:
        """The sum, and what to try next."""
        compared = [line for line in lines if line.recompute]
        ours, full = _spent(compared), sum(line.recompute.duration_ms for line in compared if line.recompute)
        idle = [line for line in lines if not line.recompute]
        jobs = sum(line.refresh.spark_jobs for line in idle)
        self.section("Done", f"[dim]in {seconds:.0f} s[/]")
        self.console.print(
            f"{len(compared)} refreshes took [bold green]{milliseconds(ours)}[/], the same in full "
            f"[bold]{milliseconds(full)}[/]: [bold green]{times(full, ours)}[/] faster. "
            f"{len(idle)} refreshes with nothing to do took {milliseconds(_spent(idle))} and {jobs or 'no'} Spark jobs."
        )
        self.console.print(
            Panel(_next_steps(folder), title="Try next", title_align="left", box=box.ROUNDED, expand=False)
        )

    def _table(self) -> Table:
        gap = 1 if self.console.width >= 90 else 0
        return Table(
            box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_footer=True
        )


def milliseconds(value: float) -> str:
    """840 ms, 3.2 s."""
    return f"{value:,.0f} ms" if value < 1000 else f"{value / 1000:,.1f} s"


def times(full: float, ours: float) -> str:
    """How many times less."""
    ratio = full / max(ours, 1)
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def _spent(lines: Sequence[Line]) -> float:
    return sum(line.refresh.duration_ms for line in lines)


def _cells(line: Line) -> list[str]:
    action = str(line.refresh.action)
    style = {"DIFFERENTIAL": "green", "NO_DATA": "dim"}.get(action, "yellow")
    cells = [
        f"[cyan]{line.view.name}[/]",
        f"[{style}]{action}[/]",
        f"{line.refresh.rows_inserted:,}",
        f"{line.refresh.rows_deleted:,}",
        milliseconds(line.refresh.duration_ms),
        f"{line.refresh.spark_jobs}",
    ]
    if line.recompute:
        cells += [
            milliseconds(line.recompute.duration_ms),
            f"{line.recompute.spark_jobs}",
            times(line.recompute.duration_ms, line.refresh.duration_ms),
        ]
    return cells


def _tick(good: bool) -> str:
    return "[green]✓[/]" if good else "[bold red]✗[/]"


def _command() -> str:
    """How this user can call the command: by its name only where the shell finds it."""
    if shutil.which("freshlake"):
        return "freshlake"
    beside = Path(sys.executable).parent / "freshlake"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _next_steps(folder: Path) -> Group:
    lake = f"{_command()} --lake {folder}"
    commands = (
        (f"{lake} status", "how fresh every table is"),
        (f"{lake} explain by_category", "plan, rule per operator, the SQL of each step"),
        (f"{lake} sql \"UPDATE products SET price = 1 WHERE category = 'books'\"", "change something large"),
        (f"{lake} refresh --all", "and bring every table up to date"),
        (f"{lake} verify --all", "compare with the queries, row by row"),
    )
    lines = [Text.assemble((command, "bold"), "\n  ", (about, "dim")) for command, about in commands]
    python = f'\nfl = freshlake.connect("{folder}"); fl.table("by_category").show()'
    return Group(*lines, Syntax(python, "python", theme="ansi_dark", background_color="default", word_wrap=True))
