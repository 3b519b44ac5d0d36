"""Connections, descriptions and types, against real servers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from freshlake.errors import (
    CaptureUnsupported,
    FreshlakeError,
    PrivilegeMissing,
    SourceDenied,
    SourceUnreachable,
    TableNotFound,
    UnsupportedType,
    ValueNotRepresentable,
)
from freshlake.sources.postgres.compare import Reason, compare, fingerprint
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.copying import copy_table
from freshlake.sources.postgres.describe import describe, table_names
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import (
    Captured,
    Table,
    capture_all,
    capture_some,
    check_capturable,
    refused,
    widened,
)
from tests.bags import canonical
from tests.integration.capture_database import Database
from tests.integration.postgres_types import (
    AS_TEXT,
    CASES,
    REFUSED_TYPES,
    REFUSED_VALUES,
    ROUNDS,
    SETUP,
    value,
    wide_rows,
    wide_table,
)


def failing(database: Database, monkeypatch: pytest.MonkeyPatch, address: str) -> FreshlakeError:
    monkeypatch.setenv("ELSEWHERE", address)
    with pytest.raises(FreshlakeError) as failed:
        connect(ConnectionReference.parse("env:ELSEWHERE"))
    return failed.value


def test_a_user_or_database_that_does_not_exist_is_denied(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (database.server.url("nowhere"), database.server.url(database.name, user="nobody")):
        assert isinstance(failing(database, monkeypatch, address), SourceDenied)


def test_a_connection_that_breaks_is_unreachable(database: Database) -> None:
    with connect(database.reference) as connection:
        database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'freshlake'")
        with pytest.raises(SourceUnreachable), transaction(connection, read_only=True) as cursor:
            look(cursor)


def test_a_missing_privilege_is_told_from_a_denied_connection(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE ROLE reader LOGIN")
    try:
        with psycopg.connect(database.server.url(database.name, user="reader"), autocommit=True) as connection:
            with transaction(connection, read_only=True) as cursor:
                table = capture_all(describe(cursor, look(cursor), ["public.t"])["public.t"])
            assert not table.table.is_owned
            with pytest.raises(PrivilegeMissing), transaction(connection, read_only=True) as cursor:
                list(copy_table(cursor, table))
    finally:
        database.run("DROP OWNED BY reader; DROP ROLE reader")


def test_a_role_that_row_security_applies_to_gets_an_error_and_never_fewer_rows(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); CREATE ROLE clerk LOGIN; GRANT SELECT ON t TO clerk"
    )
    plain = database.table("public.t")
    database.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (a = 1)")
    try:
        with psycopg.connect(database.server.url(database.name, user="clerk"), autocommit=True) as connection:
            with transaction(connection, read_only=True) as cursor:
                table = capture_all(describe(cursor, look(cursor), ["public.t"])["public.t"])
            assert table.table.hides_rows
            hidden = pytest.raises(PrivilegeMissing, match="row-level security")
            with hidden, transaction(connection, read_only=True) as cursor:
                list(copy_table(cursor, table))
    finally:
        database.run("DROP OWNED BY clerk; DROP ROLE clerk")
    owner = database.table("public.t")
    assert not owner.hides_rows
    assert compare(capture_all(plain), owner).row_security_changed


def test_settings_of_the_database_do_not_change_what_is_read(database: Database) -> None:
    database.run("""
        CREATE TABLE t (d date, i interval, f float8, b bytea, z timestamptz);
        INSERT INTO t VALUES ('2024-02-01', '1 mon', 0.1, '\\x00', '2024-02-01 00:00+00');
    """)
    expected = database.rows(database.captured("public.t"))
    for setting in (
        "datestyle = 'SQL, DMY'",
        "intervalstyle = sql_standard",
        "extra_float_digits = -10",
        "bytea_output = escape",
    ):
        database.run(f"ALTER DATABASE {database.name} SET {setting}")
    database.run(f"ALTER DATABASE {database.name} SET timezone = 'Asia/Kathmandu'")
    database.reopen()
    assert database.one("SELECT d::text FROM t") == "01/02/2024"
    assert database.rows(database.captured("public.t")) == expected


def test_the_history_of_a_database_is_named(database: Database) -> None:
    found = database.found()
    assert found.origin.endswith("/00000001")
    assert found.wal_level == "logical"
    assert found.may_replicate
    assert found.major >= 15


def test_a_table_that_is_not_there_is_named(database: Database) -> None:
    for name in ("public.nothing", "nothing"):
        with pytest.raises(TableNotFound, match="nothing"):
            database.table(name)


def test_tables_are_listed_without_partitions_and_without_the_servers_own(database: Database) -> None:
    database.run("""
        CREATE SCHEMA shop; CREATE TABLE shop.orders (id int); CREATE VIEW shop.v AS SELECT 1 AS a;
        CREATE TABLE events (at date) PARTITION BY RANGE (at);
        CREATE TABLE events_1 PARTITION OF events DEFAULT;
    """)
    with database.reading() as cursor:
        assert table_names(cursor) == ["public.events", "shop.orders"]
        assert table_names(cursor, ["shop"]) == ["shop.orders"]
        assert table_names(cursor, []) == []


def test_a_description_holds_keys_columns_and_partitions(database: Database) -> None:
    database.run("""
        CREATE TABLE t ("Order Id" int, b text, c int GENERATED ALWAYS AS (1) STORED, PRIMARY KEY (b, "Order Id"));
        CREATE TABLE u (a int NOT NULL, b int, c text, UNIQUE (b), UNIQUE (a, c));
        CREATE UNIQUE INDEX ON u (a) WHERE b > 0; CREATE UNIQUE INDEX ON u (a) INCLUDE (b);
        CREATE TABLE p (k int, v int) PARTITION BY LIST (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (v);
        CREATE TABLE p21 PARTITION OF p2 DEFAULT;
        ALTER TABLE p1 REPLICA IDENTITY FULL;
    """)
    t, u, p, p1 = (database.table(f"public.{name}") for name in ("t", "u", "p", "p1"))
    assert t.key == ("b", "Order Id")
    assert [(c.number, c.name, c.written_type, c.generated) for c in t.columns] == [
        (1, "Order Id", "integer", ""),
        (2, "b", "text", ""),
        (3, "c", "integer", "s"),
    ]
    assert u.key == ("a",)
    assert [(leaf.full_name, leaf.identity) for leaf in p.partitions] == [("public.p1", "f"), ("public.p21", "d")]
    assert p1.has_parent
    assert not p.has_parent
    assert all(Table.from_json(json.loads(json.dumps(found.to_json()))) == found for found in (t, u, p, p1))


def test_only_tables_with_changes_of_their_own_are_captured(database: Database) -> None:
    database.run("""
        CREATE TABLE t (a int); CREATE VIEW v AS SELECT * FROM t; CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
        CREATE TABLE parent (a int); CREATE TABLE child () INHERITS (parent);
        CREATE TABLE nothing (); CREATE TABLE odd (a aclitem); CREATE UNLOGGED TABLE fleeting (a int);
    """)
    check_capturable(database.table("public.t"))
    check_capturable(database.table("public.child"))
    for name in ("v", "m", "parent", "nothing", "odd", "fleeting"):
        with pytest.raises(CaptureUnsupported) as refused_table:
            check_capturable(database.table(f"public.{name}"))
        assert refused_table.value.detail
        assert refused_table.value.hint


def test_columns_are_chosen_with_the_key_and_in_their_own_order(database: Database) -> None:
    database.run("CREATE TABLE t (a int, b text, id int PRIMARY KEY, h aclitem, __fl_x int)")
    table = database.table("public.t")
    assert capture_all(table).names == ("a", "b", "id")
    assert set(refused(table)) == {"h", "__fl_x"}
    some = capture_some(table, ["B"])
    assert some.names == ("b", "id")
    assert some.is_selective
    assert widened(some, ["a"]).names == ("a", "b", "id")
    assert capture_some(table, []).names == ("a", "b", "id")
    assert capture_some(table, ["h"], as_text=["h"]).names == ("id", "h")
    assert Captured.from_json(json.loads(json.dumps(some.to_json()))) == some
    for name in ("h", "nothing"):
        with pytest.raises(UnsupportedType, match=name):
            capture_some(table, [name])


def test_names_that_differ_only_in_case_are_not_captured(database: Database) -> None:
    database.run('CREATE TABLE t (a int, "A" int, b int)')
    table = database.table("public.t")
    assert capture_all(table).names == ("b",)
    assert set(refused(table)) == {"a", "A"}


CHANGES = [
    ("ALTER TABLE t ADD COLUMN d int", None),
    ("ALTER TABLE t ADD COLUMN d timestamptz DEFAULT clock_timestamp()", None),
    ("ALTER TABLE t DROP COLUMN unused", None),
    ("ALTER TABLE t RENAME TO u", None),
    ("ALTER TABLE t ALTER COLUMN b TYPE varchar(9)", None),
    ("ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'", None),
    ("ALTER TABLE t ALTER COLUMN b SET NOT NULL", None),
    ("ALTER TYPE mood ADD VALUE 'fine'", None),
    ("VACUUM FULL t", None),
    ("TRUNCATE t", None),
    ("ALTER TABLE t REPLICA IDENTITY FULL", None),
    ("ALTER TABLE t RENAME COLUMN b TO c", Reason.SCHEMA_CHANGED),
    ("ALTER TABLE t DROP COLUMN b", Reason.SCHEMA_CHANGED),
    ("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN b varchar(5)", Reason.SCHEMA_CHANGED),
    ("ALTER TABLE t ALTER COLUMN a TYPE bigint", Reason.SCHEMA_CHANGED),
    ("ALTER TABLE t ALTER COLUMN n TYPE numeric(12,2)", Reason.SCHEMA_CHANGED),
    ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", Reason.SCHEMA_CHANGED),
    ("ALTER TABLE t ALTER COLUMN b TYPE varchar(5) USING upper(b)", Reason.TABLE_REWRITTEN),
    (
        "CREATE TABLE whole (LIKE t) PARTITION BY LIST (a); ALTER TABLE whole ATTACH PARTITION t DEFAULT",
        Reason.PARTITIONS_CHANGED,
    ),
    ("DROP TABLE t", Reason.TABLE_DROPPED),
    ("DROP TABLE t; CREATE TABLE t (a int, n numeric(10,2), b varchar(5), unused int, m mood)", Reason.TABLE_DROPPED),
]


def test_ddl_is_noticed_when_it_matters_to_what_is_captured(database: Database) -> None:
    for number, (ddl, reason) in enumerate(CHANGES):
        database.run(f"""
            CREATE SCHEMA s{number}; SET search_path TO s{number};
            CREATE TYPE mood AS ENUM ('sad', 'happy');
            CREATE TABLE t (a int, n numeric(10,2), b varchar(5), unused int, m mood);
            INSERT INTO t VALUES (1, 1, 'x', 2, 'sad');
        """)
        captured = capture_some(database.table(f"s{number}.t"), ["a", "n", "b", "m"])
        for statement in ddl.split("; "):
            database.run(statement)
        now = database.now(captured.table)
        difference = compare(captured, now)
        assert difference.reason == reason, ddl
        assert bool(difference.detail) == (reason is not None), ddl
        if now is not None and {c.name for c in now.columns} >= set(captured.names) and reason is not None:
            assert fingerprint(capture_some(now, captured.names)) != fingerprint(captured), ddl


def test_partitions_that_come_and_go_are_named(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int) PARTITION BY LIST (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)
    """)
    captured = database.captured("public.p")
    database.run("CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3); ALTER TABLE p DETACH PARTITION p1")
    difference = compare(captured, database.now(captured.table))
    assert difference.added_partitions == ("public.p3",)
    assert difference.removed_partitions == ("public.p1",)
    assert difference.reason is Reason.PARTITIONS_CHANGED


