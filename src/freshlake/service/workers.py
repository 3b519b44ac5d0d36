"""Workers: threads that carry out jobs, the most urgent first, as many at a time as there is room for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import Any

from freshlake.clock import Clock

_REMEMBERED = 100


class JobState(StrEnum):
    """How far a job is."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(eq=False)
class Job:
    """A unit of a tick: `run` refreshes its tables, and returns why it failed, if it did."""

    tables: tuple[str, ...]
    priority: int
    run: Callable[[], str | None]
    asked: datetime
    number: int = 0
    state: JobState = JobState.WAITING
    worker: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    error: str | None = None

    def __lt__(self, other: Job) -> bool:
        return (self.priority, self.number) < (other.priority, other.number)

    def to_json(self) -> dict[str, Any]:
        """As the catalog keeps it."""
        moments = {"asked": self.asked, "started": self.started, "ended": self.ended}
        told = {name: None if at is None else at.isoformat() for name, at in moments.items()}
        return {
            "unit": self.number,
            "tables": list(self.tables),
            "state": str(self.state),
            "worker": self.worker,
            "priority": self.priority,
            **told,
            "error": self.error,
        }


class _Hand:
    """A thread that does the jobs it is given, one after the other."""

    def __init__(self, name: str, work: Callable[[Job], None]) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._work = work
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            self._work(job)


@dataclass
class Workers:
    """Jobs wait here, not with the threads, so that a later one that is more urgent comes first.

    A thread keeps what it has compiled, so tables go to the thread that had them last, if it is free.
    """

    clock: Clock
    room: int = 1
    """How many may run now."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[Job] = field(default_factory=list)
    _running: dict[Job, _Hand | None] = field(default_factory=dict)
    _ended: deque[Job] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _hands: list[_Hand] | None = None
    _last: dict[str, _Hand] = field(default_factory=dict)
    _asked: int = 0

    def start(self) -> None:
        """Carry out jobs in threads from now on; without them a job runs in the thread that brings it."""
        self._hands, self._last = [], {}

    @property
    def has_threads(self) -> bool:
        return self._hands is not None

    def ask(self, tables: tuple[str, ...], priority: int, run: Callable[[], str | None]) -> None:
        """Have a job done when its turn comes."""
        with self._changed:
            self._asked += 1
            heappush(self._waiting, Job(tables, priority, run, self.clock.now(), self._asked))

    def go(self, room: int | None = None) -> None:
        """Begin what there is room for; without threads, do all there is."""
        self.room = self.room if room is None else room
        while (job := self._next()) is not None:
            self._work(job)

    def _next(self) -> Job | None:
        """A job for this thread, if there are no others; those that others do are handed to them."""
        with self._changed:
            while self._waiting and (self._hands is None or len(self._running) < self.room):
                job = heappop(self._waiting)
                hand = self._running[job] = None if self._hands is None else self._hand(self._hands, job)
                if hand is None:
                    return job
                hand.jobs.put(job)
        return None

    def _hand(self, hands: list[_Hand], job: Job) -> _Hand:
        free = [hand for hand in hands if hand not in self._running.values()]
        home = self._last.get(job.tables[0])
        if home in free:
            return home
        if not free:
            free = [_Hand(f"freshlake-refresh-{len(hands) + 1}", self._work_on)]
            hands += free
        return free[-1]

    def _work_on(self, job: Job) -> None:
        self._work(job)
        self.go()

    def _work(self, job: Job) -> None:
        job.worker, job.started, job.state = threading.current_thread().name, self.clock.now(), JobState.RUNNING
        try:
            job.error = job.run()
        except Exception as error:
            job.error = f"{type(error).__name__}: {error}"
        finally:
            job.state = JobState.DONE if job.error is None else JobState.FAILED
            job.ended = self.clock.now()
            with self._changed:
                if (hand := self._running.pop(job)) is not None:
                    self._last |= dict.fromkeys(job.tables, hand)
                self._ended.append(job)
                self._changed.notify_all()

    @property
    def load(self) -> tuple[int, int]:
        """How many run, and how many wait."""
        with self._changed:
            return len(self._running), len(self._waiting)

    def jobs(self) -> list[Job]:
        """What waits, runs, and has run lately."""
        with self._changed:
            return [*sorted(self._waiting), *sorted(self._running, key=lambda job: job.number), *reversed(self._ended)]

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs and nothing waits; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running and not self._waiting, timeout)

    def close(self, *, wait: bool) -> None:
        """End the threads, each after what it does now."""
        with self._changed:
            hands, self._hands = self._hands or [], None
        for hand in hands:
            hand.jobs.put(None)
        for hand in hands if wait else ():
            hand.thread.join()
