"""Play a history in a lake of its own; after every refresh the stream table is compared with its query."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import freshlake
from freshlake.errors import FreshlakeError
from freshlake.lake import Freshlake
from tests.bags import assert_same_rows, canonical
from tests.property.case import DIFFERENTIAL, Round, Script
from tests.property.second import SecondOracle

SETTINGS = {"differential_max_change_ratio": 0}
"""Tiny tables change by large shares all the time; the ratio would turn AUTO into FULL."""

_EXPECTED = {DIFFERENTIAL: {"DIFFERENTIAL", "NO_DATA"}, "FULL": {"FULL"}, "AUTO": {"DIFFERENTIAL", "FULL", "NO_DATA"}}


@dataclass(frozen=True)
class Failure:
    """`kind` is the same for failures with the same cause, as far as one can tell."""

    query: str
    round: int
    """0 is the creation."""
    kind: str
    message: str

    def __str__(self) -> str:
        when = f"round {self.round}" if self.round else "its creation"
        return f"{self.query} after {when}: {self.kind}\n{self.message}"


@dataclass
class Play:
    """One lake through one history; a query that failed is left alone from then on."""

    script: Script
    folder: Path
    stop_early: bool = True
    verify_each: bool = False
    failures: list[Failure] = field(default_factory=list)
    refreshes: int = 0
    actions: dict[tuple[str, int], Any] = field(default_factory=dict)
    """(query, round) → the result of its refresh."""
    random: bool = False
    """Written by chance: DuckDB is asked too where it can be, and a query that Spark cannot run itself is left out."""
    oracle: Oracle | None = None

    def run(self) -> list[Failure]:
        fl = freshlake.connect(self.folder, settings=SETTINGS)
        try:
            for statement in self.script.setup:
                fl.sql(statement)
            self.oracle = Oracle(fl.spark.newSession(), self.script.queries, self.random)
            self.oracle.load(fl, self.script.tables)
            self._create(fl)
            for number, played in enumerate(self.script.rounds, 1):
                if self._is_over:
                    break
                if played.reconnect:
                    fl.close()
                    fl = freshlake.connect(self.folder, settings=SETTINGS)
                self._play(fl, played, number)
        finally:
            fl.close()
        return self.failures

    def _create(self, fl: Freshlake) -> None:
        assert self.oracle is not None
        for name, text in self.script.queries.items():
            if self._is_over:
                return
            if self.oracle.fails(name):
                continue
            with self._watched(name, 0):
                fl.create_stream_table(name, text, refresh_mode="DIFFERENTIAL", fold_policy="manual")
                self._compare(fl, name)

    def _play(self, fl: Freshlake, played: Round, number: int) -> None:
        assert self.oracle is not None
        for statement in played.changes:
            fl.sql(statement)
        if played.changes:
            self.oracle.load(fl, self.script.tables)
        everything = tuple((name, DIFFERENTIAL, False) for name in self.script.queries)
        for name, mode, fold in played.refreshes or everything:
            if self._is_over:
                return
            if mode is None or name in self._failed or self.oracle.fails(name):
                continue
            with self._watched(name, number):
                result = fl.refresh(name, mode=mode)
                self.refreshes += 1
                self.actions[name, number] = result
                assert str(result.action) in _EXPECTED[mode], (
                    f"{mode} was asked for, {result.action} was done: {result}"
                )
                if fold:
                    fl.fold(name)
                self._compare(fl, name)
                if self.verify_each or number == len(self.script.rounds):
                    verified = fl.verify(name)
                    assert verified.equal, f"verify found {verified}"

    def _compare(self, fl: Freshlake, name: str) -> None:
        """What a reader sees against the user's own text, run by Spark on the tables as they are now."""
        assert self.oracle is not None
        expected, found = self.oracle.query(name), fl.table(name)
        assert _shape(expected) == _shape(found), f"columns differ: {_shape(expected)} and {_shape(found)}"
        rows = _canonical(found.collect())
        try:
            assert_same_rows(rows, self.oracle.rows(name))
        except AssertionError as error:
            raise AssertionError(f"left is the stream table, right the query\n{error}") from None
        if self.random:
            difference = self.oracle.second.difference(name, rows)
            assert difference is None, f"DuckDB has other rows than Spark\n{difference}"

    @property
    def _is_over(self) -> bool:
        return self.stop_early and bool(self.failures)

    @property
    def _failed(self) -> set[str]:
        return {f.query for f in self.failures}

    @contextmanager
    def _watched(self, name: str, number: int) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self.failures.append(Failure(name, number, "difference", str(error)))
        except FreshlakeError as error:
            self.failures.append(Failure(name, number, f"error {error.code}", str(error)))
        except Exception as error:
            self.failures.append(Failure(name, number, f"crash {type(error).__name__}", str(error)[:3000]))


@dataclass
class Oracle:
    """The queries as their users wrote them, over copies of the tables in a session that knows nothing of Freshlake."""

    spark: SparkSession
    queries: Mapping[str, str]
    random: bool = False
    invalid: dict[str, str] = field(default_factory=dict)
    """Queries that Spark itself cannot run, for the data or by a defect of its own, and its error."""
    _frames: dict[str, DataFrame] = field(default_factory=dict)
    _rows: dict[str, list[Row]] = field(default_factory=dict)

    def load(self, fl: Freshlake, tables: Sequence[str]) -> None:
        """The tables as they are now, and the queries over them: each may read those before it."""
        self._frames.clear()
        self._rows.clear()
        for key, value in _PLAIN.items():
            self.spark.conf.set(key, value)
        copies = {}
        for table in tables:
            frame = fl.spark.table(table)
            copies[table] = frame.toArrow()
            self.spark.createDataFrame(copies[table], frame.schema).createOrReplaceTempView(table)
        for name in self.queries:
            with self._noted(name):
                self._frames[name] = self.spark.sql(self.queries[name])
                self._frames[name].createOrReplaceTempView(name)
        if self.random:
            self.second.load(copies)

    @cached_property
    def second(self) -> SecondOracle:
        return SecondOracle(self.queries)

    def fails(self, name: str) -> bool:
        """Whether Spark cannot run it; from the first time on, as what is stored cannot be told right from wrong."""
        if name not in self.invalid:
            with self._noted(name):
                self.rows(name)
        return name in self.invalid

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            if not self.random:
                raise
            self.invalid[name] = str(error)[:300]

    def query(self, name: str) -> DataFrame:
        return self._frames[name]

    def rows(self, name: str) -> list[Row]:
        if name not in self._rows:
            self._rows[name] = _canonical(self.query(name).collect())
        return self._rows[name]


_PLAIN = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
"""Compiling code takes longer than running it over ten rows."""


def _shape(frame: DataFrame) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in frame.schema]


def _canonical(rows: list[Row]) -> list[Row]:
    """Lists come in any order."""
    return [Row(*(sorted(v, key=canonical) if isinstance(v, list) else v for v in row)) for row in rows]


def play(script: Script, folder: Path) -> tuple[Failure | None, float]:
    """The first failure, if any, and the seconds it took."""
    started = time.perf_counter()
    failures = Play(script, folder).run()
    return (failures[0] if failures else None), time.perf_counter() - started
