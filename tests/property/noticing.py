"""Which test notices a mutation: those of the rules on DuckDB, then histories on Spark."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.integration import test_joins, test_operators, test_stored_operators
from tests.property.case import Script
from tests.property.generate import generate
from tests.property.mutation import Mutation
from tests.property.play import play
from tests.property.test_property import SEEDS

UNIT_TESTS = [
    f"tests/unit/test_{name}.py" for name in ("rules", "join_rules", "stored_rules", "recursion", "current_time")
]

CASES = {**test_operators.CASES, **test_joins.CASES}
"""Directed cases over the same tables."""


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
        return "the tests of the rules cannot run"
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


def failing_history(mutation: Mutation, folder: Path) -> str | None:
    """The first history that goes wrong under the mutation."""
    for number, (what, history) in enumerate(_histories(mutation)):
        lake = folder / f"lake-{number}"
        try:
            with applied(mutation):
                failure, _ = play(history, lake)
        finally:
            shutil.rmtree(lake, ignore_errors=True)
        if failure is not None:
            return f"{what}, {failure.query} round {failure.round}, {failure.kind}"
    return None


def _histories(mutation: Mutation) -> Iterator[tuple[str, Script]]:
    yield from (("directed", history) for history in _directed(mutation.cases))
    yield "all directed", test_operators.script(CASES)
    yield "all directed", test_stored_operators.script()
    for seed in SEEDS:
        yield f"seed {seed}", generate(seed).script()


def _directed(names: tuple[str, ...]) -> Iterator[Script]:
    """Some of the directed cases, through all their rounds."""
    if wanted := {n: s for n, s in CASES.items() if n in names}:
        yield test_operators.script(wanted)
    if wanted := {n: s for n, s in test_stored_operators.CASES.items() if n in names}:
        yield test_stored_operators.script(wanted)
