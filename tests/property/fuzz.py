"""Random query and change histories until one differs: `python -m tests.property.fuzz --count N --seed S`.

A history is one query over tables that change and change again, refreshed and compared after every round. Some
histories share a lake and its changes, because one query may read another's stream table; each of them counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from freshlake.session import start
from tests.local_spark import SETTINGS
from tests.property.case import Case
from tests.property.generate import OPERATORS, generate
from tests.property.play import Failure, Play
from tests.property.shrink import shrink

EXAMPLES = Path(__file__).parent / "examples"

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Every query is new and its tables are tiny: compiling it would take longer than all else."""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.processes > 1:
        return _divided(options, sys.argv[1:] if arguments is None else arguments)
    folder = Path(tempfile.mkdtemp(prefix="freshlake-fuzz-"))
    spark = start(folder / "warehouse", app_name="freshlake-fuzz", settings={**SETTINGS, **INTERPRETED})
    try:
        return _fuzz(options, folder)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="histories to play")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first lake; the others follow")
    parser.add_argument("--queries", type=int, default=18, help="histories per lake")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of changes per history")
    parser.add_argument("--operators", type=_operators, default=OPERATORS, help="these, with commas between")
    parser.add_argument("--shrink", type=int, default=40, help="attempts to make a failing history smaller")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first difference")
    parser.add_argument("--processes", type=int, default=1, help="share the histories between so many processes")
    parser.add_argument("--every", type=int, default=1, help="play every so many seeds")
    return parser


def _operators(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _divided(options: argparse.Namespace, arguments: list[str]) -> int:
    """Each process takes seeds of its own; what they print is printed as it comes."""
    share = -(-options.count // options.processes)
    command = [sys.executable, "-m", "tests.property.fuzz", *arguments, "--processes", "1", "--count", str(share)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = []
    for number in range(options.processes):
        seeds = ["--seed", str(options.seed + number), "--every", str(options.processes)]
        started.append(subprocess.Popen([*command, *seeds], env=path))
    return max(process.wait() for process in started)


def _fuzz(options: argparse.Namespace, folder: Path) -> int:
    started, histories, refreshes, failed, twice, invalid = time.perf_counter(), 0, 0, 0, 0, 0
    for seed in count(options.seed, options.every):
        if histories >= options.count:
            break
        case = generate(seed, options.queries, options.rounds, options.operators)
        played = Play(case.script(), folder / f"lake-{seed}", random=True)
        failures = played.run()
        shutil.rmtree(folder / f"lake-{seed}", ignore_errors=True)
        assert played.oracle is not None
        refreshes += played.refreshes
        twice += played.oracle.second.checked
        invalid += len(played.oracle.invalid)
        histories += len(case.queries) - len(played.oracle.invalid)
        minutes = (time.perf_counter() - started) / 60
        print(f"{histories} of {options.count}, seed {seed}: {refreshes} refreshes, {minutes:.1f} min", flush=True)
        if failures:
            failed += 1
            _report(seed, case, failures[0], folder, options.shrink)
            if not options.keep_going:
                return 1
    print(
        f"{histories} histories, {refreshes} refreshes, {twice} results compared with DuckDB too, "
        f"{failed} lakes with a difference; {invalid} queries left out because Spark cannot run them"
    )
    return 1 if failed else 0


def _report(seed: int, case: Case, failure: Failure, folder: Path, attempts: int) -> None:
    print(f"\nseed {seed} fails: {failure}\n", flush=True)
    numbers = count()

    def fails(smaller: Case) -> Failure | None:
        lake = folder / f"shrink-{seed}-{next(numbers)}"
        try:
            return next(iter(Play(smaller.script(), lake, random=True).run()), None)
        except Exception:
            return None  # a smaller history that is no valid one
        finally:
            shutil.rmtree(lake, ignore_errors=True)

    case, failure = shrink(case, failure, fails, attempts) if attempts else (case, failure)
    text = case.script().to_json()
    print(f"smallest found: {failure}\n\nsave as tests/property/examples/seed_{seed}.json:\n{text}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
