"""Workers: the most urgent first, never more than there is room for, and nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from freshlake.clock import ManualClock
from freshlake.service.workers import JobState, Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers(ManualClock())
    yield found
    found.close(wait=True)


class Doing:
    """Jobs that wait until they are let go, and what was done."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.done: list[str] = []
        self._begun = threading.Semaphore(0)
        self._gates: dict[str, threading.Event] = {}

    def ask(self, name: str, priority: int = 2) -> None:
        self._gates[name] = threading.Event()
        self.workers.ask((name,), priority, lambda: self._run(name))

    def _run(self, name: str) -> None:
        self._begun.release()
        self._gates[name].wait(30)
        self.done.append(name)

    def begun(self, count: int) -> None:
        """Wait until so many more have begun."""
        for _ in range(count):
            assert self._begun.acquire(timeout=30)

    def end(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()


def states(workers: Workers) -> dict[str, JobState]:
    return {job.tables[0]: job.state for job in workers.jobs()}


def test_without_threads_jobs_are_done_at_once_and_in_order(workers: Workers) -> None:
    done: list[str] = []

    def first() -> None:
        done.append("first")
        workers.ask(("after",), 1, lambda: done.append("after"))

    workers.ask(("second",), 3, lambda: done.append("second"))
    workers.ask(("first",), 2, first)
    workers.go()
    assert done == ["first", "after", "second"], "the most urgent, also of those that came later"
    assert workers.load == (0, 0)
    assert set(states(workers).values()) == {JobState.DONE}


def test_no_more_run_than_there_is_room_for(workers: Workers) -> None:
    doing = Doing(workers)
    workers.start()
    for name in "abcd":
        doing.ask(name)
    workers.go(2)
    doing.begun(2)
    assert workers.load == (2, 2)
    doing.end("a")
    doing.begun(1)
    assert workers.load == (2, 1)
    workers.go(3)
    doing.begun(1)
    assert workers.load == (3, 0)
    doing.end("b", "c", "d")
    assert workers.drain(30)
    assert sorted(doing.done) == ["a", "b", "c", "d"]


def test_less_room_stops_nothing_but_what_has_not_begun(workers: Workers) -> None:
    doing = Doing(workers)
    workers.start()
    for name in "abc":
        doing.ask(name)
    workers.go(2)
    doing.begun(2)
    workers.go(1)
    doing.end("a")
    assert not workers.drain(0.05)
    assert workers.load == (1, 1), "c waits until b has ended too"
    doing.end("b", "c")
    assert workers.drain(30)


def test_a_later_job_that_is_more_urgent_comes_first(workers: Workers) -> None:
    doing = Doing(workers)
    workers.start()
    for name, priority in (("running", 2), ("cold", 4), ("hot", 2), ("immediate", 1)):
        doing.ask(name, priority)
        workers.go(1)
    doing.begun(1)
    doing.end("running", "cold", "hot", "immediate")
    assert workers.drain(30)
    assert doing.done == ["running", "immediate", "hot", "cold"]


def test_a_table_goes_to_the_thread_that_had_it_last(workers: Workers) -> None:
    doing = Doing(workers)
    workers.start()

    def rounds(order: str) -> dict[str, str | None]:
        for name in order:
            doing.ask(name)
        workers.go(3)
        doing.begun(3)
        doing.end(*order)
        assert workers.drain(30)
        return {job.tables[0]: job.worker for job in workers.jobs()[:3]}

    first = rounds("abc")
    assert len(set(first.values())) == 3
    assert rounds("cab") == rounds("bca") == first


def test_one_at_a_time_is_one_thread(workers: Workers) -> None:
    workers.start()
    for number in range(20):
        workers.ask((f"t{number}",), 2, lambda: None)
    workers.go(1)
    assert workers.drain(30)
    assert {job.worker for job in workers.jobs()} == {"freshlake-refresh-1"}


def test_a_job_that_fails_says_why_and_makes_room(workers: Workers) -> None:
    workers.start()

    def broken() -> None:
        raise RuntimeError("oh")

    workers.ask(("broken",), 2, broken)
    workers.ask(("refused",), 2, lambda: "refused: no")
    workers.ask(("fine",), 2, lambda: None)
    workers.go(1)
    assert workers.drain(30)
    found = {job.tables[0]: (job.state, job.error) for job in workers.jobs()}
    assert found == {
        "fine": (JobState.DONE, None),
        "refused": (JobState.FAILED, "refused: no"),
        "broken": (JobState.FAILED, "RuntimeError: oh"),
    }
