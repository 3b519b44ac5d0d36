"""Processes that are killed or stopped in the middle of their work, and what a lake must look like afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.catalog.records import StreamTable
from freshlake.clock import Clock, ManualClock
from freshlake.lake import Freshlake
from freshlake.storage.log import Log
from tests.faults.victim import DIED
from tests.integration.lakes import ANY_SHARE

ROOT = Path(__file__).parents[2]
MOST_POINTS = 100


@dataclass(frozen=True)
class Order:
    """What a victim is to do, and when it ends: after the n-th effect, or after the first one of a name.

    Without `steps` only lasting effects count. With `stops` it is stopped there instead, and goes on when it is woken.
    `elsewhere` makes it one of another machine, whose death nobody here can see; `daemon` registers it. With `now` its
    clock stands still at that moment. `fails` is the code of the error that the call ends with if it is left alone,
    `may_fail` one that it ends with perhaps.
    """

    call: str
    args: tuple[str, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    at: int | str | float = 0
    steps: bool = True
    stops: bool = False
    elsewhere: bool = False
    daemon: bool = False
    now: str | None = None
    fails: str | None = None
    may_fail: str | None = None
    settings: dict[str, Any] = field(default_factory=lambda: dict(ANY_SHARE))


def _command(lake: Path, order: Order) -> list[str]:
    return [sys.executable, "-m", "tests.faults.victim", str(lake), json.dumps(asdict(order))]


def _environment(fl: Freshlake | None) -> dict[str, str]:
    """With a lake, the victim uses its Spark."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")}
    if fl is None:
        return clean
    gateway: Any = fl.spark.sparkContext._gateway
    known = gateway.gateway_parameters
    return {**clean, "PYSPARK_GATEWAY_PORT": str(known.port), "PYSPARK_GATEWAY_SECRET": known.auth_token}


def lake_for_victims(
    spark: SparkSession, folder: Path, settings: dict[str, Any] | None = None, clock: Clock | None = None
) -> Iterator[Freshlake]:
    """A lake whose Spark its victims use, too."""
    with freshlake.connect(folder, settings=settings or ANY_SHARE, clock=clock) as lake:
        yield lake
    # a victim's session became the JVM's default one
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(spark._jsparkSession)


def plain_tables(lake: Freshlake, *names: str) -> None:
    """Plain tables with the same few rows each: NULL as a key, and a row that is there twice."""
    for name in names:
        lake.sql(f"CREATE TABLE {name} (id BIGINT, region STRING, amount INT) USING delta")
        lake.sql(f"INSERT INTO {name} VALUES (1, 'north', 10), (2, 'south', 5), (3, NULL, 7), (3, NULL, 7)")


# Killing --------------------------------------------------------------------------------------------------------------


def explode(lake: Path, seconds: float, call: str, *args: str) -> None:
    """Run a call with a Spark of its own; all of it dies so long after the first long write began."""
    order = Order(call, args, at=seconds)
    subprocess.run(_command(lake, order), cwd=ROOT, env=_environment(None), capture_output=True, timeout=300)


def kill(fl: Freshlake, order: Order) -> str | None:
    """Run a call in another process that dies; its last effect, or None if it survived."""
    done = subprocess.run(
        _command(fl.path, order), cwd=ROOT, env=_environment(fl), capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, DIED), f"{order} failed by itself:\n{done.stderr[-3000:]}"
    return done.stdout.splitlines()[-1] if done.returncode else None


def points(fl: Freshlake, prepare: Callable[[int], None], order: Callable[[int], Order]) -> Iterator[list[str]]:
    """One dead process per point; all effects that the newest of them had, in order."""
    seen: list[str] = []
    for at in range(MOST_POINTS):
        prepare(at)
        effect = kill(fl, order(at))
        if effect is None:
            assert len(seen) > 3, seen
            return
        seen.append(effect)
        yield seen
    raise AssertionError(f"still dying after {MOST_POINTS} points: {seen}")


# Stopping -------------------------------------------------------------------------------------------------------------


class Stopped:
    """A process that stands still until it is woken."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wake(self) -> dict[str, Any]:
        """Let it go on to its end; what became of its call: empty if it succeeded, else the code of its error."""
        os.kill(self._process.pid, signal.SIGCONT)
        said, complaint = self._process.communicate(timeout=300)
        assert self._process.returncode == 0, complaint[-3000:]
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer


@contextmanager
def stopped(fl: Freshlake, order: Order) -> Iterator[Stopped]:
    """Another process, stopped by the operating system in the middle of a call."""
    process = subprocess.Popen(
        _command(fl.path, order),
        cwd=ROOT,
        env=_environment(fl),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, state = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(state):
            process.returncode = os.waitstatus_to_exitcode(state)
            complaint = process.stderr.read()[-3000:] if process.stderr else ""
            pytest.fail(f"{order} ended before it could be stopped: {complaint}")
        yield Stopped(process)
    finally:
        if process.returncode is None:
            process.kill()
            process.communicate()


# Looking --------------------------------------------------------------------------------------------------------------


def nodes(fl: Freshlake, table: StreamTable) -> dict[str, str]:
    """Where the stream table and its internal nodes are stored."""
    layout = fl._engine.layout
    return {n: layout.node(table.storage_id, table.generation, n).path for n in ("", *table.nodes)}


def consistent(fl: Freshlake, name: str) -> None:
    """Catalog, logs, leases and history tell one story."""
    catalog = fl._engine.catalog
    table = catalog.get(name)
    versions = {"": table.version} | {n: state.version for n, state in table.nodes.items()}
    assert {n: Log(path).head for n, path in nodes(fl, table).items()} == versions
    assert (table.generation, table.version) == (table.published_generation, table.published_version)
    assert catalog.lease(table.id) is None
    runs = catalog.history(table.id, None)
    assert {str(r.status) for r in runs} <= {"COMPLETED", "FAILED", "SKIPPED"}
    made = Counter((r.generation, r.version) for r in runs if r.rows_inserted or r.rows_deleted)
    assert not made or max(made.values()) == 1, "one version, one refresh"
    folders = fl._engine.layout.generations(table.storage_id)
    assert table.generation == max(folders)


def moment(clock: ManualClock) -> str:
    return clock.now().isoformat()
