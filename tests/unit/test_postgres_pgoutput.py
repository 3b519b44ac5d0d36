"""The replication stream without a server: messages from their bytes, and events from messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from struct import pack

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.errors import StreamMalformed
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.events import Event, Resync, Rows, Truncated
from freshlake.sources.postgres.tables import Captured, Column, Identity, Partition, Table, TableKind, capture_some
from freshlake.sources.postgres.types import SourceType
from freshlake.sources.postgres.wal.assemble import Assembler
from freshlake.sources.postgres.wal.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    Value,
    parse,
)

INTEGER = SourceType(23, "pg_catalog", "int4", "b")
STRING = SourceType(25, "pg_catalog", "text", "b")
NUMERIC = SourceType(1700, "pg_catalog", "numeric", "b", modifier=(10 << 16 | 2) + 4)


def values(*row: Value) -> bytes:
    def one(value: Value) -> bytes:
        if value is None:
            return b"n"
        return b"u" if value is UNCHANGED else b"t" + pack(">I", len(value)) + value

    return pack(">H", len(row)) + b"".join(one(value) for value in row)


def text(name: str) -> bytes:
    return name.encode() + b"\0"


COLUMNS = b"\x01" + text("id") + pack(">Ii", 23, -1) + b"\x00" + text("größe") + pack(">Ii", 1700, 655366)
MESSAGES: list[tuple[bytes, Message]] = [
    (b"B" + pack(">QQI", 0x16B374D848, 5, 77), Begin(0x16B374D848, 77)),
    (b"C" + pack(">BQQQ", 0, 10, 12, 5), Commit(10, 12)),
    (
        b"R" + pack(">I", 9) + text("public") + text("t") + b"f" + pack(">H", 2) + COLUMNS,
        Relation(9, "public", "t", "f", (RelationColumn("id", 23, -1), RelationColumn("größe", 1700, 655366))),
    ),
    (b"R" + pack(">I", 9) + text("") + text("t") + b"d" + pack(">H", 0), Relation(9, "pg_catalog", "t", "d", ())),
    (b"I" + pack(">I", 9) + b"N" + values(b"1", None, b""), Insert(9, (b"1", None, b""))),
    (b"U" + pack(">I", 9) + b"N" + values(b"1", UNCHANGED), Update(9, None, (b"1", UNCHANGED))),
    (b"U" + pack(">I", 9) + b"K" + values(b"1") + b"N" + values(b"2"), Update(9, None, (b"2",))),
    (b"U" + pack(">I", 9) + b"O" + values(b"1") + b"N" + values(b"2"), Update(9, (b"1",), (b"2",))),
    (b"D" + pack(">I", 9) + b"O" + values(b"1", None), Delete(9, (b"1", None))),
    (b"D" + pack(">I", 9) + b"K" + values(b"1", None), Delete(9, None)),
    (b"T" + pack(">IBII", 2, 3, 9, 10), Truncate((9, 10))),
]
OTHERS = [b"O" + pack(">Q", 5) + text("o"), b"Y" + pack(">I", 5) + text("s") + text("t"), b"M\x00" + pack(">Q", 5)]


@pytest.mark.parametrize(("data", "message"), MESSAGES, ids=[type(message).__name__ for _, message in MESSAGES])
def test_a_message_is_read(data: bytes, message: Message) -> None:
    assert parse(data) == message


@pytest.mark.parametrize("data", OTHERS)
def test_messages_without_rows_are_passed_over(data: bytes) -> None:
    assert isinstance(parse(data), Other)


@pytest.mark.parametrize(("data", "message"), MESSAGES, ids=[type(message).__name__ for _, message in MESSAGES])
def test_a_message_that_is_cut_or_too_long_is_refused(data: bytes, message: Message) -> None:
    for end in range(len(data)):
        with pytest.raises(StreamMalformed):
            parse(data[:end])
    with pytest.raises(StreamMalformed):
        parse(data + b"x")


@pytest.mark.parametrize(
    "data",
    [
        b"S" + pack(">IB", 5, 1),
        b"A" + pack(">II", 5, 5),
        b"I" + pack(">I", 9) + b"O" + values(b"1"),
        b"U" + pack(">I", 9) + b"X" + values(b"1"),
        b"D" + pack(">I", 9) + b"N" + values(b"1"),
        b"I" + pack(">I", 9) + b"N" + pack(">H", 1) + b"b" + pack(">I", 1) + b"1",
    ],
    ids=["stream", "stream abort", "insert", "update", "delete", "binary"],
)
def test_what_was_not_asked_for_is_refused(data: bytes) -> None:
    with pytest.raises(StreamMalformed):
        parse(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with contextlib.suppress(StreamMalformed):
        parse(data)


def table(*partitions: int) -> Captured:
    columns = (
        Column(1, "id", INTEGER, "integer", 5),
        Column(2, "note", STRING, "text", 5),
        Column(3, "unused", STRING, "text", 5),
        Column(4, "price", NUMERIC, "numeric(10,2)", 5),
    )
    kind = TableKind.PARTITIONED if partitions else TableKind.TABLE
    leaves = tuple(Partition(oid, "public", f"t{oid}", oid, Identity.FULL) for oid in partitions)
    described = Table(9, "public", "t", kind, columns, ("id",), Identity.FULL, "app", "p", 9, leaves)
    return capture_some(described, ["note", "price"])


def relation(oid: int = 9, **types: int) -> Relation:
    """As published: with columns that are not captured, and in another order."""
    kinds = {"price": 1700, "unused": 25, "note": 25, "id": 23, **types}
    modifiers = {"price": NUMERIC.modifier}
    columns = tuple(RelationColumn(name, kind, modifiers.get(name, -1)) for name, kind in kinds.items() if kind)
    return Relation(oid, "public", "t", "f", columns)


def row(number: int, note: Value = b"n", price: Value = b"1.50", unused: Value = b"u") -> tuple[Value, ...]:
    return price, unused, note, str(number).encode()


def transaction(lsn: int, *messages: Message) -> Iterator[Message]:
    yield Begin(lsn, 1)
    yield from messages
    yield Commit(lsn, lsn + 1)


def assembled(
    *transactions: Iterable[Message],
    captured: Captured | None = None,
    start: int = 0,
    end: int = 100,
    size: int = 10**6,
) -> list[Event]:
    assembler = Assembler([captured or table()], start, end, size)
    return list(assembler.events(message for each in transactions for message in each))


def found(events: Iterable[Event]) -> list[tuple[int, str, int]]:
    """Rows as number, note and weight."""
    rows = [r for event in events if isinstance(event, Rows) for r in event.rows.to_pylist()]
    return [(r["id"], r["note"], r["__fl_weight"]) for r in rows]


def test_changes_become_weighted_rows_of_the_captured_columns() -> None:
    (event,) = assembled(
        transaction(
            5, relation(), Insert(9, row(1)), Update(9, row(1), row(1, b"m")), Delete(9, row(2, None, price=None))
        )
    )
    assert isinstance(event, Rows)
    assert event.rows.schema.names == ["id", "note", "price", "__fl_weight"]
    assert event.rows.schema.field("price").type == pa.decimal128(10, 2)
    assert found([event]) == [(1, "n", 1), (1, "n", -1), (1, "m", 1), (2, None, -1)]


def test_a_large_value_that_was_not_written_again_is_taken_from_the_old_row() -> None:
    events = assembled(transaction(5, relation(), Update(9, row(1, b"big"), row(2, UNCHANGED))))
    assert found(events) == [(1, "big", -1), (2, "big", 1)]


def test_an_update_of_columns_that_are_not_captured_is_nothing() -> None:
    same = Update(9, row(1), row(1, UNCHANGED, unused=b"other"))
    assert assembled(transaction(5, relation(), same)) == []


def test_only_transactions_of_the_batch_count() -> None:
    events = assembled(
        transaction(4, relation(), Insert(9, row(4))),
        transaction(5, Insert(9, row(5))),
        transaction(6, Insert(9, row(6))),
        transaction(7, Insert(9, row(7))),
        start=5,
        end=7,
    )
    assert found(events) == [(5, "n", 1), (6, "n", 1)]


def test_a_truncation_takes_back_what_the_batch_had_before_it() -> None:
    events = assembled(
        transaction(5, relation(), Insert(9, row(1)), Truncate((8, 9)), Insert(9, row(2))),
        transaction(6, Truncate((7,))),
    )
    assert [type(event) for event in events] == [Truncated, Rows]
    assert found(events) == [(2, "n", 1)]


def test_a_large_transaction_is_handed_on_in_pieces() -> None:
    inserts = [Insert(9, row(n, b"x" * 1000)) for n in range(100)]
    events = assembled(transaction(5, relation(), *inserts), size=10_000)
    assert len(events) >= 10
    assert [number for number, _, _ in found(events)] == list(range(100))


@pytest.mark.parametrize(
    "changed",
    [
        relation(note=0),
        relation(note=23),
        Relation(9, "public", "t", "f", (*relation().columns[1:], RelationColumn("price", 1700, -1))),
    ],
    ids=["gone", "retyped", "other precision"],
)
def test_a_changed_column_is_noticed_where_it_happens(changed: Relation) -> None:
    events = assembled(
        transaction(5, relation(), Insert(9, row(1))),
        transaction(6, changed, Insert(9, (b"1", b"2", b"3"))),
        transaction(7, Insert(9, (b"1", b"2", b"3"))),
    )
    assert [(type(e), getattr(e, "reason", None)) for e in events] == [(Resync, Reason.SCHEMA_CHANGED)]


def test_a_column_that_was_added_or_changed_without_being_captured_is_nothing() -> None:
    wider = Relation(9, "public", "t", "f", (*relation(unused=23).columns, RelationColumn("more", 25, -1)))
    events = assembled(transaction(5, relation(), Insert(9, row(1))), transaction(6, wider, Insert(9, (*row(2), b"m"))))
    assert found(events) == [(1, "n", 1), (2, "n", 1)]


def test_a_schema_that_was_different_before_the_batch_does_not_matter() -> None:
    events = assembled(transaction(4, relation(note=0)), transaction(5, relation(), Insert(9, row(1))), start=5)
    assert found(events) == [(1, "n", 1)]
    (event,) = assembled(transaction(4, relation(note=0)), transaction(5, Insert(9, row(1))), start=5)
    assert isinstance(event, Resync)


@pytest.mark.parametrize("change", [Update(9, None, row(2)), Delete(9, None), Update(9, row(1, UNCHANGED), row(2))])
def test_without_old_rows_there_is_nothing_to_follow(change: Message) -> None:
    (event,) = assembled(transaction(5, relation(), Insert(9, row(1)), change, Insert(9, row(3))))
    assert isinstance(event, Resync)
    assert event.reason is Reason.IDENTITY_CHANGED


def test_partitions_are_one_table() -> None:
    parts = table(20, 21)
    both = [relation(20), relation(21)]
    events = assembled(transaction(5, *both, Insert(20, row(1)), Insert(21, row(2)), Insert(9, row(3))), captured=parts)
    assert found(events) == [(1, "n", 1), (2, "n", 1)]
    events = assembled(
        transaction(5, *both, Insert(20, row(1)), Truncate((20, 21, 22)), Insert(21, row(2))), captured=parts
    )
    assert [type(event) for event in events] == [Truncated, Rows]
    (event,) = assembled(transaction(5, *both, Insert(20, row(1)), Truncate((20,)), Insert(21, row(2))), captured=parts)
    assert isinstance(event, Resync)
    assert event.reason is Reason.PARTITION_TRUNCATED


def test_a_partition_that_is_captured_by_itself_too_gives_its_rows_to_both() -> None:
    parts, part = table(20, 21), replace(table(), table=replace(table().table, oid=20, has_parent=True))
    messages = [*transaction(5, relation(20), Insert(20, row(1)), relation(21), Insert(21, row(2)))]
    for tables in ([parts, part], [part, parts]):
        events = list(Assembler(tables, 0, 100, 10**6).events(messages))
        rows = {event.table.oid: found([event]) for event in events}
        assert rows == {9: [(1, "n", 1), (2, "n", 1)], 20: [(1, "n", 1)]}
    messages += transaction(6, Truncate((20,)))
    events = list(Assembler([parts, part], 0, 100, 10**6).events(messages))
    assert {event.table.oid: type(event) for event in events} == {9: Resync, 20: Truncated}


def test_tables_that_are_not_captured_are_passed_over() -> None:
    assert assembled(transaction(5, relation(8), Insert(8, row(1)), Update(8, None, row(2)), Truncate((8,)))) == []


def test_a_value_that_does_not_fit_concerns_its_table_alone() -> None:
    other = replace(table(), table=replace(table().table, oid=8, name="u"))
    bad = [relation(), relation(8), Insert(9, row(1, price=b"NaN")), Insert(8, row(2))]
    messages = [*transaction(5, *bad), *transaction(6, Insert(9, row(3)), Insert(8, row(4)))]
    for size in (1, 10**6):
        events = list(Assembler([table(), other], 0, 100, size).events(messages))
        (lost,) = (event for event in events if isinstance(event, Resync))
        assert (lost.table.oid, lost.reason) == (9, Reason.VALUE_NOT_REPRESENTABLE)
        assert lost.detail == "a value of column public.t.price does not fit DECIMAL(10,2): the value is NaN"
        assert found(events) == [(2, "n", 1), (4, "n", 1)]
