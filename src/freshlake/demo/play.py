"""Play the demo: build, change, refresh, recompute beside it, verify."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from freshlake.demo.measure import recompute
from freshlake.demo.shop import VIEWS, Round, rounds, tables
from freshlake.demo.show import Line, Stage
from freshlake.errors import InvalidArgument

if TYPE_CHECKING:
    from freshlake.lake import Freshlake
    from freshlake.refresh.result import Verification

_MARK = ".freshlake-demo"


def play(folder: Path, orders: int, console: Console) -> bool:
    """Play the whole demo in `folder`; True when every result was equal to its query."""
    stage, started = Stage(console), time.monotonic()
    _clear(folder)
    stage.opening(folder, orders)
    # Late, so that the first lines are on the screen before Spark is loaded.
    from freshlake import connect

    with stage.step("starting Spark"):
        fl = connect(folder)
    stage.done("Spark is running", time.monotonic() - started)
    with fl, tempfile.TemporaryDirectory(prefix="freshlake-demo-") as scratch:
        _build(fl, orders, stage)
        lines = [
            line
            for number, happening in enumerate(rounds(orders), 1)
            for line in _round(fl, number, happening, Path(scratch), stage)
        ]
        verified = _verify(fl, stage)
    stage.closing(folder, lines, time.monotonic() - started)
    return all(answer.equal for answer in verified)


def _clear(folder: Path) -> None:
    """Replace an earlier demo, never anything else."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise InvalidArgument(
                f"the folder {folder} is not empty and was not made by the demo", hint="name another with --folder"
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()


def _build(fl: Freshlake, orders: int, stage: Stage) -> None:
    for name, statement in tables(orders).items():
        started = time.monotonic()
        with stage.step(f"filling {name}"):
            fl.sql(statement)
        stage.done(f"Delta table [bold]{name}[/]", time.monotonic() - started)
    for view in VIEWS:
        started = time.monotonic()
        with stage.step(f"creating {view.name}"):
            fl.sql(f"CREATE STREAM TABLE {view.name} SCHEDULE '1m' AS {view.query}")
        stage.done(f"stream table [bold cyan]{view.name}[/]", time.monotonic() - started)
    stage.graph()


def _round(fl: Freshlake, number: int, happening: Round, scratch: Path, stage: Stage) -> list[Line]:
    stage.round(number, happening.title, happening.statements)
    with stage.step("changing the shop"):
        for statement in happening.statements:
            fl.sql(statement)
    with stage.step("refreshing"):
        results = {result.table.split(".")[-1]: result for result in fl.refresh_all()}
    lines = []
    for view in VIEWS:
        with stage.step(f"recomputing {view.name} in full"):
            # A round without changes is there to show that it costs nothing.
            full = recompute(fl, view, scratch) if happening.statements else None
        lines.append(Line(view, results[view.name], full))
    stage.lines(lines)
    return lines


def _verify(fl: Freshlake, stage: Stage) -> list[Verification]:
    stage.section("Verify", "is every stream table what its query says, row by row?")
    verified = []
    for view in VIEWS:
        with stage.step(f"verifying {view.name}"):
            verified.append(fl.verify(view.name))
    stage.verified(verified)
    return verified