def test_every_value_arrives_as_it_is_and_leads_back_to_itself(database: Database) -> None:
    database.run(f"{SETUP}; {wide_table('wide')}")
    for statement, texts in wide_rows("wide"):
        database.application.execute(statement.encode(), texts)
    table = database.captured("public.wide")
    assert [table.lake_type(column).spark for column in table.columns] == ["INT", *(case.spark for case in CASES)]
    with database.reading() as cursor:
        rows = [row for batch in copy_table(cursor, table) for row in batch.to_pylist()]
    for i, case in enumerate(CASES):
        found = [canonical(row[f"c{i}"]) for row in rows]
        assert found == [canonical(value(case, n)) for n in range(ROUNDS)], case.written
        for row, (literal, _) in zip(rows, case.values, strict=False):
            same = f"SELECT record_image_eq(ROW(%s::text::{case.written}), ROW(%s::text::{case.written}))"
            texts = [_literal(row[f"c{i}"], case.written), literal]
            assert database.application.execute(same.encode(), texts).fetchone() == (True,), (case.written, literal)


def _literal(held: Any, written: str) -> str:
    """A value of the lake in PostgreSQL's words."""
    if isinstance(held, list):
        delimiter = ";" if written == "box[]" else ","
        parts = ["NULL" if v is None else json.dumps(_literal(v, ""), ensure_ascii=False) for v in held]
        return "{" + delimiter.join(parts) + "}"
    if isinstance(held, bytes):
        return "\\x" + held.hex()
    # the number of zeros at its end is no part of a DECIMAL's value
    return f"{held:f}".rstrip("0") if written == "numeric" else str(held)


