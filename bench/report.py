"""One table on the terminal, ratios first, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.bars import Bar, Verdict, judge
from bench.measured import Cell, Measurements, Sample, Way
from freshlake.version import VERSION

_COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.UNMEASURED: "yellow"}
_WIDTH = 170


def show(found: Measurements) -> None:
    """Print everything that was measured."""
    console = Console(width=None if Console().is_terminal else _WIDTH)
    if found.cells:
        console.print(_grid(found.cells))
        console.print(_steps(found.cells))
    if found.quiet:
        console.print(_quiet(found))
    if found.checks:
        console.print(_checks(found))
    console.print(_bars(judge(found)))


def save(found: Measurements, path: Path, options: dict[str, Any]) -> None:
    """Write everything that was measured, with medians and ratios beside the samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {
            "machine": machine(),
            "options": options,
            "bars": [asdict(bar) for bar in judge(found)],
            "cells": [{**_summary(cell), **asdict(cell)} for cell in found.cells],
            "no_data": [asdict(quiet) for quiet in found.quiet],
            "checks": [asdict(check) for check in found.checks],
        },
        indent=1,
    )
    path.write_text(text + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    packages = {name: version(name) for name in ("pyspark", "delta-spark", "deltalake", "pyarrow")}
    return {
        "processors": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "freshlake": VERSION,
        **packages,
    }


def _grid(cells: Sequence[Cell]) -> Table:
    table = Table(title="Refresh against recompute, MERGE and a plain append (medians of rounds taken in turn)")
    table.caption = (
        "× faster: their time over the refresh's. × append: the refresh's time over that of appending just the changed"
        " rows. cpu: the same in processor time.\nrows read: by Spark, for a refresh + by the driver."
        " Jobs and rows in the order refresh / recompute / MERGE / append."
    )
    table.add_column("case")
    for name in (
        "rows",
        "changed",
        "× faster than\nrecompute",
        "cpu",
        "× faster than\nMERGE",
        "cpu",
        "× append",
        "cpu",
    ):
        table.add_column(name, justify="right")
    for name in ("refresh\nms", "fold\nms", "jobs", "rows read"):
        table.add_column(name, justify="right")
    last = None
    for cell in cells:
        if last not in (None, (cell.rows, cell.change, cell.both)):
            table.add_section()
        last = (cell.rows, cell.change, cell.both)
        table.add_row(*_row(cell))
    return table


def _row(cell: Cell) -> list[str]:
    ratios = []
    for above, below in ((Way.RECOMPUTE, Way.REFRESH), (Way.MERGE, Way.REFRESH), (Way.REFRESH, Way.APPEND)):
        ratios += [_times(cell.ratio(above, below)), _times(cell.ratio(above, below, _cpu))]
    return [
        _name(cell),
        f"{cell.rows:,}",
        cell.change,
        *ratios,
        _milliseconds(cell.seconds(Way.REFRESH)),
        _milliseconds(cell.median(Way.REFRESH, lambda sample: sample.fold_seconds)),
        " / ".join(_count(cell.median(way, lambda sample: sample.jobs)) for way in Way),
        " / ".join(_rows_read(cell, way) for way in Way),
    ]


def _rows_read(cell: Cell, way: Way) -> str:
    read = _count(cell.median(way, lambda sample: sample.rows_read))
    own = cell.median(way, lambda sample: sample.driver_rows)
    return f"{read} + {_count(own)}" if way is Way.REFRESH else read


def _steps(cells: Sequence[Cell]) -> Table:
    """Steps differ between cases, so they are listed in a row rather than in columns."""
    table = Table(title="Where the time of a refresh goes (median milliseconds per step)")
    for name in ("case", "rows", "changed", "total", "steps"):
        table.add_column(name, justify="left" if name in ("case", "steps") else "right")
    for cell in cells:
        steps = ", ".join(f"{name} {took:.0f}" for name, took in cell.steps().items() if took >= 0.5)
        total = _milliseconds(cell.seconds(Way.REFRESH))
        table.add_row(_name(cell), f"{cell.rows:,}", cell.change, total, steps)
    return table


def _quiet(found: Measurements) -> Table:
    table = Table(title="Nothing changed (NO_DATA)")
    for name in ("stream tables", "sources each", "ms per table", "Spark jobs"):
        table.add_column(name, justify="right")
    for quiet in found.quiet:
        table.add_row(str(quiet.tables), str(quiet.sources), f"{quiet.milliseconds:.2f}", str(quiet.jobs))
    return table


def _checks(found: Measurements) -> Table:
    table = Table(title="Do all ways end with the same rows?")
    for name in ("case", "rows", "same", "detail"):
        table.add_column(name)
    for check in found.checks:
        same = "[green]yes[/]" if check.same else "[red]NO[/]"
        table.add_row(check.case, f"{check.rows:,}", same, check.detail)
    return table


def _bars(bars: Sequence[Bar]) -> Table:
    table = Table(title="Bars (1,000 changed rows)")
    for name in ("bar", "wanted", "measured", "verdict"):
        table.add_column(name)
    for bar in bars:
        table.add_row(bar.name, bar.wanted, bar.measured, f"[{_COLOURS[bar.verdict]}]{bar.verdict}[/]")
    return table


def _summary(cell: Cell) -> dict[str, Any]:
    return {
        "faster_than_recompute": cell.ratio(Way.RECOMPUTE, Way.REFRESH),
        "faster_than_merge": cell.ratio(Way.MERGE, Way.REFRESH),
        "times_append": cell.ratio(Way.REFRESH, Way.APPEND),
        "cpu": {
            "faster_than_recompute": cell.ratio(Way.RECOMPUTE, Way.REFRESH, _cpu),
            "faster_than_merge": cell.ratio(Way.MERGE, Way.REFRESH, _cpu),
            "times_append": cell.ratio(Way.REFRESH, Way.APPEND, _cpu),
        },
        "median_seconds": {str(way): cell.seconds(way) for way in Way},
        "steps_ms": cell.steps(),
    }


def _cpu(sample: Sample) -> float:
    return sample.cpu_seconds


def _name(cell: Cell) -> str:
    return f"{cell.case} (both)" if cell.both else cell.case


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:,.0f}"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
