"""`python -m bench.capture`: what capture of PostgreSQL costs writers, how fast it is, and how late a stream table is.

Three tables with the same rows are written in turn, round by round: one that is not captured, one captured by
triggers, one from the log. Each is in a database of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

import freshlake
from bench.grid import say
from bench.options import count
from freshlake import Freshlake
from tests.integration.postgres_server import LOGICAL, Server, server

WAYS = ("none", "trigger", "wal")
_CAPTURED = WAYS[1:]
_QUERY = "SELECT region, count(*) AS orders, sum(amount) AS amount FROM {source}.public.orders GROUP BY region"

Write = Callable[[psycopg.Connection[Any], int], None]


def _single(connection: psycopg.Connection[Any], first: int) -> None:
    """Small transactions, as an application writes: insert, update, delete by key."""
    for n in range(first, first + 100):
        connection.execute("INSERT INTO orders VALUES (%s, %s, %s)", (n, f"r{n % 20}", n % 1000))
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (n - 50,))
        connection.execute("DELETE FROM orders WHERE id = %s", (n - 100,))


def _bulk(connection: psycopg.Connection[Any], first: int) -> None:
    """One statement over many rows."""
    rows = f"SELECT n, 'r' || n % 20, n % 1000 FROM generate_series({first}, {first + 20_000 - 1}) n"
    connection.execute(f"INSERT INTO orders {rows}".encode())
    connection.execute(f"UPDATE orders SET amount = amount + 1 WHERE id >= {first}".encode())
    connection.execute(f"DELETE FROM orders WHERE id >= {first}".encode())


WRITES: dict[str, Write] = {"small transactions": _single, "20,000 rows a statement": _bulk}


@dataclass
class Found:
    writers: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Seconds per round, by kind of write and by way."""
    rows_per_second: dict[str, list[float]] = field(default_factory=dict)
    delay_ms: dict[str, list[float]] = field(default_factory=dict)
    """From the commit of one row until a stream table that sums up its table shows it, by a refresh at once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fails if a stream table ends with other rows than the database."""
    parser = argparse.ArgumentParser(prog="python -m bench.capture", description=__doc__)
    parser.add_argument("--rows", type=count, default=100_000, help="rows of each table at the beginning")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    options = parser.parse_args(arguments)
    found = Found()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="freshlake-capture-")))
        running = stack.enter_context(server(settings=LOGICAL))
        fl = stack.enter_context(freshlake.connect(folder / "lake", settings={"differential_max_change_ratio": 0}))
        connections = {way: stack.enter_context(_database(running, way, options.rows)) for way in WAYS}
        for way in _CAPTURED:
            say(f"{way}: copying {options.rows:,} rows")
            fl.add_postgres(way, f"env:BENCH_{way.upper()}", cdc_mode=way)
            fl.create_stream_table(f"of_{way}", _QUERY.format(source=way))
        for number in range(-1, options.rounds):
            say(f"round {number + 1} of {options.rounds}, 0 is not counted")
            _round(fl, connections, number, found)
        same = all(_is_same(fl, connections[way], way) for way in _CAPTURED)
    _show(found, same)
    if options.json:
        options.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return 0 if same else 1


@contextmanager
def _database(running: Server, way: str, rows: int) -> Iterator[psycopg.Connection[Any]]:
    running.run(f"CREATE DATABASE bench_{way}")
    os.environ[f"BENCH_{way.upper()}"] = running.url(f"bench_{way}")
    with psycopg.connect(running.url(f"bench_{way}"), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount bigint)")
        filled = f"SELECT -n, 'r' || n % 20, n % 1000 FROM generate_series(1, {rows}) n"
        connection.execute(f"INSERT INTO orders {filled}".encode())
        yield connection


def _round(fl: Freshlake, connections: dict[str, psycopg.Connection[Any]], number: int, found: Found) -> None:
    """All ways write the same, the order turning from round to round; then what was captured is read."""
    order = WAYS[number % 3 :] + WAYS[: number % 3]
    for kind, write in WRITES.items():
        for way in order:
            took = _seconds(lambda way=way, write=write: write(connections[way], 1_000_000 * (number + 2)))  # type: ignore[misc]
            _keep(found.writers.setdefault(kind, {}), way, took, number)
    for way in order:
        if way == "none":
            continue
        # three statements of 20,000 rows, where an update is two, and three hundred single rows
        _keep(found.rows_per_second, way, 80_400 / _seconds(lambda way=way: fl.refresh(f"of_{way}")), number)  # type: ignore[misc]
        connections[way].execute("INSERT INTO orders VALUES (%s, 'r1', 1)", (10_000_000 + number,))
        _keep(found.delay_ms, way, 1000 * _seconds(lambda way=way: fl.refresh(f"of_{way}")), number)  # type: ignore[misc]


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _keep(where: dict[str, list[float]], way: str, value: float, number: int) -> None:
    if number >= 0:
        where.setdefault(way, []).append(value)


def _is_same(fl: Freshlake, connection: psycopg.Connection[Any], way: str) -> bool:
    query = "SELECT region, count(*), sum(amount) FROM orders GROUP BY region"
    theirs = sorted((region, orders, int(amount)) for region, orders, amount in connection.execute(query).fetchall())
    return theirs == sorted(tuple(row) for row in fl.table(f"of_{way}").collect())


def _show(found: Found, same: bool) -> None:
    console = Console()
    writers = Table(title="What writers pay (time of the captured table ÷ time of one that is not)")
    for name in ("writes", *_CAPTURED):
        writers.add_column(name, justify="left" if name == "writes" else "right")
    for kind, taken in found.writers.items():
        ratios = (_ratio(taken[way], taken["none"]) for way in _CAPTURED)
        writers.add_row(kind, *(f"{ratio:.2f}" for ratio in ratios))
    console.print(writers)
    speed = Table(title="What a refresh of mirror and stream table does")
    for name in ("capture", "changed rows / s", "delay of one row, ms"):
        speed.add_column(name, justify="right")
    for way in _CAPTURED:
        figures = (statistics.median(found.rows_per_second[way]), statistics.median(found.delay_ms[way]))
        speed.add_row(way, *(f"{figure:,.0f}" for figure in figures))
    console.print(speed)
    console.print("rows as in the database" if same else "[red]rows differ from the database")


def _ratio(own: Sequence[float], plain: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(own, plain, strict=True))


if __name__ == "__main__":
    sys.exit(main())
