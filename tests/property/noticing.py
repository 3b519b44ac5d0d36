"""Which test notices a mutation: those of the rules on DuckDB, then what the default run plays on Spark."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.property.generate import generate
from tests.property.mutation import Mutation
from tests.property.play import play
from tests.property.test_property import SEEDS
from tests.scenarios.player import Player
from tests.scenarios.story import read

UNIT_TESTS = [
    f"tests/unit/test_{name}.py" for name in ("rules", "join_rules", "stored_rules", "recursion", "current_time")
]

SCENARIOS = Path(__file__).parents[1] / "scenarios"


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    with ExitStack() as stack:
        for patch in mutation.patches():
            stack.enter_context(patch)
        yield


def failing_unit_test(mutation: Mutation) -> str | None:
    """The first test of the rules that fails under the mutation; in a process of its own, so that nothing stays."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_run_unit_tests, args=(mutation, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv() or None
    except EOFError:
        raise RuntimeError(f"{mutation.name}: the tests of the rules cannot run") from None
    finally:
        process.join()


class _FirstFailure:
    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def _run_unit_tests(mutation: Mutation, end: Connection) -> None:
    first = _FirstFailure()
    with applied(mutation), open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", *UNIT_TESTS], plugins=[first])
    end.send(first.name)


def noticed_on_spark(mutation: Mutation, folder: Path) -> str | None:
    """The first scenario or history of the default run that goes wrong under the mutation."""
    for number, play_one in enumerate(_plays(mutation)):
        lake = folder / f"lake-{number}"
        try:
            with applied(mutation):
                found = play_one(lake)
        finally:
            shutil.rmtree(lake, ignore_errors=True)
        if found:
            return found
    return None


def _plays(mutation: Mutation) -> Iterator[Callable[[Path], str | None]]:
    files = sorted(SCENARIOS.glob("*.slt"), key=lambda file: file.stem != mutation.story)
    yield partial(_failing_scenario, files[0])
    for seed in SEEDS:
        yield partial(_failing_history, seed)
    for file in files[1:]:
        yield partial(_failing_scenario, file)


def _failing_scenario(file: Path, lake: Path) -> str | None:
    story = read(file)
    player = Player(story, lake, {scenario.name for scenario in story.scenarios if not scenario.slow})
    player.play()
    return next((f"{file.name}, {name}" for name in player.failures), None)


def _failing_history(seed: int, lake: Path) -> str | None:
    failure, _ = play(generate(seed).script(), lake)
    return failure and f"seed {seed}, {failure.query} round {failure.round}, {failure.kind}"
