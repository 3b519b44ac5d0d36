"""A worker: its own Spark sessions, apart from the user's, and the count of what they did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from freshlake.compiler.bridge import Bridge
from freshlake.compiler.refusals import VIEW_DEPTH
from freshlake.refresh.session_names import SessionNames
from freshlake.session import own_catalog

PINNED_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.session.collation.enabled",
)
"""Settings that change what a query means: kept with the stream table as they were when it was created."""

_EVALUATED = (
    "spark.sql.session.timeZone",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
)
"""Those that expressions look up when they run; the others have had their effect once a query is analyzed."""

SCHEMA = "freshlake.schema"
"""The schema in which a definition's unqualified names are looked up."""

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
    _evaluated: Mapping[str, Any] | None = None

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
        _set(self.binding, PINNED_SETTINGS, settings)
        self.binding.catalog.setCurrentDatabase(str(settings.get(SCHEMA, "default")))

    def forget_names(self) -> None:
        """Only names of the catalog count, as they are now."""
        self.names.forget()

    def run_under(self, settings: Mapping[str, Any]) -> None:
        """Run what comes next under these settings."""
        wanted = {key: settings[key] for key in _EVALUATED if key in settings}
        if wanted != self._evaluated:
            self._evaluated = None
            _set(self.running, _EVALUATED, wanted)
            self._evaluated = wanted

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


def pinned_settings(spark: SparkSession) -> dict[str, str]:
    found = ((key, spark.conf.get(key, None)) for key in PINNED_SETTINGS)
    return {key: value for key, value in found if value is not None} | {SCHEMA: spark.catalog.currentDatabase()}


def _set(session: SparkSession, keys: Iterable[str], values: Mapping[str, Any]) -> None:
    for key in keys:
        if key in values:
            session.conf.set(key, str(values[key]))
        else:
            session.conf.unset(key)
