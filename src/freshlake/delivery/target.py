"""A delivered table in PostgreSQL: its rows and the version that they are move in one transaction.

Law: whoever reads the table sees exactly the rows of one published version, and `freshlake_delivered.positions` says
which. A delivery that is repeated finds its version there, and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from freshlake.delivery.columns import Column, quoted
from freshlake.errors import AlreadyExists, DeliveryConflict, DeliveryUnsupported
from freshlake.sources.postgres.connection import translated
from freshlake.sources.postgres.locking import alone

if TYPE_CHECKING:
    import psycopg

SCHEMA = "freshlake_delivered"
_POSITIONS = f"{SCHEMA}.positions"
_DELTA = 'pg_temp."freshlake_delta"'
_WEIGHT, _ROW = quoted("__fl_weight"), quoted("__fl_row")
_OLDEST = 140_000


@dataclass(frozen=True)
class Place:
    """A version of a stream table; `storage` tells it from another one that had its name before."""

    storage: str
    generation: int
    version: int

    def precedes(self, other: Place) -> bool:
        """Whether the log leads from here to there."""
        return (self.storage, self.generation) == (other.storage, other.generation) and self.version <= other.version


@dataclass(frozen=True)
class Target:
    """A table of a database, by schema and name; statements name everything in full."""

    lake: str
    schema: str
    table: str
    columns: tuple[Column, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    # What is there ---------------------------------------------------------------------------------------------------

    def place(self, cursor: psycopg.Cursor[Any], *, lock: bool = False) -> Place | None:
        """Which version is there; None when nothing was delivered yet. With `lock` others wait until it has moved."""
        if not _exists(cursor, _POSITIONS):
            return None
        query = f"SELECT lake, storage, generation, version FROM {_POSITIONS} WHERE target = %s"
        found = _run(cursor, f"{query} FOR UPDATE" if lock else query, [self.full_name]).fetchone()
        if found is None or not _exists(cursor, self.quoted):
            return None
        if found[0] != self.lake:
            raise AlreadyExists(
                f"table {self.full_name} is delivered by another lake", hint="choose another name for the table"
            )
        return Place(*found[1:])

    def make(self, cursor: psycopg.Cursor[Any], place: Place) -> None:
        """An empty table of ours; raises AlreadyExists for one that is not ours."""
        if cursor.connection.info.server_version < _OLDEST:
            raise DeliveryUnsupported("deliveries need PostgreSQL 14 or newer")
        # what is not there yet may be there twice
        with translated():
            alone(cursor, SCHEMA)
        _run(cursor, f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        _run(
            cursor,
            f"CREATE TABLE IF NOT EXISTS {_POSITIONS} (target text PRIMARY KEY, lake text NOT NULL,"
            " storage text NOT NULL, generation bigint NOT NULL, version bigint NOT NULL,"
            " delivered_at timestamptz NOT NULL)",
        )
        if _exists(cursor, self.quoted):
            raise AlreadyExists(
                f"table {self.full_name} already exists, and is not one that Freshlake made",
                hint="drop it, or choose another name",
            )
        _run(cursor, f"CREATE TABLE {self.quoted} ({', '.join(f'{c.quoted} {c.type}' for c in self.columns)})")
        # rows of a table without key or identity cannot be deleted once somebody publishes all tables
        _run(cursor, f"ALTER TABLE {self.quoted} REPLICA IDENTITY FULL")
        self._index(cursor)
        _run(cursor, f"DELETE FROM {_POSITIONS} WHERE target = %s", [self.full_name])
        values = [self.full_name, self.lake, place.storage, place.generation, place.version]
        _run(cursor, f"INSERT INTO {_POSITIONS} VALUES (%s, %s, %s, %s, %s, now())", values)

    def drop(self, cursor: psycopg.Cursor[Any]) -> None:
        """Remove the table and its position, if it is ours."""
        if self.place(cursor, lock=True) is not None:
            _run(cursor, f"DROP TABLE {self.quoted}")
        if _exists(cursor, _POSITIONS):
            _run(cursor, f"DELETE FROM {_POSITIONS} WHERE target = %s AND lake = %s", [self.full_name, self.lake])

    # Moving ----------------------------------------------------------------------------------------------------------

    def apply(self, cursor: psycopg.Cursor[Any], changes: Iterable[pa.RecordBatch]) -> int:
        """Change the rows by weighted ones; raises DeliveryConflict when a row to be removed is not there."""
        self._alone(cursor)
        columns = [f"{c.quoted} {c.type}" for c in self.columns]
        _run(
            cursor,
            f"CREATE TEMPORARY TABLE freshlake_delta ({', '.join(columns)}, {_WEIGHT} bigint,"
            f" {_ROW} bigint GENERATED ALWAYS AS IDENTITY) ON COMMIT DROP",
        )
        names = [*(c.quoted for c in self.columns), _WEIGHT]
        rows = _copied(cursor, _DELTA, names, changes)
        _run(cursor, f"ANALYZE {_DELTA}")
        self._remove(cursor)
        added = ", ".join(f"d.{c.quoted}" for c in self.columns)
        _run(
            cursor,
            f"INSERT INTO {self.quoted} ({', '.join(c.quoted for c in self.columns)})"
            f" SELECT {added} FROM {_DELTA} d, generate_series(1, d.{_WEIGHT}) WHERE d.{_WEIGHT} > 0",
        )
        _run(cursor, f"DROP TABLE {_DELTA}")
        return rows

    def _remove(self, cursor: psycopg.Cursor[Any]) -> None:
        same = " AND ".join(c.same("t", "d") for c in self.columns)
        found = (
            f"SELECT t.ctid AS place, d.{_WEIGHT} AS weight, row_number() OVER (PARTITION BY d.{_ROW}) AS number"
            f" FROM {_DELTA} d JOIN {self.quoted} t ON {self._hash('t')} = {self._hash('d')} AND {same}"
            f" WHERE d.{_WEIGHT} < 0"
        )
        wanted = _one(cursor, f"SELECT coalesce(-sum({_WEIGHT}), 0) FROM {_DELTA} WHERE {_WEIGHT} < 0")
        _run(
            cursor,
            f"DELETE FROM {self.quoted} WHERE ctid = ANY"
            f" (ARRAY(SELECT f.place FROM ({found}) f WHERE f.number <= -f.weight))",
        )
        if cursor.rowcount != wanted:
            raise DeliveryConflict(
                f"table {self.full_name} does not hold the rows that were delivered",
                detail=f"{cursor.rowcount} of {wanted} rows to be removed are there",
            )

    def replace(self, cursor: psycopg.Cursor[Any], rows: Iterable[pa.RecordBatch]) -> int:
        """Put these rows in the place of all others; readers see the old ones until the transaction ends."""
        self._alone(cursor)
        _run(cursor, f"DELETE FROM {self.quoted}")
        self._fit(cursor)
        return _copied(cursor, self.quoted, [c.quoted for c in self.columns], rows)

    def moved(self, cursor: psycopg.Cursor[Any], place: Place) -> None:
        """Say which version the rows are now."""
        values = [place.storage, place.generation, place.version, self.full_name]
        _run(
            cursor,
            f"UPDATE {_POSITIONS} SET storage = %s, generation = %s, version = %s, delivered_at = now()"
            " WHERE target = %s",
            values,
        )

    def _alone(self, cursor: psycopg.Cursor[Any]) -> None:
        """Nobody else writes to the table until the transaction ends; readers go on."""
        _run(cursor, f"LOCK TABLE {self.quoted} IN SHARE ROW EXCLUSIVE MODE")

    def _fit(self, cursor: psycopg.Cursor[Any]) -> None:
        """Give an empty table the columns of now; those that stay keep what users made for them."""
        there = dict(
            _run(
                cursor,
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
                [self.quoted],
            ).fetchall()
        )
        wanted = {c.name: c.type for c in self.columns}
        if there == wanted:
            return
        _run(cursor, f"DROP INDEX IF EXISTS {self._index_name}")
        changed = [f"DROP COLUMN {quoted(name)}" for name, kind in there.items() if wanted.get(name) != kind]
        changed += [f"ADD COLUMN {c.quoted} {c.type}" for c in self.columns if there.get(c.name) != c.type]
        _run(cursor, f"ALTER TABLE {self.quoted} {', '.join(changed)}")
        self._index(cursor)

    # Rows are found by a hash of all columns ------------------------------------------------------------------------

    def _index(self, cursor: psycopg.Cursor[Any]) -> None:
        name = self._index_name.rsplit(".", 1)[1]
        _run(cursor, f"CREATE INDEX {name} ON {self.quoted} ({self._hash()})")

    @property
    def _index_name(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table[:50] + '_fl_rows')}"

    def _hash(self, of: str | None = None) -> str:
        values = ", ".join(f"{of}.{c.quoted}" if of else c.quoted for c in self.columns)
        return f"hash_record_extended(ROW({values}), 0)"


def _copied(cursor: psycopg.Cursor[Any], table: str, columns: list[str], batches: Iterable[pa.RecordBatch]) -> int:
    """Copy rows whose columns are these, by position; returns how many."""
    rows = 0
    with translated(), cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy:
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                copy.write_row(row)
            rows += batch.num_rows
    return rows


def _run(cursor: psycopg.Cursor[Any], statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
    """Run a statement; without values a percent sign in a name is just that."""
    return cursor.execute(statement.encode(), list(values) or None)


def _exists(cursor: psycopg.Cursor[Any], name: str) -> bool:
    return _one(cursor, "SELECT to_regclass(%s) IS NOT NULL", name) is True


def _one(cursor: psycopg.Cursor[Any], query: str, *values: Any) -> Any:
    row = _run(cursor, query, list(values)).fetchone()
    assert row is not None
    return row[0]
