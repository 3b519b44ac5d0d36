"""A database of a test, by reference, with what the tests of capture do to it again and again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa

from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.copying import copy_table
from freshlake.sources.postgres.describe import describe, describe_oids
from freshlake.sources.postgres.events import WEIGHT
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import Server as Found
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured, Table, capture_all
from tests.bags import canonical
from tests.integration.postgres_server import Server

_NUMBERS = count(1)

Bag = Counter[Any]


class Database:
    """One database, and the reference that leads to it; connections are kept, since opening one takes its time."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name
        self.reference = ConnectionReference.parse(f"env:{name.upper()}")
        self.application = self.connect()
        self._capture = connect(self.reference)

    def connect(self, **parameters: Any) -> psycopg.Connection[Any]:
        """A connection as an application has it."""
        return psycopg.connect(self.server.url(self.name), autocommit=True, options="-c timezone=UTC", **parameters)

    def run(self, script: str) -> None:
        """Statements of an application, each committed by itself unless it says BEGIN."""
        self.application.execute(script.encode())

    def one(self, query: str) -> Any:
        row = self.application.execute(query.encode()).fetchone()
        return None if row is None else row[0]

    def found(self) -> Found:
        with self.reading() as cursor:
            return look(cursor)

    @contextmanager
    def reading(self, snapshot: str | None = None) -> Iterator[psycopg.Cursor[Any]]:
        """A transaction that sees one moment, as capture opens it."""
        if self._capture.closed:
            self._capture = connect(self.reference)
        with transaction(self._capture, read_only=True, snapshot=snapshot) as cursor:
            yield cursor

    def reopen(self) -> None:
        """New connections, which see new settings of the database."""
        self.close()
        self.application = self.connect()

    def close(self) -> None:
        self.application.close()
        self._capture.close()

    def table(self, name: str) -> Table:
        with self.reading() as cursor:
            return describe(cursor, look(cursor), [name])[name]

    def now(self, table: Table) -> Table | None:
        """The same table as it is now."""
        with self.reading() as cursor:
            return describe_oids(cursor, look(cursor), [table.oid]).get(table.oid)

    def captured(self, name: str, as_text: Iterable[str] = ()) -> Captured:
        return capture_all(self.table(name), as_text)

    def rows(self, table: Captured, snapshot: str | None = None) -> Bag:
        """The contents of a table."""
        with self.reading(snapshot) as cursor:
            return bag(list(copy_table(cursor, table)))


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    """Weighted rows, added up; a row that goes as often as it comes is not there."""
    total: Bag = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            weight = row.pop(WEIGHT)
            total[tuple(canonical(value) for value in row.values())] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


@contextmanager
def new_database(server: Server) -> Iterator[Database]:
    """A database, for as long as its server runs."""
    name = f"fl_test_{os.getpid()}_{next(_NUMBERS)}"
    server.run(f"CREATE DATABASE {name}")
    os.environ[name.upper()] = server.url(name)
    made = Database(server, name)
    try:
        yield made
    finally:
        made.close()
        del os.environ[name.upper()]


_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_OBJECTS = """
SELECT format('DROP EVENT TRIGGER %I', evtname) FROM pg_event_trigger
UNION ALL SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication
UNION ALL SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
UNION ALL SELECT format('ALTER DATABASE %I RESET ALL', current_database())
"""


def clear(database: Database) -> None:
    """Leave a database as it was when it was new; whoever still uses it is thrown out."""
    database.reopen()
    for statement in (_OTHERS, _SLOTS):
        database.run(statement)
    drops = [row[0] for row in database.application.execute(_OBJECTS.encode())]
    database.run("; ".join([*drops, "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO public"]))
