"""Workers: threads that carry out jobs, the most urgent first, as many at a time as there is room for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any

from freshlake.clock import Clock

MOST_THREADS = 64
"""More than any setting asks for; threads are made when they are needed."""
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


@dataclass
class Workers:
    """Jobs wait here, not with the threads, so that a later one that is more urgent comes first."""

    clock: Clock
    room: int = 1
    """How many may run now."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[Job] = field(default_factory=list)
    _running: set[Job] = field(default_factory=set)
    _ended: deque[Job] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _threads: ThreadPoolExecutor | None = None
    _asked: int = 0

    def start(self) -> None:
        """Carry out jobs in threads from now on; without them a job runs in the thread that brings it."""
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="freshlake-refresh")

    @property
    def has_threads(self) -> bool:
        return self._threads is not None

    def ask(self, tables: tuple[str, ...], priority: int, run: Callable[[], str | None]) -> None:
        """Have a job done when its turn comes."""
        with self._changed:
            self._asked += 1
            heappush(self._waiting, Job(tables, priority, run, self.clock.now(), self._asked))

    def go(self, room: int | None = None) -> None:
        """Begin what there is room for; without threads, do all there is."""
        self.room = self.room if room is None else room
        while (job := self._next()) is not None:
            if self._threads is None:
                self._work(job)
            else:
                self._threads.submit(self._work_on, job)

    def _next(self) -> Job | None:
        with self._changed:
            if not self._waiting or (self._threads is not None and len(self._running) >= self.room):
                return None
            job = heappop(self._waiting)
            self._running.add(job)
            return job

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
                self._running.discard(job)
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
        if self._threads is not None:
            self._threads.shutdown(wait=wait, cancel_futures=True)
            self._threads = None
