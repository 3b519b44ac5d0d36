"""A model of what lands in the lake: tables as bags that follow a capture's events, and a load that changes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Any

import psycopg

from freshlake.sources.postgres.capture import Capture, CopyPoint
from freshlake.sources.postgres.connection import connect
from freshlake.sources.postgres.events import Event, Resync, Rows, Truncated
from freshlake.sources.postgres.position import Position
from freshlake.sources.postgres.tables import Captured
from tests.integration.capture_database import Bag, Database, bag


class Mirror:
    """The captured tables as far as their changes were landed."""

    def __init__(self, database: Database, tables: Sequence[Captured], at: CopyPoint) -> None:
        self.database, self.tables, self.position = database, list(tables), at.position
        self.contents = self.copied(at.snapshot)
        self.changes = 0

    @classmethod
    def begin(cls, database: Database, capture: Capture, tables: Sequence[Captured]) -> Mirror:
        with capture.copy_point(tables) as at:
            return cls(database, tables, at)

    def copied(self, snapshot: str) -> dict[int, Bag]:
        return {table.oid: self.database.rows(table, snapshot) for table in self.tables}

    def follow(self, capture: Capture, end: Position | None = None) -> None:
        """One batch, confirmed when it is landed."""
        upto = end or capture.head()
        self.land(capture.read(self.position, upto, self.tables), upto)
        capture.confirm(upto)

    def land(self, events: Iterable[Event], upto: Position) -> None:
        for oid, (emptied, change) in summed(events).items():
            before = Counter() if emptied else self.contents[oid]
            self.contents[oid] = added(before, change)
            self.changes += change.total()
        self.position = upto

    def check(self, capture: Capture, snapshot_of: Capture | None = None) -> None:
        """Follow to a point where the tables can be looked at, and compare."""
        with (snapshot_of or capture).copy_point(self.tables) as at:
            self.follow(capture, at.position)
            assert self.contents == self.copied(at.snapshot)

    def count(self, table: Captured) -> int:
        return self.contents[table.oid].total()


def summed(events: Iterable[Event]) -> dict[int, tuple[bool, Bag]]:
    """What each table's events add up to: whether it was emptied, and then what was added."""
    found: dict[int, tuple[bool, Bag]] = {}
    for event in events:
        oid = event.table.oid
        match event:
            case Rows(_, rows):
                emptied, change = found.get(oid, (False, Counter()))
                found[oid] = emptied, plus(change, bag([rows]))
            case Truncated():
                found[oid] = True, Counter()
            case Resync(table, reason, detail):
                raise AssertionError(f"{table.table.full_name}: {reason}: {detail}")
    return found


def plus(left: Bag, right: Bag) -> Bag:
    total: Bag = Counter(left)
    total.update(right)
    return Counter({row: weight for row, weight in total.items() if weight})


def added(before: Bag, change: Bag) -> Bag:
    after = plus(before, change)
    negative = {row: weight for row, weight in after.items() if weight < 0}
    assert not negative, f"rows removed that were not there: {negative}"
    return after


def reasons(events: Iterable[Event]) -> dict[int, str]:
    return {event.table.oid: str(event.reason) for event in events if isinstance(event, Resync)}


def at_the_same_time(database: Database, *calls: Callable[[psycopg.Connection[Any]], Any]) -> None:
    """Call all while none can commit: each waits at its end, or for another one."""
    database.run("""
        CREATE FUNCTION at_the_end() RETURNS event_trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(7); END';
        CREATE EVENT TRIGGER at_the_end ON ddl_command_end EXECUTE FUNCTION at_the_end()
    """)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with ThreadPoolExecutor(len(calls)) as pool, ExitStack() as opened:
        connections = [opened.enter_context(connect(database.reference)) for _ in calls]
        database.run("SELECT pg_advisory_lock(7)")
        done = [pool.submit(call, connection) for call, connection in zip(calls, connections, strict=True)]
        while database.one(waiting) < len(calls):
            assert not any(future.done() for future in done), [future.exception() for future in done if future.done()]
        database.run("SELECT pg_advisory_unlock(7)")
        for future in done:
            future.result()
    database.run("DROP EVENT TRIGGER at_the_end; DROP FUNCTION at_the_end")


TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance numeric(12,2) NOT NULL, note text);
CREATE TABLE events (account int, kind text, amount int);
CREATE TABLE archive (id int, amount int);
INSERT INTO accounts SELECT i, 'owner ' || i % 7, 100, repeat(md5(i::text), i % 5 * 60) FROM generate_series(1, 40) i;
INSERT INTO events SELECT i % 10, 'begin', 1 FROM generate_series(1, 30) i;
"""
NAMES = ("public.accounts", "public.events", "public.archive")


# Each line is a step of a transaction; a transaction is a few of them in any order.
STEPS = (
    *3
    * (
        (
            "UPDATE accounts SET balance = balance - {amount} WHERE id = {some}",
            "UPDATE accounts SET balance = balance + {amount} WHERE id = {other}",
            "INSERT INTO events VALUES ({some}, 'out', -{amount}), ({other}, 'in', {amount})",
        ),
    ),
    ("INSERT INTO accounts VALUES ({new}, NULL, 0, 'new') ON CONFLICT (id) DO UPDATE SET note = 'again'",),
    ("DELETE FROM accounts WHERE id > 40 AND id % 10 = {amount}",),
    ("UPDATE accounts SET id = id + 1000 WHERE id BETWEEN 41 AND 1000 AND id % 7 = {amount}",),
    (
        "SAVEPOINT s",
        "UPDATE accounts SET balance = 0, note = 'lost' WHERE id < {some}",
        "INSERT INTO events SELECT id, 'lost', 1 FROM accounts",
        "ROLLBACK TO s",
    ),
    ("SAVEPOINT s", "INSERT INTO archive SELECT i, {amount} FROM generate_series(1, {some}) i", "RELEASE s"),
    (
        "UPDATE events SET kind = kind WHERE account = {some}",
        "UPDATE accounts SET owner = 'owner {amount}' WHERE id % 9 = {amount}",
    ),
    ("UPDATE accounts SET note = left(note, 200) || repeat('{amount}', {some} * 80) WHERE id = {some}",),
    ("SELECT pg_sleep({pause})",),
)
TRUNCATION = ("SET LOCAL lock_timeout = '2s'", "TRUNCATE archive", "INSERT INTO archive VALUES ({some}, 0)")
_IN_THE_WAY = (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation)


class Load:
    """Writers that move balances, log it, undo parts of it, and sometimes take their time or throw everything away."""

    def __init__(self, database: Database, *, writers: int, transactions: int, seed: int) -> None:
        self._database, self._transactions = database, transactions
        self._pool = ThreadPoolExecutor(writers)
        self._running: list[Future[None]] = [self._pool.submit(self._write, seed * 1000 + n) for n in range(writers)]

    @property
    def is_over(self) -> bool:
        return all(future.done() for future in self._running)

    def wait(self) -> None:
        """Until the last writer is done; what went wrong in one is raised here."""
        self._pool.shutdown()
        for future in self._running:
            future.result()

    def _write(self, seed: int) -> None:
        random = Random(seed)
        with self._database.connect() as connection:
            connection.execute(f"SET synchronous_commit = {random.choice(['on', 'off'])}".encode())
            for _ in range(self._transactions):
                _transaction(connection, random)


def _transaction(connection: psycopg.Connection[Any], random: Random) -> None:
    try:
        connection.execute("BEGIN")
        for _ in range(random.randint(1, 5)):
            values = _values(random)
            for statement in TRUNCATION if random.random() < 0.02 else random.choice(STEPS):
                connection.execute(statement.format(**values).encode())
        connection.execute("ROLLBACK" if random.random() < 0.15 else "COMMIT")
    except _IN_THE_WAY:
        connection.execute("ROLLBACK")


def _values(random: Random) -> dict[str, float]:
    low = {"some": random.randint(1, 40), "other": random.randint(1, 40), "amount": random.randint(1, 6)}
    return {**low, "new": random.randint(41, 400), "pause": random.random() / 20}
