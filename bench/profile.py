"""`python -m bench.profile`: where the time of one small refresh goes, by step, function, JVM call and Spark phase."""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import freshlake
from bench.calls import Calls
from bench.cases import CASES, Case
from bench.meter import BOOKS, Meter
from bench.shop import Shop

_WARM_UPS = 3


class Profile:
    """One lake, one shop, every case as a stream table."""

    def __init__(self, folder: Path, rows: int, changes: int, both: bool, settings: dict[str, str]) -> None:
        self.fl = freshlake.connect(folder, spark_settings=BOOKS | settings)
        self.meter = Meter(self.fl.spark)
        self.changes, self.both = changes, both
        self.shop = Shop(self.fl.spark, "shop", rows)
        self.shop.build()

    def run(self, cases: Sequence[Case], rounds: int, functions: int) -> None:
        for case in cases:
            self.fl.create_stream_table(case.name, case.sql(self.shop), refresh_mode="DIFFERENTIAL")
        for _ in range(_WARM_UPS):
            self._round(cases)
        steps: dict[str, list[dict[str, float]]] = {case.name: [] for case in cases}
        for _ in range(rounds):
            for name, measured in self._round(cases).items():
                steps[name].append(measured)
        self.shop.change(self.changes, self.both)
        counted = {case.name: self._calls(case) for case in cases}
        self.shop.change(self.changes, self.both)
        for case in cases:
            print(f"\n=== {case.name}: {case.about} ===")
            _print_steps(steps[case.name])
            _print_calls(counted[case.name])
            self._print_functions(case, functions)

    def _round(self, cases: Sequence[Case]) -> dict[str, dict[str, float]]:
        self.shop.change(self.changes, self.both)
        return {case.name: self._refresh(case) for case in cases}

    def _refresh(self, case: Case) -> dict[str, float]:
        generator = self._compiler()
        compiled = generator.compileTime()
        with self.meter.measured() as cost:
            result = self.fl.refresh(case.name, mode="DIFFERENTIAL")
        steps = {f"  {name}": took for name, took in result.timings.items()}
        return {
            "wall": cost.seconds * 1000,
            **steps,
            "  before and after the steps": cost.seconds * 1000 - sum(steps.values()),
            "cpu": cost.cpu_seconds * 1000,
            "code generation": (generator.compileTime() - compiled) / 1e6,
            "Spark jobs": cost.jobs,
            "inside Spark jobs": self.meter.job_seconds(cost.job_ids) * 1000,
            "rows read by Spark": self.meter.rows_read(cost.job_ids),
            "rows read by the driver": result.rows_read,
        }

    def _compiler(self) -> Any:
        jvm: Any = self.fl.spark._jvm
        return jvm.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator

    def _calls(self, case: Case) -> Calls:
        calls = Calls()
        with calls.counted():
            self.fl.refresh(case.name, mode="DIFFERENTIAL")
        return calls

    def _print_functions(self, case: Case, count: int) -> None:
        profiler = cProfile.Profile()
        profiler.runcall(self.fl.refresh, case.name, "DIFFERENTIAL")
        statistics_ = pstats.Stats(profiler)
        for order in ("cumulative", "tottime"):
            statistics_.sort_stats(order).print_stats(count)


def _print_steps(rounds: list[dict[str, float]]) -> None:
    names = list(dict.fromkeys(name for measured in rounds for name in measured))
    print(f"{'milliseconds or counts':32} {'least':>10} {'median':>10}")
    for name in names:
        values = [measured.get(name, 0.0) for measured in rounds]
        print(f"{name:32} {min(values):10.1f} {statistics.median(values):10.1f}")


def _print_calls(calls: Calls) -> None:
    print(f"\nround trips to the JVM: {calls.total}, {sum(calls.seconds.values()) * 1000:.0f} ms")
    for name, seconds in sorted(calls.seconds.items(), key=lambda item: -item[1])[:25]:
        print(f"  {name:60} {calls.count[name]:6d} calls {seconds * 1000:9.1f} ms")
    for query in calls.queries:
        phases = ", ".join(f"{name} {took}" for name, took in query.phases.items())
        print(f"  collected in {query.caller}: {query.seconds * 1000:.0f} ms, of which {phases}")


def main() -> None:
    """Parse the arguments and print one profile per case."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--both", action="store_true", help="customers change too")
    parser.add_argument("--only", default="scan,aggregate,join_agg", help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--functions", type=int, default=40, help="how many functions to list")
    given = parser.parse_args()
    cases = [case for case in CASES if case.name in given.only.split(",")]
    settings = dict(text.split("=", 1) for text in given.set)
    with tempfile.TemporaryDirectory(prefix="freshlake-profile-") as folder:
        profile = Profile(Path(folder), given.rows, given.changes, given.both, settings)
        profile.run(cases, given.rounds, given.functions)


if __name__ == "__main__":
    main()