def test_a_value_that_does_not_fit_is_refused_and_can_be_taken_as_text(database: Database) -> None:
    for number, (written, literal) in enumerate(REFUSED_VALUES):
        database.run(f"CREATE TABLE t{number} (v {written}); INSERT INTO t{number} VALUES (NULL), ('{literal}')")
        with pytest.raises(ValueNotRepresentable, match=rf"public\.t{number}\.v") as refused_value:
            database.rows(database.captured(f"public.t{number}"))
        shown = database.one(f"SELECT v::text FROM t{number} WHERE v IS NOT NULL")
        assert shown in str(refused_value.value.detail)
        assert (canonical(shown),) in database.rows(database.captured(f"public.t{number}", as_text=["v"]))


def test_a_type_that_has_no_counterpart_is_refused_with_a_rewrite(database: Database) -> None:
    database.run(SETUP)
    for number, written in enumerate(REFUSED_TYPES):
        database.run(f"CREATE TABLE r{number} (v {written}, a int)")
        table = database.table(f"public.r{number}")
        assert capture_all(table).names == ("a",)
        assert refused(table)["v"].rewrite
    for number, (written, literal) in enumerate(AS_TEXT):
        database.run(f"CREATE TABLE s{number} (v {written}); INSERT INTO s{number} VALUES ('{literal}')")
        assert list(database.rows(database.captured(f"public.s{number}", as_text=["v"]))) == [(canonical(literal),)]


def test_a_virtual_column_is_refused(database: Database) -> None:
    if database.found().major < 18:
        database.run("CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a + 1) STORED)")
        assert refused(database.table("public.t")) == {}
        return
    database.run("CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a + 1) VIRTUAL)")
    assert set(refused(database.table("public.t"))) == {"b"}


def test_rows_come_in_pieces_whose_size_does_not_depend_on_the_table(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a int, b text); INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 500) i"
    )
    database.run("INSERT INTO t VALUES (0, repeat('y', 300000))")
    table = database.captured("public.t")
    with database.reading() as cursor:
        pieces = list(copy_table(cursor, table, piece_bytes=10_000))
    assert sum(piece.num_rows for piece in pieces) == 501
    assert len(pieces) > 40
    assert max(piece.num_rows for piece in pieces) <= 11


def test_a_copy_that_is_not_read_to_its_end_leaves_nothing_behind(database: Database) -> None:
    database.run("CREATE TABLE t (b text); INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
    table = database.captured("public.t")
    with suppress(KeyboardInterrupt), database.reading() as cursor:
        next(copy_table(cursor, table, piece_bytes=1000))
        raise KeyboardInterrupt
    running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'freshlake' AND state <> 'idle'"
    assert database.one(running) == 0
