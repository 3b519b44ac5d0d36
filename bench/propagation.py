"""Propagation: how long a change takes through a graph of stream tables, against recomputing all of them."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.grid import say
from bench.meter import Meter
from bench.shapes import Shape
from bench.shop import Shop
from bench.ways import checksum
from freshlake import Freshlake
from freshlake.clock import ManualClock

WORKERS = 4
_SERIAL, _PARALLEL, _RECOMPUTE = "serial", "parallel", "recompute"


@dataclass
class Propagated:
    """One shape: seconds per round of each way, and Spark jobs of a serial propagation."""

    shape: str
    tables: int
    seconds: dict[str, list[float]] = field(default_factory=lambda: {_SERIAL: [], _PARALLEL: [], _RECOMPUTE: []})
    jobs: list[int] = field(default_factory=list)
    same: bool = True

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])

    def times_faster(self, way: str) -> float:
        return self.median(_RECOMPUTE) / self.median(way)


@dataclass
class Propagation:
    """A scheduler that ticks when it is told to, by a clock that moves when it is told to."""

    fl: Freshlake
    clock: ManualClock
    meter: Meter
    shop: Shop
    folder: Path

    def measure(self, shape: Shape, rows: int, rounds: int) -> Propagated:
        """Every round has two changes: one goes through serially, one in parallel; then everything is recomputed."""
        found = Propagated(shape.name, len(shape.queries))
        for name in shape.queries:
            say(f"{shape.name}: loading {name}")
            query = shape.sql(name, self.shop.orders, self._stream)
            self.fl.create_stream_table(self._stream(name), query, schedule="1m", refresh_mode="DIFFERENTIAL")
        self._recompute(shape)
        for number in range(-2, rounds):
            say(f"{shape.name}: round {number + 1} of {rounds}, 0 and before are not counted")
            way_and_seconds = [(way, self._through(way, rows, found, number)) for way in (_SERIAL, _PARALLEL)]
            way_and_seconds.append((_RECOMPUTE, self._recompute(shape)))
            for way, seconds in way_and_seconds if number >= 0 else ():
                found.seconds[way].append(seconds)
        found.same = all(self._is_same(name) for name in shape.queries)
        for name in reversed(shape.queries):
            self.fl.drop_stream_table(self._stream(name))
        return found

    def _stream(self, name: str) -> str:
        return f"{self.shop.name}.{name}"

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _through(self, way: str, rows: int, found: Propagated, number: int) -> float:
        """From the tick after a change until all tables are published."""
        self.shop.change(rows)
        self.clock.advance(61)
        scheduler, engine = self.fl._scheduler, self.fl._engine
        mode = {"parallel_refresh_mode": "on" if way == _PARALLEL else "off"}
        engine.settings = engine.settings.model_copy(update=mode)
        # a table goes to the thread that had it last, so both ways find it compiled
        if not scheduler._workers.has_threads:
            scheduler._workers.start()
        with self.meter.measured() as cost:
            tick = scheduler.tick()
            scheduler._workers.drain()
        if way == _SERIAL and number >= 0:
            found.jobs.append(cost.jobs)
        assert sum(len(unit.tables) for unit in tick.units) == found.tables, tick
        return cost.seconds

    def _recompute(self, shape: Shape) -> float:
        """The sum over all tables of running the query over the tables below and writing the result."""
        total = 0.0
        for name in shape.queries:
            query = shape.sql(name, self.shop.orders, lambda other: f"delta.`{self._path(other)}`")
            started = time.perf_counter()
            self.fl.spark.sql(query).write.format("delta").mode("overwrite").save(self._path(name))
            total += time.perf_counter() - started
        return total

    def _is_same(self, name: str) -> bool:
        recomputed = self.fl.spark.read.format("delta").load(self._path(name))
        same = checksum(self.fl.table(self._stream(name))) == checksum(recomputed)
        if not same:
            say(f"{name}: the stream table has other rows than the recompute")
        shutil.rmtree(self._path(name), ignore_errors=True)
        return same
