"""`python -m bench.choice`: once AUTO has history, is it as fast as the better of FULL and DIFFERENTIAL?"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table

import freshlake
from bench.cases import CASES, Case
from bench.grid import say
from bench.meter import BOOKS
from bench.options import Amount, amounts, cases, count
from bench.shop import Shop
from bench.ways import checksum
from freshlake import Freshlake

BAR = 1.10
_CHANGES = "0.01%,0.1%,1%,5%,10%,20%,50%"


class Way(StrEnum):
    """Three stream tables with the same query, over the same changes."""

    DIFFERENTIAL = "differential"
    FULL = "full"
    AUTO = "auto"


@dataclass
class Cell:
    """One case and size of change; milliseconds per round, without folds."""

    case: str
    change: str
    rows: int
    ms: dict[Way, list[float]] = field(default_factory=lambda: {way: [] for way in Way})
    chosen: list[str] = field(default_factory=list)
    by: list[str] = field(default_factory=list)

    def median(self, way: Way) -> float:
        return statistics.median(self.ms[way])

    @property
    def best(self) -> float:
        return min(self.median(Way.DIFFERENTIAL), self.median(Way.FULL))

    @property
    def ratio(self) -> float:
        """AUTO's own time against the better of the others."""
        return self.median(Way.AUTO) / self.best

    @property
    def choice(self) -> float:
        """What AUTO chose, by the times of the others: the part of the ratio that is not the machine's noise."""
        return statistics.mean(self.median(Way(chosen)) for chosen in self.chosen) / self.best


@dataclass
class Race:
    """One case: its three tables, and what AUTO is made to know before it is measured."""

    fl: Freshlake
    shop: Shop
    case: Case

    def table(self, way: Way) -> str:
        return f"{self.shop.name}.{self.case.name}_{way}"

    def create(self) -> None:
        for way in Way:
            self.fl.create_stream_table(self.table(way), self.case.sql(self.shop))

    def learn(self, number: int, forced: bool) -> None:
        """Each way in turn for every table, which also warms them alike; or AUTO as it would go by itself."""
        modes = ("DIFFERENTIAL", "FULL")
        for way in Way:
            mode = modes[number % 2] if forced or way is not Way.AUTO else None
            self.fl.refresh(self.table(way), mode=mode)

    def run(self, cell: Cell, number: int) -> None:
        """Each way comes first, second and third equally often."""
        ways = list(Way)
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            result = self.fl.refresh(self.table(way), mode=None if way is Way.AUTO else str(way).upper())
            cell.ms[way].append(result.duration_ms)
            if way is Way.AUTO:
                cell.chosen.append(str(result.action).lower())
                cell.by.append(self.fl.replay_choices(self.table(way), limit=1)[0].by)

    def is_same(self) -> bool:
        return len({checksum(self.fl.table(self.table(way))) for way in Way}) == 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Fails only if the three tables of a case end with other rows."""
    parser = argparse.ArgumentParser(prog="python -m bench.choice", description=__doc__)
    parser.add_argument("--rows", type=count, default=1_000_000, help="orders; one customer for twenty of them")
    parser.add_argument("--changes", type=amounts, default=amounts(_CHANGES), help="shares or rows, by commas")
    parser.add_argument("--only", type=cases, default=CASES, help=f"cases among {', '.join(c.name for c in CASES)}")
    parser.add_argument("--learn", type=int, default=4, help="rounds of each size that AUTO learns from")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each size")
    parser.add_argument("--by-itself", action="store_true", help="AUTO learns only from what it would do by itself")
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="freshlake-choice-", ignore_cleanup_errors=True) as folder,
        freshlake.connect(Path(folder) / "lake", spark_settings=BOOKS) as fl,
    ):
        cells, same = _measure(fl, options)
    _show(cells, options.rows)
    return 0 if same else 1


def _measure(fl: Freshlake, options: argparse.Namespace) -> tuple[list[Cell], bool]:
    shop = Shop(fl.spark, "choice", options.rows)
    say(f"{options.rows:,} orders: making the tables")
    shop.build()
    races = [Race(fl, shop, case) for case in options.only]
    for race in races:
        say(f"loading {race.case.name}")
        race.create()
    for number in range(options.learn):
        for amount in options.changes:
            say(f"learning, round {number + 1} of {options.learn}: {amount.label} changed")
            shop.change(max(1, amount.of(options.rows)))
            for race in races:
                race.learn(number, forced=not options.by_itself)
    cells: list[Cell] = []
    for amount in options.changes:
        cells += _cells(shop, races, amount, options)
        _save(cells, options)
    differing = [race.case.name for race in races if not race.is_same()]
    for name in differing:
        say(f"{name}: the three tables have other rows")
    return cells, not differing


def _cells(shop: Shop, races: Sequence[Race], amount: Amount, options: argparse.Namespace) -> list[Cell]:
    rows = max(1, amount.of(options.rows))
    cells = [Cell(race.case.name, amount.label, rows) for race in races]
    for number in range(options.rounds):
        say(f"{amount.label} changed: round {number + 1} of {options.rounds}")
        shop.change(rows)
        for race, cell in zip(races, cells, strict=True):
            race.run(cell, number)
    return cells


def _save(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """After every size, so that a run which is broken off leaves what it has."""
    if options.json is not None:
        found = [asdict(cell) | {"ratio": cell.ratio, "choice": cell.choice} for cell in cells]
        options.json.write_text(json.dumps({"rows": options.rows, "cells": found}, indent=1), encoding="utf-8")


def _show(cells: Sequence[Cell], rows: int) -> None:
    table = Table(title=f"AUTO against the better of both, {rows:,} orders", title_justify="left")
    for name in ("case", "changed", "AUTO chose", "by"):
        table.add_column(name)
    for name in ("DIFFERENTIAL, ms", "FULL, ms", "AUTO, ms", "AUTO ÷ best", "chosen ÷ best"):
        table.add_column(name, justify="right")
    for cell in sorted(cells, key=lambda cell: [case.name for case in CASES].index(cell.case)):
        times = (f"{cell.median(way):,.0f}" for way in Way)
        chosen, by = (", ".join(dict.fromkeys(words)) for words in (cell.chosen, cell.by))
        table.add_row(cell.case, cell.change, chosen, by, *times, f"{cell.ratio:.2f}", f"{cell.choice:.2f}")
    Console(width=150).print(table)
    slower, wrong = (
        sum(ratio > BAR for ratio in ratios) for ratios in zip(*((c.ratio, c.choice) for c in cells), strict=True)
    )
    print(f"AUTO was more than {BAR - 1:.0%} slower than the better of both in {slower} of {len(cells)} cells,")
    print(f"and what it chose was so in {wrong}, by the times of the tables that are always refreshed that way.")


if __name__ == "__main__":
    sys.exit(main())
