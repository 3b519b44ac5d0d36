"""A worker: its own Spark sessions, apart from the user's, and the count of what they did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from freshlake.compiler.bridge import Bridge
from freshlake.compiler.refusals import VIEW_DEPTH
from freshlake.refresh.pinned import EVALUATED, PINNED_SETTINGS, SCHEMA, settings_of
from freshlake.refresh.session_names import SessionNames
from freshlake.session import own_catalog

_ENGINE = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # rows are written as the driver writes them, in commits that are ours alone
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.databricks.delta.autoCompact.enabled": "false",
}
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
_LARGE = {"spark.sql.adaptive.enabled": "true"}
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling a plan to byte code takes longer than interpreting it over a few thousand rows."""


@dataclass
class Worker:
    """`binding` analyzes users' queries under their pinned settings, `running` executes programs under the engine's.

    A handle must not be used by two threads, so every thread has a worker of its own.
    """

    binding: SparkSession
    running: SparkSession
    bridge: Bridge
    run_bridge: Bridge
    names: SessionNames
    """What `binding` keeps."""
    # What the sessions are set to: every setting is a round trip, and most refreshes are like the one before.
    _small: bool | None = None
    _few_rows: bool = False
    _bound: _Settings = field(init=False)
    _evaluated: _Settings = field(init=False)

    def __post_init__(self) -> None:
        self._bound = _Settings(self.binding, PINNED_SETTINGS)
        self._evaluated = _Settings(self.running, EVALUATED)

    @classmethod
    def start(cls, spark: SparkSession) -> Worker:
        binding, running = own_catalog(spark.newSession()), own_catalog(spark.newSession())
        binding.conf.set("spark.sql.view.maxNestedViewDepth", str(VIEW_DEPTH))
        for key, value in _ENGINE.items():
            running.conf.set(key, value)
        bridge = Bridge(binding)
        return cls(binding, running, bridge, Bridge(running), SessionNames.of(bridge))

    def pin(self, settings: Mapping[str, Any]) -> None:
        """Analyze under these settings, and under the session's own for what is not named."""
        self._bound.become(settings)
        self.binding.catalog.setCurrentDatabase(str(settings.get(SCHEMA, "default")))

    def forget_names(self) -> None:
        """Only names of the catalog count, as they are now."""
        self.names.forget()

    def run_under(self, settings: Mapping[str, Any]) -> None:
        """Run what comes next under these settings."""
        self._evaluated.become(settings)

    def size_for(self, small: bool) -> None:
        """Small work runs without adaptive execution and in one partition: fewer jobs and no shuffle."""
        self.interpret(False)
        if small == self._small:
            return
        self._small = small
        for session in (self.binding, self.running):
            for key in _SMALL:
                session.conf.unset(key)
            for key, value in (_SMALL if small else _LARGE).items():
                session.conf.set(key, value)

    def interpret(self, few_rows: bool) -> None:
        """Whether what runs next is worth compiling."""
        if few_rows == self._few_rows:
            return
        self._few_rows = few_rows
        for session in (self.binding, self.running):
            for key, value in _INTERPRETED.items():
                if few_rows:
                    session.conf.set(key, value)
                else:
                    session.conf.unset(key)

    @contextlib.contextmanager
    def counting(self) -> Iterator[JobCount]:
        """Count the Spark jobs started inside the block."""
        context = self.running.sparkContext
        tag = f"freshlake-{uuid4().hex}"
        count = JobCount()
        context.addJobTag(tag)
        try:
            yield count
        finally:
            tracker = context._jsc.sc().statusTracker()
            count.jobs = len(tracker.getJobIdsForTag(tag))
            context.removeJobTag(tag)


@dataclass
class JobCount:
    jobs: int = 0


class _Settings:
    """Some settings of a session, which go back to what they were in the beginning when they are not named."""

    def __init__(self, session: SparkSession, keys: Iterable[str]) -> None:
        known = settings_of(session)
        self.session, self.keys = session, tuple(keys)
        self.own = {key: known[key] for key in self.keys if key in known}
        self.now: dict[str, str | None] = dict(self.own)

    def become(self, wanted: Mapping[str, Any]) -> None:
        for key in self.keys:
            value = str(wanted[key]) if key in wanted else self.own.get(key)
            if value == self.now.get(key):
                continue
            self.now.pop(key, None)
            if value is None:
                self.session.conf.unset(key)
            else:
                self.session.conf.set(key, value)
            self.now[key] = value
