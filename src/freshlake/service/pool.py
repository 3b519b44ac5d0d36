"""Who keeps the lake fresh, and what each runs: daemons and their jobs, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from freshlake.catalog.daemons import Daemon, is_awake
from freshlake.catalog.names import TableName
from freshlake.catalog.owner import describe
from freshlake.catalog.records import Json
from freshlake.catalog.store import Catalog
from freshlake.service.workers import JobState


@dataclass(frozen=True)
class WorkerPool:
    """The workers of one daemon, as of its last tick."""

    daemon: str
    is_alive: bool
    started: datetime
    last_tick: datetime | None
    interval_ms: int
    workers: int
    running: int
    waiting: int
    quota: int
    version: str | None


@dataclass(frozen=True)
class JobStatus:
    """One unit: stream tables that a worker refreshes one after the other."""

    daemon: str
    unit: int
    tables: tuple[str, ...]
    state: JobState
    worker: str | None
    asked: datetime
    started: datetime | None
    ended: datetime | None
    error: str | None


def worker_pools(catalog: Catalog, now: datetime) -> list[WorkerPool]:
    """All daemons that have not ended in order, newest first; one that is not alive has gone without a word."""
    return [
        WorkerPool(
            describe(d.owner),
            is_awake(d, now),
            d.started_at,
            d.last_tick_at,
            d.interval_ms,
            d.workers,
            d.running,
            d.waiting,
            d.quota,
            d.version,
        )
        for d in catalog.daemons()
        if d.ended_at is None
    ]


def job_statuses(catalog: Catalog, now: datetime, seconds: float) -> list[JobStatus]:
    """What waits, what runs, and what has ended not longer ago than this; each daemon's newest first."""
    since = now - timedelta(seconds=seconds)
    found = [_job(daemon, job) for daemon in catalog.daemons() for job in daemon.jobs or ()]
    return [job for job in found if (job.ended or now) >= since and job.asked <= now]


def _job(daemon: Daemon, told: Json) -> JobStatus:
    asked, started, ended = (
        None if told[name] is None else datetime.fromisoformat(told[name]) for name in ("asked", "started", "ended")
    )
    assert asked is not None
    tables = tuple(TableName.parse(name).short for name in told["tables"])
    state, worker, error = JobState(told["state"]), told["worker"], told["error"]
    return JobStatus(describe(daemon.owner), told["unit"], tables, state, worker, asked, started, ended, error)
