"""Messages of the stream to events: rows of each table gathered in pieces, whatever the size of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.events import Event, Resync, Rows, Truncated, not_representable, weighted_rows
from freshlake.sources.postgres.tables import Captured, Column
from freshlake.sources.postgres.types import lake_type, with_modifier
from freshlake.sources.postgres.wal.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    Value,
    Values,
)


@dataclass
class _Gathered:
    """Rows of one table that were not handed on yet, column by column."""

    columns: list[list[Value]]
    weights: list[int] = field(default_factory=list)

    def add(self, values: Sequence[Value], weight: int) -> int:
        """Add a row; its size in bytes, about."""
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        self.weights.append(weight)
        return 16 + sum(len(value) for value in values if isinstance(value, bytes))


class Assembler:
    """Follows the messages of one batch, from the commit at `start` to before the one at `end`."""

    def __init__(self, tables: Sequence[Captured], start: int, end: int, piece_bytes: int) -> None:
        self._captured = {table.oid: table for table in tables}
        # a partition may be captured by itself and as a part of its parent
        self._tables: dict[int, list[Captured]] = {}
        for table in tables:
            for oid in _oids(table):
                self._tables.setdefault(oid, []).append(table)
        self._start, self._end, self._piece_bytes = start, end, piece_bytes
        self._places: dict[tuple[int, int], list[int]] = {}
        self._lost: set[int] = set()
        self._inside = False
        self._bytes = 0
        self._gathered: dict[int, _Gathered] = {}

    def events(self, messages: Iterable[Message]) -> Iterator[Event]:
        """The events of the batch."""
        for message in messages:
            if isinstance(message, Begin):
                # what was landed before and is not confirmed yet comes again
                self._inside = self._start <= message.commit_lsn < self._end
            elif isinstance(message, Relation):
                yield from self._relation(message)
            elif self._inside:
                yield from self._change(message)
            if self._bytes >= self._piece_bytes:
                yield from self._hand_on()
        yield from self._hand_on()

    def _relation(self, relation: Relation) -> Iterator[Event]:
        """Find the captured columns among the published ones, as they are from here on."""
        published = {column.name: (place, column) for place, column in enumerate(relation.columns)}
        for table in self._tables.get(relation.oid, ()):
            changed = [c.name for c in table.columns if not _is_same(table, c, published.get(c.name, (0, None))[1])]
            if not changed:
                self._places[table.oid, relation.oid] = [published[c.name][0] for c in table.columns]
            elif self._inside:
                yield from self._lose(table, Reason.SCHEMA_CHANGED, f"columns changed: {', '.join(changed)}")
            else:
                self._places.pop((table.oid, relation.oid), None)

    def _change(self, message: Message) -> Iterator[Event]:
        if isinstance(message, Truncate):
            yield from self._truncate(set(message.oids))
        elif isinstance(message, Insert | Update | Delete):
            for table in self._tables.get(message.oid, ()):
                if table.oid not in self._lost:
                    yield from self._row(table, message)

    def _row(self, table: Captured, message: Insert | Update | Delete) -> Iterator[Event]:
        places = self._places.get((table.oid, message.oid))
        if places is None:
            yield from self._lose(table, Reason.SCHEMA_CHANGED, "its columns are not those that are captured")
            return
        if isinstance(message, Insert):
            self._add(table, _chosen(message.new, places), 1)
            return
        if message.old is None or UNCHANGED in message.old:
            yield from self._lose(table, Reason.IDENTITY_CHANGED, "the log does not have its old rows")
            return
        old = _chosen(message.old, places)
        new = _completed(_chosen(message.new, places), old) if isinstance(message, Update) else None
        if old != new:
            self._add(table, old, -1)
            if new is not None:
                self._add(table, new, 1)

    def _add(self, table: Captured, values: Sequence[Value], weight: int) -> None:
        gathered = self._gathered.get(table.oid)
        if gathered is None:
            gathered = self._gathered[table.oid] = _Gathered([[] for _ in table.columns])
        self._bytes += gathered.add(values, weight)

    def _truncate(self, oids: set[int]) -> Iterator[Event]:
        for table in self._captured.values():
            if table.oid in self._lost or oids.isdisjoint(_oids(table)):
                continue
            if oids.issuperset(_oids(table)):
                self._gathered.pop(table.oid, None)
                yield Truncated(table)
            else:
                yield from self._lose(table, Reason.PARTITION_TRUNCATED, "one partition was truncated")

    def _lose(self, table: Captured, reason: Reason, detail: str) -> Iterator[Event]:
        self._lost.add(table.oid)
        self._gathered.pop(table.oid, None)
        yield Resync(table, reason, detail)

    def _hand_on(self) -> Iterator[Event]:
        gathered, self._gathered, self._bytes = self._gathered, {}, 0
        for oid, rows in gathered.items():
            texts = [pa.array(column, pa.binary()).cast(pa.string()) for column in rows.columns]
            table = self._captured[oid]
            try:
                yield Rows(table, weighted_rows(table, texts, pa.array(rows.weights, pa.int64())))
            except ValueNotRepresentable as error:
                self._lost.add(oid)
                yield not_representable(table, error)


def _oids(table: Captured) -> list[int]:
    """The numbers that a table's changes come under: its own, or those of its partitions."""
    return [partition.oid for partition in table.table.partitions] or [table.oid]


def _is_same(table: Captured, column: Column, published: RelationColumn | None) -> bool:
    if published is None or published.type_oid != column.type.oid:
        return False
    then = lake_type(with_modifier(column.type, published.modifier), money_digits=table.table.money_digits)
    return column.name in table.as_text or then == table.lake_type(column)


def _chosen(values: Values, places: Sequence[int]) -> list[Value]:
    return [values[place] for place in places]


def _completed(new: list[Value], old: Sequence[Value]) -> list[Value]:
    """A large value that was not written again is what it was."""
    return [before if value is UNCHANGED else value for value, before in zip(new, old, strict=True)]
