"""Changes the four sources at random through delta-rs, without Spark: inserts, updates, deletes, some at once."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

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


class Writer(threading.Thread):
    """One at a time, as one application would write; `written` counts its commits."""

    def __init__(self, paths: dict[str, Path], seed: int, pause: float) -> None:
        super().__init__(daemon=True, name="soak-writer")
        self.paths, self.chance, self.pause = paths, random.Random(seed), pause
        self.stop, self.written, self.next_id = threading.Event(), 0, 1_000
        self.conflicts = 0

    def run(self) -> None:
        while not self.stop.wait(self.pause * self.chance.uniform(0.5, 1.5)):
            try:
                self.change()
                self.written += 1
            except DeltaError:
                self.conflicts += 1  # nobody else writes, but a vacuum or a retry may be in the way
                time.sleep(0.1)

    def change(self) -> None:
        source = self.chance.choices(tuple(SCHEMAS), (6, 1, 1, 2))[0]
        kind = self.chance.choices(("insert", "update", "delete"), (5, 2, 2))[0]
        table = str(self.paths[source])
        if kind == "insert":
            write_deltalake(table, rows(source, self._ids(self.chance.randint(1, 20)), self.chance), mode="append")
        elif kind == "update":
            self._update(source, table)
        else:
            key = "order_id" if source == "returns" else "id"
            DeltaTable(table).delete(f"{key} % 97 = {self.chance.randrange(97)}")

    def _update(self, source: str, table: str) -> None:
        which = self.chance.randrange(53)
        changes = {
            "orders": ({"amount": "amount + 7", "region": f"'{self.chance.choice(REGIONS)}'"}, f"id % 53 = {which}"),
            "customers": ({"name": f"'n{which}'"}, f"id % 53 = {which}"),
            "products": ({"label": f"'l{which}'"}, f"id % 53 = {which}"),
            "returns": ({"reason": "NULL"}, f"order_id % 53 = {which}"),
        }
        values, where = changes[source]
        DeltaTable(table).update(updates=values, predicate=where)

    def _ids(self, count: int) -> range:
        self.next_id += count
        return range(self.next_id - count, self.next_id)


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
    return rows(source, range({"orders": 1_000, "customers": 60, "products": 30, "returns": 100}[source]), chance)
