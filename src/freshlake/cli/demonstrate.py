"""`demo`: a small shop whose stream tables stay fresh while it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from freshlake.cli.invocation import invocation
from freshlake.cli.looking import DIFFERENT


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Where the demo's lake is made; an earlier demo is replaced.")] = Path(
        "demo-lake"
    ),
    orders: Annotated[int, typer.Option(min=1_000, help="How many orders the shop starts with.")] = 1_000_000,
) -> None:
    """Build a small shop, change it in rounds, and watch stream tables follow."""
    # Late: only this command needs it.
    from freshlake.demo import play

    screen = invocation(context).terminal.out
    if not play(folder, orders, screen if screen.is_terminal else Console(width=100, highlight=False)):
        raise typer.Exit(DIFFERENT)
