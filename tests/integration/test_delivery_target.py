"""Delivered tables in a real PostgreSQL: rows and version move together, exactly, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from freshlake.delivery.columns import Column
from freshlake.delivery.target import Place, Target
from freshlake.errors import AlreadyExists, DeliveryConflict
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.reference import ConnectionReference
from tests.integration.postgres_server import Server

COLUMNS = (Column("id", "bigint"), Column("Name %s", "text"), Column("x", "double precision"))
START = Place("revenue-1", 1, 3)


@pytest.fixture
def database(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    postgres_server.run("DROP DATABASE IF EXISTS delivered", "postgres")
    postgres_server.run("CREATE DATABASE delivered", "postgres")
    monkeypatch.setenv("DELIVERED", postgres_server.url("delivered"))
    connection = connect(ConnectionReference.parse("env:DELIVERED"))
    yield connection
    connection.close()


@pytest.fixture
def target(database: psycopg.Connection[Any]) -> Target:
    made = Target("lake-1", "public", "Revenue", COLUMNS)
    with transaction(database) as cursor:
        made.make(cursor, START)
    return made


def batch(*rows: tuple[Any, ...], weights: bool = True) -> list[pa.RecordBatch]:
    names = ["id", "name", "x", "__fl_weight"][: 4 if weights else 3]
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.int64()]
    columns = [pa.array([row[i] for row in rows], kinds[i]) for i in range(len(names))]
    return [pa.RecordBatch.from_arrays(columns, names)]


def rows(database: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    found = database.execute('SELECT id, "Name %s", x::text FROM public."Revenue"').fetchall()
    return sorted(found, key=repr)


def applied(database: psycopg.Connection[Any], target: Target, *changes: tuple[Any, ...]) -> None:
    with transaction(database) as cursor:
        target.apply(cursor, batch(*changes))


def test_a_delta_adds_and_removes_copies_of_whole_rows(database: psycopg.Connection[Any], target: Target) -> None:
    applied(database, target, (1, "a", 1.0, 3), (2, None, None, 2), (None, "b", 2.0, 1))
    assert rows(database) == [(1, "a", "1")] * 3 + [(2, None, None)] * 2 + [(None, "b", "2")]
    applied(database, target, (1, "a", 1.0, -2), (2, None, None, -1), (None, "b", 2.0, -1), (3, "it's", 0.1, 1))
    assert rows(database) == [(1, "a", "1"), (2, None, None), (3, "it's", "0.1")]


def test_rows_go_where_all_tables_are_published(database: psycopg.Connection[Any], target: Target) -> None:
    database.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    applied(database, target, (1, "a", 1.0, 2))
    applied(database, target, (1, "a", 1.0, -1))
    assert rows(database) == [(1, "a", "1")]
    with transaction(database) as cursor:
        target.replace(cursor, batch((2, "b", 2.0), weights=False))
        target.moved(cursor, Place("revenue-1", 1, 4))
        target.drop(cursor)


def test_numbers_are_told_apart_by_what_is_stored(database: psycopg.Connection[Any], target: Target) -> None:
    applied(database, target, (1, "a", 0.0, 1), (1, "a", -0.0, 1), (1, "a", float("nan"), 2), (1, "a", float("inf"), 1))
    applied(database, target, (1, "a", -0.0, -1), (1, "a", float("nan"), -1))
    assert rows(database) == [(1, "a", "0"), (1, "a", "Infinity"), (1, "a", "NaN")]


def test_what_others_changed_is_noticed_and_nothing_is_written(
    database: psycopg.Connection[Any], target: Target
) -> None:
    applied(database, target, (1, "a", 1.0, 2))
    database.execute('DELETE FROM public."Revenue" WHERE ctid = (SELECT max(ctid) FROM public."Revenue")')
    with pytest.raises(DeliveryConflict, match="Revenue") as caught:
        applied(database, target, (1, "a", 1.0, -2), (2, "b", 1.0, 1))
    assert caught.value.detail == "1 of 2 rows to be removed are there"
    assert rows(database) == [(1, "a", "1")]


def test_a_copy_takes_the_place_of_all_rows(database: psycopg.Connection[Any], target: Target) -> None:
    applied(database, target, (1, "a", 1.0, 2))
    with transaction(database) as cursor:
        target.replace(cursor, batch((7, "g", 7.0), (7, "g", 7.0), weights=False))
        target.moved(cursor, Place("revenue-1", 2, 1))
    assert rows(database) == [(7, "g", "7")] * 2
    with transaction(database) as cursor:
        assert target.place(cursor) == Place("revenue-1", 2, 1)


def test_readers_see_the_old_rows_until_all_are_there(
    database: psycopg.Connection[Any], target: Target, postgres_server: Server
) -> None:
    applied(database, target, (1, "a", 1.0, 1))
    with transaction(database) as cursor:
        target.replace(cursor, batch((2, "b", 2.0), weights=False))
        assert postgres_server.run('SELECT id FROM public."Revenue"', "delivered") == "1\n"
    assert postgres_server.run('SELECT id FROM public."Revenue"', "delivered") == "2\n"


def test_other_columns_keep_what_users_made_for_those_that_stay(
    database: psycopg.Connection[Any], target: Target, postgres_server: Server
) -> None:
    database.execute('CREATE UNIQUE INDEX mine ON public."Revenue" (id); GRANT SELECT ON public."Revenue" TO PUBLIC')
    other = Target("lake-1", "public", "Revenue", (Column("id", "bigint"), Column("total", "numeric(10,2)")))
    columns = [pa.array([1, 2]), pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))]
    with transaction(database) as cursor:
        other.replace(cursor, [pa.RecordBatch.from_arrays(columns, ["id", "total"])])
    assert postgres_server.run('SELECT * FROM public."Revenue" ORDER BY 1', "delivered") == "1|1.50\n2|\n"
    assert postgres_server.run("SELECT count(*) FROM pg_indexes WHERE indexname = 'mine'", "delivered") == "1\n"
    change = [pa.array([2]), pa.array([None], pa.decimal128(10, 2)), pa.array([-1])]
    with transaction(database) as cursor:
        other.apply(cursor, [pa.RecordBatch.from_arrays(change, ["id", "total", "w"])])
    assert postgres_server.run('SELECT * FROM public."Revenue"', "delivered") == "1|1.50\n"


def test_every_type_goes_there_and_is_found_again(database: psycopg.Connection[Any]) -> None:
    kinds = {
        "smallint": (pa.int16(), -3),
        "integer": (pa.int32(), 7),
        "real": (pa.float32(), 0.1),
        "numeric(38,10)": (pa.decimal128(38, 10), Decimal("1.0000000001")),
        "bytea": (pa.binary(), b"\x00\xff"),
        "boolean": (pa.bool_(), True),
        "date": (pa.date32(), date(1, 1, 1)),
        "timestamp with time zone": (pa.timestamp("us", "UTC"), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        "timestamp without time zone": (pa.timestamp("us"), datetime(2026, 3, 29, 2, 30)),
        "text[]": (pa.list_(pa.string()), ['a"b', None, "", "{}"]),
        "double precision[]": (pa.list_(pa.float64()), [1.5, None, float("inf")]),
        "numeric(10,2)[]": (pa.list_(pa.decimal128(10, 2)), []),
        "bytea[]": (pa.list_(pa.binary()), [b"\\x00", b""]),
        "timestamp with time zone[]": (pa.list_(pa.timestamp("us", "UTC")), [datetime(2026, 1, 1, tzinfo=UTC), None]),
    }
    made = Target("lake-1", "public", "kinds", tuple(Column(f"c{i}", kind) for i, kind in enumerate(kinds)))
    given = [pa.array([value, None], kind) for kind, value in kinds.values()]
    names = [f"c{i}" for i in range(len(given))]
    with transaction(database) as cursor:
        made.make(cursor, START)
        made.replace(cursor, [pa.RecordBatch.from_arrays(given, names)])
    first, second = database.execute("SELECT * FROM public.kinds ORDER BY c0").fetchall()
    assert [type(v) for v in first] == [type(v) for _, v in kinds.values()]
    assert list(first)[3:] == [value for _, value in kinds.values()][3:]
    assert set(second) == {None}
    with transaction(database) as cursor:
        made.apply(cursor, [pa.RecordBatch.from_arrays([*given, pa.array([-1, -1])], [*names, "w"])])
    assert database.execute("SELECT count(*) FROM public.kinds").fetchone() == (0,)


def test_a_table_of_somebody_else_is_left_alone(database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE public.mine AS SELECT 1 AS id")
    made = Target("lake-1", "public", "mine", (Column("id", "bigint"),))
    with pytest.raises(AlreadyExists, match="mine"), transaction(database) as cursor:
        made.make(cursor, START)
    with transaction(database) as cursor:
        made.drop(cursor)
    assert database.execute("SELECT id FROM public.mine").fetchall() == [(1,)]


def test_a_table_of_another_lake_is_left_alone(database: psycopg.Connection[Any], target: Target) -> None:
    other = Target("lake-2", target.schema, target.table, COLUMNS)
    with pytest.raises(AlreadyExists, match="another lake"), transaction(database) as cursor:
        other.place(cursor)


def test_nothing_of_a_dropped_table_stays(database: psycopg.Connection[Any], target: Target) -> None:
    with transaction(database) as cursor:
        target.drop(cursor)
        assert target.place(cursor) is None
    assert database.execute("SELECT count(*) FROM freshlake_delivered.positions").fetchone() == (0,)
    with transaction(database) as cursor:
        target.make(cursor, START)
        assert target.place(cursor) == START
