"""`python -m bench`: one command, one table out."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import freshlake
from bench import quiet, report
from bench.grid import Grid
from bench.measured import Measurements
from bench.meter import BOOKS, Meter
from bench.options import Options, parse


def main() -> int:
    """Measure and report; fails only if a way ended with other rows than the others."""
    options = parse()
    if options.folder is not None:
        found = _run(options, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="freshlake-bench-", ignore_cleanup_errors=True) as folder:
            found = _run(options, Path(folder))
    report.show(found)
    return 0 if all(check.same for check in found.checks) else 1


def _run(options: Options, folder: Path) -> Measurements:
    found = Measurements()
    shown = {**asdict(options), "cases": [case.name for case in options.cases]}
    shown |= {name: str(value) for name, value in shown.items() if isinstance(value, Path)}

    def save() -> None:
        if options.json is not None:
            report.save(found, options.json, shown)

    with freshlake.connect(folder / "lake", spark_settings=BOOKS) as fl:
        meter = Meter(fl.spark)
        if options.cases:
            Grid(fl, meter, options, folder / "targets", found, save).run()
        quiet.measure(options, meter, folder, found)
    save()
    return found


if __name__ == "__main__":
    sys.exit(main())
