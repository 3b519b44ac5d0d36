"""Ticks with nothing to do: what a scheduler costs that finds no table due, or all due and nothing changed."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import freshlake
from bench.grid import say
from bench.meter import Meter
from freshlake import Freshlake
from freshlake.catalog import Action, Commit, Dependency, NewStreamTable, SourceType, TableName
from freshlake.clock import ManualClock
from freshlake.refresh.commit import frontier

_ROUNDS = 15
_CHAIN = 10


@dataclass(frozen=True)
class Ticked:
    """Milliseconds of one tick, median; processor time beside it, since a tick is all Python."""

    tables: int
    not_due_ms: float
    not_due_cpu_ms: float
    unchanged_ms: float
    unchanged_cpu_ms: float
    jobs: int


def measure(meter: Meter, folder: Path, tables: int) -> Ticked:
    """Chains of ten, each table with a source of its own besides."""
    say(f"ticks over {tables} stream tables")
    clock = ManualClock()
    with freshlake.connect(folder / f"ticks_{tables}", spark=None, clock=clock) as fl:
        _enter(fl, clock, folder / f"sources_{tables}", tables)
        quiet, busy = _Ticks(fl, clock, meter), _Ticks(fl, clock, meter)
        quiet.run(1, expected=0)
        busy.run(301, expected=tables)
        return Ticked(tables, *quiet.medians, *busy.medians, quiet.jobs + busy.jobs)


class _Ticks:
    def __init__(self, fl: Freshlake, clock: ManualClock, meter: Meter) -> None:
        self.fl, self.clock, self.meter = fl, clock, meter
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.jobs = 0

    def run(self, seconds: float, expected: int) -> None:
        for number in range(_ROUNDS + 1):
            self.clock.advance(seconds)
            with self.meter.measured() as cost:
                wall, cpu = time.perf_counter(), time.thread_time()
                tick = self.fl._scheduler.tick()
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
            assert sum(len(unit.tables) for unit in tick.units) == expected
            self.jobs += cost.jobs
            if number:
                self.wall.append(wall * 1000)
                self.cpu.append(cpu * 1000)

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.wall), statistics.median(self.cpu)


def _enter(fl: Freshlake, clock: ManualClock, folder: Path, tables: int) -> None:
    """Straight into the catalog, as loaded tables: loading a thousand would take longer than all else."""
    catalog, engine = fl._engine.catalog, fl._engine
    # a lake without a plain table of its own may have names that only Spark's catalog knows
    fl.sql("CREATE TABLE any_table (id INT) USING delta")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    for number in range(tables):
        path = str(folder / f"s{number}")
        write_deltalake(path, rows)
        edges = [Dependency(path, SourceType.TABLE, f"s{number}", path)]
        with catalog.transaction():
            query = f"SELECT id FROM delta.`{path}`"
            new = NewStreamTable(TableName("default", f"t{number}"), f"t{number}", query, query, schedule="5m")
            table = catalog.insert_stream_table(new)
            if number % _CHAIN:
                upstream = catalog.get(f"t{number - 1}")
                edges.append(Dependency(upstream.source_key, SourceType.STREAM_TABLE, str(upstream.full_name)))
            catalog.replace_dependencies(table.id, edges)
            heads = engine.heads(tuple(edges), {})
            lease = catalog.acquire_lease(table.id, 60)
            refresh = catalog.begin_refresh(lease).refresh_id
            stand = frontier(heads, clock.now(), engine.root_positions(heads))
            done = Commit(refresh, Action.FULL, generation=1, version=1, frontier=stand, data_timestamp=clock.now())
            catalog.commit_refresh(table.id, lease.epoch, done)
            catalog.release_lease(lease)
