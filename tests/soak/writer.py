"""Changes the four sources at random: past Freshlake by delta-rs, and some through it."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import freshlake
from freshlake.errors import CommittedButNotMaintained, RefreshInProgress, WriteUndone
from tests.soak.dag import REGIONS

SCHEMAS = {
    "orders": pa.schema(
        [
            ("id", pa.int64()),
            ("customer", pa.int64()),
            ("product", pa.int64()),
            ("region", pa.string()),
            ("amount", pa.int64()),
        ]
    ),
    "customers": pa.schema([("id", pa.int64()), ("name", pa.string())]),
    "products": pa.schema([("id", pa.int64()), ("label", pa.string())]),
    "returns": pa.schema([("order_id", pa.int64()), ("reason", pa.string())]),
}
_REASONS = ("broken", "late", None)
_DELETED = {"orders": 397, "customers": 7, "products": 7, "returns": 97}
"""One row of so many goes with a delete: in the long run as many as inserts bring, so that the load stays the same."""
_UPDATED = {"orders": 211, "customers": 53, "products": 53, "returns": 53}
"""One row of so many is changed by an update."""


class Writer(threading.Thread):
    """A foreign application: inserts, updates and deletes by delta-rs, without Spark."""

    def __init__(self, paths: dict[str, Path], seed: int, pause: float) -> None:
        super().__init__(daemon=True, name="soak-writer")
        self.paths, self.chance, self.pause = paths, random.Random(seed), pause
        self.stop, self.written, self.next_id = threading.Event(), 0, 4_000
        self.conflicts = 0

    def run(self) -> None:
        while not self.stop.wait(self.pause * self.chance.uniform(0.5, 1.5)):
            try:
                self.change()
                self.written += 1
            except DeltaError:
                self.conflicts += 1  # products are written through Freshlake too

    def change(self) -> None:
        source = self.chance.choices(tuple(SCHEMAS), (6, 1, 1, 2))[0]
        kind = self.chance.choices(("insert", "update", "delete"), (5, 2, 2))[0]
        table = str(self.paths[source])
        if kind == "insert":
            write_deltalake(table, rows(source, self._ids(self.chance.randint(1, 20)), self.chance), mode="append")
        elif kind == "update":
            self._update(source, table)
        else:
            share = _DELETED[source]
            DeltaTable(table).delete(f"{_key(source)} % {share} = {self.chance.randrange(share)}")

    def _update(self, source: str, table: str) -> None:
        share, key = _UPDATED[source], _key(source)
        which = self.chance.randrange(share)
        changes = {
            "orders": {"amount": "amount + 7", "region": f"'{self.chance.choice(REGIONS)}'"},
            "customers": {"name": f"'n{which}'"},
            "products": {"label": f"'l{which}'"},
            "returns": {"reason": "NULL"},
        }
        DeltaTable(table).update(updates=changes[source], predicate=f"{key} % {share} = {which}")

    def _ids(self, count: int) -> range:
        self.next_id += count
        return range(self.next_id - count, self.next_id)


class Customer:
    """Uses Freshlake itself: writes that stream tables follow at once, and refreshes by hand."""

    def __init__(self, fl: freshlake.Freshlake, seed: int) -> None:
        self.fl, self.chance = fl, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def work(self) -> None:
        """One of both; that others work on the same tables may refuse it, and nothing else may."""
        write = self.chance.random() < 0.7
        try:
            if write:
                self._write()
            else:
                self.fl.refresh("reason_names")
        except (WriteUndone, CommittedButNotMaintained, RefreshInProgress) as error:
            self.done[f"refused: {error.code}"] += 1
        else:
            self.done["written through Freshlake" if write else "refreshed by hand"] += 1

    def _write(self) -> None:
        """Whoever writes through Freshlake reads in an IMMEDIATE table what was written."""
        label = f"w{self.chance.randrange(1_000_000)}"
        self.fl.sql(f"INSERT INTO products VALUES ({self.chance.randrange(40)}, '{label}')")
        if (label,) not in {tuple(row) for row in self.fl.table("labels").collect()}:
            # a foreign writer may have changed or deleted the row, which the next look at the source shows
            left = self.fl.sql(f"SELECT * FROM products WHERE label = '{label}'").count()
            if left and (label,) not in {tuple(row) for row in self.fl.table("labels").collect()}:
                self.wrong.append(f"label {label} was written and is not in labels")


def _key(source: str) -> str:
    return "order_id" if source == "returns" else "id"


def rows(source: str, ids: range, chance: random.Random) -> pa.Table:
    """New rows of a source; keys of others are drawn from those that are likely to exist."""
    drawn = {
        "orders": [
            (i, chance.randrange(60), chance.randrange(30), chance.choice(REGIONS), chance.randint(1, 500)) for i in ids
        ],
        "customers": [(i % 80, f"c{chance.randrange(40)}") for i in ids],
        "products": [(i % 40, f"l{chance.randrange(12)}") for i in ids],
        "returns": [(chance.randrange(max(ids.stop, 1)), chance.choice(_REASONS)) for _ in ids],
    }[source]
    schema = SCHEMAS[source]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in drawn], schema=schema)


def first_rows(source: str, chance: random.Random) -> pa.Table:
    return rows(source, range({"orders": 4_000, "customers": 60, "products": 30, "returns": 400}[source]), chance)
