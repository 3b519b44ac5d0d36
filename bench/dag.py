"""`python -m bench.dag`: changes through graphs of stream tables, ticks with nothing to do, followed writes."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import freshlake
from bench import ticks, writes
from bench.meter import BOOKS, Meter
from bench.options import count
from bench.propagation import WORKERS, Propagated, Propagation
from bench.shapes import Shape, chain, diamond, fan_out
from bench.shop import Shop
from bench.ticks import Ticked
from bench.writes import Written
from freshlake.clock import ManualClock

_PARTS = ("propagation", "ticks", "writes")


@dataclass(frozen=True)
class Options:
    rows: int
    changed: int
    rounds: int
    shapes: tuple[Shape, ...]
    tables: tuple[int, ...]
    dependants: tuple[int, ...]
    parts: tuple[str, ...]
    json: Path | None


@dataclass
class Found:
    propagated: list[Propagated] = field(default_factory=list)
    ticked: list[Ticked] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fails only if a stream table ends with other rows than its recompute."""
    options = _parse(arguments)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="freshlake-dag-", ignore_cleanup_errors=True) as folder:
        _measure(options, Path(folder), found)
    _show(found, options)
    return 0 if all(each.same for each in found.propagated) else 1


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.dag", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small graphs over 100,000 orders")
    parser.add_argument("--rows", type=count, help="orders; 1 million, or 100,000 with --quick")
    parser.add_argument("--changed", type=count, default=1_000, help="changed orders, and rows of a write")
    parser.add_argument("--rounds", type=int, help="measured rounds; 5, or 3 with --quick")
    parser.add_argument("--only", choices=_PARTS, help="one part")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    given = parser.parse_args(arguments)
    quick = given.quick
    return Options(
        rows=given.rows or (100_000 if quick else 1_000_000),
        changed=given.changed,
        rounds=given.rounds or (3 if quick else 5),
        shapes=(chain(4 if quick else 10), fan_out(8 if quick else 50), diamond()),
        tables=(10, 100) if quick else (10, 100, 1_000),
        dependants=(0, 1, 5),
        parts=(given.only,) if given.only else _PARTS,
        json=given.json,
    )


def _measure(options: Options, folder: Path, found: Found) -> None:
    clock = ManualClock()
    settings = {"max_concurrent_refreshes": WORKERS, "min_schedule_seconds": 60}
    with freshlake.connect(folder / "lake", spark_settings=BOOKS, settings=settings, clock=clock) as fl:
        meter = Meter(fl.spark)
        if "ticks" in options.parts:
            for tables in options.tables:
                found.ticked.append(ticks.measure(meter, folder, tables))
                _save(found, options)
        if "writes" in options.parts:
            found.written = writes.measure(fl, meter, options.changed, options.dependants, options.rounds)
            _save(found, options)
        if "propagation" in options.parts:
            shop = Shop(fl.spark, "dag", options.rows)
            shop.build()
            for shape in options.shapes:
                way = Propagation(fl, clock, meter, shop, folder / "recomputed")
                found.propagated.append(way.measure(shape, options.changed, options.rounds))
                _save(found, options)


def _save(found: Found, options: Options) -> None:
    if options.json is not None:
        told = {"rows": options.rows, "changed": options.changed, **asdict(found)}
        options.json.write_text(json.dumps(told, indent=1), encoding="utf-8")


def _show(found: Found, options: Options) -> None:
    table = Table(title=f"{options.changed:,} changed rows, {options.rows:,} orders", title_justify="left")
    for name in ("what", "way"):
        table.add_column(name)
    for name in ("ms", "against", "ratio", "Spark jobs"):
        table.add_column(name, justify="right")
    for row in (*_propagated(found), *_ticked(found), *_written(found)):
        table.add_row(*row)
    Console(width=120).print(table)
    print("Ratios: recompute of all tables ÷ propagation; write with dependants ÷ the same write alone.")
    print(f"Parallel is with {WORKERS} workers. A tick that finds nothing to do shows processor time in parentheses.")


def _propagated(found: Found) -> Iterator[tuple[str, ...]]:
    for each in found.propagated:
        for way in ("serial", "parallel"):
            ms, against = (f"{1000 * each.median(name):,.0f}" for name in (way, "recompute"))
            jobs = f"{statistics.median(each.jobs):.0f}" if way == "serial" else ""
            yield f"change through {each.shape}", way, ms, against, f"{each.times_faster(way):.1f}", jobs


def _ticked(found: Found) -> Iterator[tuple[str, ...]]:
    for each in found.ticked:
        what, jobs = f"tick over {each.tables:,} tables", str(each.jobs)
        yield what, "none due", f"{each.not_due_ms:.1f} ({each.not_due_cpu_ms:.1f})", "", "", jobs
        yield what, "all due, nothing new", f"{each.unchanged_ms:.1f} ({each.unchanged_cpu_ms:.1f})", "", "", jobs


def _written(found: Found) -> Iterator[tuple[str, ...]]:
    for each in found.written:
        own, plain = (1000 * statistics.median(seconds) for seconds in (each.seconds, each.plain))
        jobs = f"{statistics.median(each.jobs):.0f}"
        yield "write", f"{each.dependants} IMMEDIATE", f"{own:,.0f}", f"{plain:,.0f}", f"{each.ratio:.2f}", jobs


if __name__ == "__main__":
    sys.exit(main())
