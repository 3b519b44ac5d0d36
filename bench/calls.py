"""Round trips to the JVM, by the function of Freshlake that makes them, and Spark's own phases of each query."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, cast

from py4j.java_gateway import GatewayClient
from pyspark.sql.classic.dataframe import DataFrame

import freshlake

_PACKAGE = str(Path(freshlake.__file__).parent)


@dataclass(frozen=True)
class Query:
    """One query that was collected to the driver, and the milliseconds Spark says its phases took."""

    caller: str
    seconds: float
    phases: dict[str, int]


@dataclass
class Calls:
    count: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    queries: list[Query] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.count.values())

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count while the block runs."""
        client, frames = cast(Any, GatewayClient), cast(Any, DataFrame)
        send, collect = client.send_command, frames.toArrow
        client.send_command, frames.toArrow = self._counting(send), self._observing(collect)
        try:
            yield
        finally:
            client.send_command, frames.toArrow = send, collect

    def _counting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def counting(client: Any, command: str, *arguments: Any, **options: Any) -> Any:
            caller, started = _caller(sys._getframe(1)), time.perf_counter()
            try:
                return send(client, command, *arguments, **options)
            finally:
                self.count[caller] += 1
                self.seconds[caller] += time.perf_counter() - started

        return counting

    def _observing(self, collect: Callable[[DataFrame], Any]) -> Callable[[DataFrame], Any]:
        def observing(frame: DataFrame) -> Any:
            started = time.perf_counter()
            rows = collect(frame)
            took = time.perf_counter() - started
            self.queries.append(Query(_caller(sys._getframe(1)), took, _phases(frame)))
            return rows

        return observing


def _caller(frame: FrameType | None) -> str:
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            return f"{file[len(_PACKAGE) + 1 : -3]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "outside"


def _phases(frame: DataFrame) -> dict[str, int]:
    tracked = frame._jdf.queryExecution().tracker().phases()
    found = {}
    for name in ("parsing", "analysis", "optimization", "planning"):
        phase = tracked.get(name)
        if phase.isDefined():
            found[name] = int(phase.get().durationMs())
    return found
