"""The grid: for every size of source and change all cases and ways, taken in turn, round by round."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measured import HEAVY, Cell, Check, Measurements, Sample, Way
from bench.meter import Meter
from bench.options import Amount, Options
from bench.shop import Shop
from bench.ways import Ways
from freshlake import Freshlake

# The one case whose second table changes too in some cells.
_BOTH = "join_agg"
_WARM_UPS = 10
# Not a size that anyone measures: the tables have their size in their names.
_WARM_UP_ROWS = 20_001


@dataclass
class Grid:
    fl: Freshlake
    meter: Meter
    options: Options
    folder: Path
    found: Measurements
    saved: Callable[[], None]
    """Called after every cell, so that a run which is broken off leaves what it has."""

    def run(self) -> None:
        self._warm_up()
        for rows in self.options.rows:
            self._size(rows)

    def _warm_up(self) -> None:
        """Rounds that do not count: a virtual machine that has run for a while is what users have."""
        options = replace(self.options, changes=(Amount("1000"),), rounds=_WARM_UPS, heavy_rounds=1)
        Grid(self.fl, self.meter, options, self.folder, Measurements(), lambda: None)._size(_WARM_UP_ROWS)

    def _size(self, rows: int) -> None:
        shop = Shop(self.fl.spark, f"shop_{rows}", rows)
        say(f"{rows:,} orders: making the tables")
        shop.build()
        ways = [Ways(self.fl, self.meter, shop, case, self.folder) for case in self.options.cases]
        for each in ways:
            say(f"{rows:,} orders: loading stream table {each.case.name}")
            each.create()
        for amount in self.options.changes:
            self._cells(shop, ways, amount, both=False)
        self._check(ways)
        if both := [each for each in ways if each.case.name == _BOTH]:
            for amount in self.options.changes:
                self._cells(shop, both, amount, both=True)
            self._check(both)

    def _cells(self, shop: Shop, ways: Sequence[Ways], amount: Amount, both: bool) -> None:
        """One cell per case, all on the same changes. Rounds with heavy ways come last, one after the other."""
        changed, rounds = amount.of(shop.size), self.options.rounds
        samples: dict[str, list[Sample]] = {each.case.name: [] for each in ways}
        for number in range(rounds + 1):
            heavy = number > rounds - self.options.heavy_rounds
            say(f"{shop.size:,} orders, {amount.label} changed{' on both sides' if both else ''}: round {number}")
            change = shop.change(changed, both)
            for each in ways:
                if number == 0:
                    each.run(Way.REFRESH, change, number)
                    each.keep_change()
                else:
                    for way in _turn(heavy, number):
                        samples[each.case.name].append(each.run(way, change, number))
                if not heavy:
                    each.missed()
                if number == rounds - self.options.heavy_rounds:
                    each.align()
        for each in ways:
            each.forget_change()
            found = tuple(samples[each.case.name])
            self.found.cells.append(Cell(each.case.name, shop.size, amount.label, changed, both, found))
        self.saved()

    def _check(self, ways: Sequence[Ways]) -> None:
        for each in ways:
            sums = each.checksums()
            same = len(set(sums.values())) == 1
            detail = ", ".join(f"{way} {count:,} rows" for way, (count, _) in sums.items())
            self.found.checks.append(Check(each.case.name, each.shop.size, same, detail))
        self.saved()


def _turn(heavy: bool, number: int) -> list[Way]:
    """Each way comes first, second … equally often, so none always finds the caches of another."""
    ways = [way for way in Way if heavy or way not in HEAVY]
    first = number % len(ways)
    return ways[first:] + ways[:first]


def say(text: str) -> None:
    """Progress, beside the report."""
    print(text, file=sys.stderr, flush=True)
