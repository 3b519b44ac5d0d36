"""What a piece of work cost: wall time, processor time, Spark jobs, rows that Spark read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

BOOKS = {"spark.ui.retainedJobs": "1000000", "spark.ui.retainedStages": "1000000"}
"""Spark forgets old jobs and stages; a long run must not lose those it is about to count."""


@dataclass
class Cost:
    """Filled in when the measured block ends."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    job_ids: list[int] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        return len(self.job_ids)


class Meter:
    """Reads Spark's own books. Nothing else may use this Spark meanwhile, since jobs are told apart by their numbers.

    Processor time counts this process and its JVM, where a local Spark does everything, so it is the steadier figure on
    a machine that also does other work.
    """

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark.sparkContext._jsc.sc()
        self._scheduler, self._bus, self._store = java.dagScheduler(), java.listenerBus(), java.statusStore()
        jvm: Any = spark._jvm
        self._system = jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
        self._as_bean = jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
        self._cpu_time = self._as_bean.getMethod("getProcessCpuTime", None)

    @contextmanager
    def measured(self) -> Iterator[Cost]:
        """Measure the block; a block that fails is not measured."""
        cost = Cost()
        first = self._scheduler.numTotalJobs()
        processor, started = self._cpu(), time.perf_counter()
        yield cost
        cost.seconds = time.perf_counter() - started
        cost.cpu_seconds = self._cpu() - processor
        cost.job_ids = list(range(first, self._scheduler.numTotalJobs()))

    def job_seconds(self, job_ids: list[int]) -> float:
        """How long the jobs ran, each by itself."""
        self._bus.waitUntilEmpty()
        total = 0
        for job in map(self._store.job, job_ids):
            total += job.completionTime().get().getTime() - job.submissionTime().get().getTime()
        return total / 1000

    def rows_read(self, job_ids: list[int]) -> int:
        """Rows that the jobs read from files."""
        self._bus.waitUntilEmpty()
        stages: set[int] = set()
        for job in job_ids:
            ids = self._store.job(job).stageIds()
            stages.update(int(ids.apply(i)) for i in range(ids.size()))
        return sum(int(self._store.lastStageAttempt(stage).inputRecords()) for stage in stages)

    def _cpu(self) -> float:
        return time.process_time() + float(self._cpu_time.invoke(self._system, None)) / 1e9
