"""Trigger capture against real servers: every committed change once, under load and through everything users do."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest

from freshlake.errors import (
    CaptureBusy,
    CaptureUnsupported,
    InvalidArgument,
    PrivilegeMissing,
    SourceReplaced,
    SourceSchemaChanged,
)
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.describe import describe
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured, capture_all, capture_some, widened
from freshlake.sources.postgres.trigger.buffers import compact, lengths, sizes
from freshlake.sources.postgres.trigger.capture import TriggerCapture
from freshlake.sources.postgres.trigger.install import install, keep_installed, uninstall
from tests.bags import canonical
from tests.integration.capture_database import Database, new_database
from tests.integration.capture_mirror import NAMES, TABLES, Load, Mirror, at_the_same_time, reasons, summed
from tests.integration.postgres_types import CASES, ROUNDS, SETUP, value, wide_rows, wide_table

PROJECT = Names("p1")


def captured(database: Database, *names: str, project: Names = PROJECT) -> tuple[TriggerCapture, list[Captured]]:
    """Capture of whole tables."""
    tables = [database.captured(name) for name in names]
    return TriggerCapture(Pool(database.reference), project), set_up(database, tables, project)


def set_up(database: Database, tables: list[Captured], project: Names = PROJECT) -> list[Captured]:
    with connect(database.reference) as connection:
        return [made.captured for made in install(connection, project, tables)]


def buffered(database: Database, table: Captured, project: Names = PROJECT) -> str:
    """The actions in a buffer, in order."""
    return database.one(
        f"SELECT coalesce(string_agg(action::text, '' ORDER BY seq), '') FROM {project.buffer(table.oid)}"
    )


def follow(database: Database, script: str, *names: str) -> Mirror:
    """What a script did to tables, followed in one batch and compared."""
    capture, tables = captured(database, *names)
    mirror = Mirror.begin(database, capture, tables)
    database.run(script)
    mirror.check(capture)
    return mirror


def test_inserts_updates_and_deletes_arrive_with_old_and_new_rows(database: Database) -> None:
    database.run("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    capture, (table,) = captured(database, "public.t")
    assert capture.mode is Mode.TRIGGER
    start = capture.head()
    database.run("INSERT INTO t VALUES (3, ''); UPDATE t SET b = 'y' WHERE a = 1; DELETE FROM t WHERE a = 2")
    emptied, change = summed(capture.read(start, capture.head(), [table]))[table.oid]
    assert not emptied
    row = lambda *values: tuple(map(canonical, values))  # noqa: E731
    assert change == {row(3, ""): 1, row(1, "x"): -2, row(1, "y"): 2, row(2, None): -1}
    assert buffered(database, table) == "IUUD"


def test_a_batch_can_be_read_again_until_it_is_confirmed(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run("INSERT INTO t VALUES (1)")
    end = capture.head()
    database.run("INSERT INTO t VALUES (2); UPDATE t SET a = 3")
    first = summed(capture.read(start, end, [table]))
    assert summed(capture.read(start, end, [table])) == first == {table.oid: (False, {(canonical(1),): 1})}
    capture.confirm(end)
    assert buffered(database, table) == "IUU"
    assert summed(capture.read(end, capture.head(), [table]))[table.oid][1] == {(canonical(1),): -1, (canonical(3),): 2}


def test_what_was_landed_but_not_confirmed_is_not_landed_twice(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, tables = captured(database, "public.t")
    mirror = Mirror.begin(database, capture, tables)
    for number in range(3):
        database.run(f"INSERT INTO t VALUES ({number})")
        mirror.land(capture.read(mirror.position, end := capture.head(), tables), end)
    assert mirror.count(tables[0]) == 3
    assert buffered(database, tables[0]) == "III"
    mirror.check(capture)


def test_a_transaction_that_numbers_first_and_commits_last_is_not_skipped(database: Database) -> None:
    database.run("CREATE TABLE t (id int)")
    capture, tables = captured(database, "public.t")
    mirror = Mirror.begin(database, capture, tables)
    with database.connect() as early:
        early.execute("BEGIN; INSERT INTO t VALUES (1)")
        database.run("INSERT INTO t VALUES (2)")
        mirror.check(capture)
        assert mirror.count(tables[0]) == 1
        seen = f"SELECT min(seq) FROM {PROJECT.buffer(tables[0].oid)}"
        early.execute("COMMIT")
        database.run("INSERT INTO t VALUES (3)")
    # the row of the first transaction has a smaller number than one that was consumed before
    assert database.one(seen) == 1
    mirror.check(capture)
    assert mirror.count(tables[0]) == 3


def test_a_prepared_transaction_counts_when_it_is_committed(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, tables = captured(database, "public.t")
    mirror = Mirror.begin(database, capture, tables)
    database.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    database.run("INSERT INTO t VALUES (2)")
    mirror.check(capture)
    assert mirror.count(tables[0]) == 1
    database.run("COMMIT PREPARED 'p'")
    mirror.check(capture)
    assert mirror.count(tables[0]) == 2


def test_two_tables_never_show_a_state_that_nobody_committed(database: Database) -> None:
    database.run("CREATE TABLE debit (n int); CREATE TABLE credit (n int)")
    capture, tables = captured(database, "public.debit", "public.credit")
    mirror = Mirror.begin(database, capture, tables)
    with database.connect() as one, database.connect() as two:
        one.execute("BEGIN; INSERT INTO debit VALUES (1)")
        two.execute("BEGIN; INSERT INTO credit VALUES (2)")
        two.execute("INSERT INTO debit VALUES (2); COMMIT")
        mirror.follow(capture)
        assert [mirror.count(t) for t in tables] == [1, 1]
        one.execute("INSERT INTO credit VALUES (1)")
        mirror.follow(capture)
        assert [mirror.count(t) for t in tables] == [1, 1]
        one.execute("COMMIT")
    mirror.check(capture)
    assert [mirror.count(t) for t in tables] == [2, 2]


def test_what_is_rolled_back_leaves_nothing(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    _, (table,) = captured(database, "public.t")
    database.run("BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
    database.run("BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3); ROLLBACK TO s; COMMIT")
    assert buffered(database, table) == "I"


def test_a_truncation_is_followed_exactly_with_what_came_after_it(database: Database) -> None:
    mirror = follow(
        database,
        """
        CREATE TABLE u (LIKE t); INSERT INTO t VALUES (2); TRUNCATE t; INSERT INTO t VALUES (3), (3);
        BEGIN; DELETE FROM t; INSERT INTO t VALUES (4); TRUNCATE t; INSERT INTO t VALUES (5); UPDATE t SET a = 6; COMMIT
        """,
        *_table(database, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"),
    )
    assert mirror.contents[mirror.tables[0].oid] == {(canonical(6),): 1}


def _table(database: Database, script: str) -> tuple[str, ...]:
    database.run(script)
    return ("public.t",)


WAYS = {
    "copy": "COPY t FROM PROGRAM 'printf \"9\\\\tnine\\\\n\"'",
    "upsert": "INSERT INTO t VALUES (1, 'c'), (7, 'd') ON CONFLICT (a) DO UPDATE SET b = excluded.b",
    "merge": """
        MERGE INTO t USING (VALUES (1), (2), (8)) s (k) ON t.a = s.k WHEN MATCHED AND k = 1 THEN DELETE
        WHEN MATCHED THEN UPDATE SET b = 'm' WHEN NOT MATCHED THEN INSERT VALUES (k, 'n')
    """,
    "with": "WITH gone AS (DELETE FROM t RETURNING a) INSERT INTO t SELECT a + 10, 'moved' FROM gone",
    "keys": "UPDATE t SET a = a + 100",
    "replica": "SET session_replication_role = replica; INSERT INTO t VALUES (9, 'r'); RESET session_replication_role",
    "cascade": "DELETE FROM parent WHERE id = 1",
    "cascaded update": "UPDATE parent SET id = id + 50",
    "triggers of users": "INSERT INTO loud VALUES (1); INSERT INTO loud VALUES (2000)",
    "nothing": "UPDATE t SET b = b; DELETE FROM t WHERE false",
    "prepared": "PREPARE i AS INSERT INTO t VALUES ($1, 'p'); EXECUTE i(20); EXECUTE i(21); DEALLOCATE i",
    "renamed": "ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (3, 'x'); ALTER TABLE t2 RENAME TO t",
    "added column": "ALTER TABLE t ADD COLUMN late int DEFAULT 7; INSERT INTO t VALUES (4, 'x', 8)",
}


def test_every_way_to_write_is_captured(database: Database) -> None:
    database.run("""
        CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1), (2), (3);
        CREATE TABLE t (a int PRIMARY KEY, b text);
        CREATE TABLE child (p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, n int,
                            twice int GENERATED ALWAYS AS (p * 2) STORED);
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, repeat('long', 5000));
        INSERT INTO child SELECT i % 3 + 1, i FROM generate_series(1, 9) i;
        CREATE TABLE loud (n int);
        CREATE FUNCTION louder() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO t VALUES (NEW.n + 30, 'l'); UPDATE t SET b = b || '!' WHERE a < NEW.n; RETURN NEW; END $$;
        CREATE TRIGGER louder AFTER INSERT ON loud FOR EACH ROW EXECUTE FUNCTION louder();
    """)
    capture, tables = captured(database, *(f"public.{name}" for name in ("t", "parent", "child", "loud")))
    mirror = Mirror.begin(database, capture, tables)
    for way, script in WAYS.items():
        for statement in script.split("; "):
            database.run(statement)
        before = {oid: rows.copy() for oid, rows in mirror.contents.items()}
        mirror.check(capture)
        assert (mirror.contents != before) == (way != "nothing"), way


def test_an_update_that_changes_nothing_captured_is_not_even_written_down(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b')"
    )
    (table,) = set_up(database, [capture_some(database.table("public.t"), ["a"])])
    database.run("UPDATE t SET b = 'c'; UPDATE t SET a = a; UPDATE t SET a = 'x' WHERE id = 1")
    assert buffered(database, table) == "U"


def test_the_mask_names_the_columns_that_differ(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, j json, n numeric, f float8); INSERT INTO t VALUES (1, '{}', 1.0, 0)"
    )
    _, (table,) = captured(database, "public.t")
    database.run("UPDATE t SET j = '{ }'; UPDATE t SET n = 1.00; UPDATE t SET f = '-0', id = 2; DELETE FROM t")
    masks = f"SELECT array_agg(changed::text ORDER BY seq) FROM {PROJECT.buffer(table.oid)}"
    assert database.one(masks) == ["{2}", "{3}", "{1,4}", None]


def test_only_chosen_columns_are_kept_and_others_join_when_needed(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int, c int); INSERT INTO t VALUES (1, 1, 1, 1)")
    capture = TriggerCapture(Pool(database.reference), PROJECT)
    (narrow,) = set_up(database, [capture_some(database.table("public.t"), ["b"])])
    assert narrow.names == ("id", "b")
    columns = f"""
        SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute
        WHERE attrelid = '{PROJECT.buffer(narrow.oid)}'::regclass AND attname ~ '^[no]_'
    """
    assert database.one(columns) == ["n_1", "n_3", "o_1", "o_3"]
    before = Mirror.begin(database, capture, [narrow])
    database.run("UPDATE t SET b = 2, c = 2")
    (wide,) = set_up(database, [widened(narrow, ["c"])])
    assert database.one(columns) == ["n_1", "n_3", "n_4", "o_1", "o_3", "o_4"]
    after = Mirror.begin(database, capture, [wide])
    database.run("UPDATE t SET c = 3; UPDATE t SET b = 4")
    after.land(capture.read(after.position, end := capture.head(), [wide]), end)
    assert after.contents[wide.oid] == database.rows(wide)
    before.check(capture)


def test_installing_again_keeps_what_waits_in_the_buffer(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, tables = captured(database, "public.t")
    mirror = Mirror.begin(database, capture, tables)
    database.run("INSERT INTO t VALUES (1)")
    with connect(database.reference) as connection:
        (again,) = install(connection, PROJECT, tables)
    assert not again.lost
    database.run("INSERT INTO t VALUES (2)")
    mirror.check(capture)
    assert mirror.count(tables[0]) == 2


def test_projects_capture_one_table_side_by_side_and_leave_nothing_behind(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    other = Names("p2")
    mine, tables = captured(database, "public.t")
    theirs, _ = captured(database, "public.t", project=other)
    ours = [Mirror.begin(database, capture, tables) for capture in (mine, theirs)]
    database.run("INSERT INTO t VALUES (1)")
    for mirror, capture in zip(ours, (mine, theirs), strict=True):
        mirror.check(capture)
    left = """
        SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'freshlake%') + (SELECT count(*) FROM pg_proc WHERE
        proname ~ '^(cdc|same)_') + (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'freshlake%')
    """
    with connect(database.reference) as connection:
        uninstall(connection, PROJECT)
        database.run("INSERT INTO t VALUES (2)")
        ours[1].check(theirs)
        for _ in range(2):
            uninstall(connection, other)
    assert database.one(left) == 0
    database.run("INSERT INTO t VALUES (3)")


def test_one_table_can_be_released_while_others_stay(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    capture, (t, u) = captured(database, "public.t", "public.u")
    mirror = Mirror.begin(database, capture, [u])
    with connect(database.reference) as connection:
        uninstall(connection, PROJECT, [t.oid])
    database.run("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    mirror.check(capture)
    assert database.one("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'freshlake%'") == 4


def test_a_dropped_table_leaves_a_buffer_that_can_be_removed(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run("INSERT INTO t VALUES (1); DROP TABLE t")
    assert reasons(capture.read(start, capture.head(), [table])) == {table.oid: "table-dropped"}
    with connect(database.reference) as connection:
        uninstall(connection, PROJECT)
    assert database.one("SELECT to_regnamespace('freshlake_changes')") is None


CHANGES = {
    "ALTER TABLE t RENAME COLUMN b TO c": "schema-changed",
    "ALTER TABLE t DROP COLUMN b": "schema-changed",
    "ALTER TABLE t ALTER COLUMN a TYPE bigint": "schema-changed",
    "ALTER TABLE t ALTER COLUMN m TYPE text; DROP TYPE mood": "schema-changed",
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'": "schema-changed",
    "ALTER TABLE t ALTER COLUMN b TYPE text USING upper(b)": "table-rewritten",
    "ALTER TABLE t DISABLE TRIGGER ALL": "capture-missing",
    "ALTER TABLE t ENABLE TRIGGER freshlake_cdc_p1_{oid}_upd": "capture-missing",
    "DROP TRIGGER freshlake_cdc_p1_{oid}_ins ON t": "capture-missing",
    "CREATE OR REPLACE TRIGGER freshlake_cdc_p1_{oid}_ins AFTER INSERT ON t FOR EACH STATEMENT "
    "EXECUTE FUNCTION freshlake_changes.cdc_p1_{oid}_trunc()": "capture-missing",
    "DROP SCHEMA freshlake_changes CASCADE": "capture-missing",
}


def test_writers_go_on_after_ddl_and_capture_notices(database: Database) -> None:
    for number, (ddl, reason) in enumerate(CHANGES.items()):
        database.run(f"""
            CREATE SCHEMA s{number}; SET search_path TO s{number}; CREATE TYPE mood AS ENUM ('sad', 'happy');
            CREATE TABLE t (a int, b text, m mood); INSERT INTO t (a) VALUES (0);
        """)
        capture, (table,) = captured(database, f"s{number}.t")
        start = capture.head()
        database.run("INSERT INTO t VALUES (1, 'x', 'sad')")
        for statement in ddl.format(oid=table.oid).split("; "):
            database.run(statement)
        database.run("INSERT INTO t (a) VALUES (5000000)")
        database.run("UPDATE t SET a = a + 1; DELETE FROM t WHERE a = 1")
        assert reasons(capture.read(start, capture.head(), [table])) == {table.oid: reason}, ddl


def test_a_writer_is_not_stopped_by_a_buffer_that_is_gone(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run(f"DROP TABLE {PROJECT.buffer(table.oid)}")
    database.run("INSERT INTO t VALUES (1)")
    assert reasons(capture.read(start, capture.head(), [table])) == {table.oid: "capture-missing"}


def test_after_ddl_capture_is_made_anew_and_goes_on(database: Database) -> None:
    database.run("CREATE TABLE t (a int, b text)")
    capture, _ = captured(database, "public.t")
    database.run(
        "INSERT INTO t VALUES (1, 'x'); ALTER TABLE t ALTER COLUMN a TYPE bigint; ALTER TABLE t RENAME COLUMN b TO c"
    )
    with connect(database.reference) as connection:
        (made,) = install(connection, PROJECT, [database.captured("public.t")])
    assert made.lost
    mirror = Mirror.begin(database, capture, [made.captured])
    database.run("UPDATE t SET a = 10000000000, c = 'y'")
    mirror.check(capture)


FOLLOWED = (*(ddl for ddl in CHANGES if not ddl.startswith("DROP SCHEMA")), "ALTER TYPE mood SET SCHEMA public")


def test_after_each_ddl_capture_is_brought_up_to_date_once(database: Database) -> None:
    for number, ddl in enumerate(FOLLOWED):
        database.run(f"""
            DROP TYPE IF EXISTS public.mood CASCADE; CREATE SCHEMA s{number}; SET search_path TO s{number};
            CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE t (a int, b text, m mood);
        """)
        capture, (table,) = captured(database, f"s{number}.t")
        for statement in ddl.format(oid=table.oid).split("; "):
            database.run(statement)
        tables = [database.captured(f"s{number}.t")]
        made = [as_it_is(database, tables) for _ in range(2)]
        assert made[0] == made[1] != "", ddl
        mirror = Mirror.begin(database, capture, tables)
        database.run("INSERT INTO t (a) VALUES (1), (2); UPDATE t SET a = 3 WHERE a = 1; DELETE FROM t WHERE a = 2")
        mirror.check(capture)
        assert mirror.count(tables[0]) == 1, ddl


def test_a_table_that_becomes_a_partition_is_captured_by_row_from_then_on(database: Database) -> None:
    database.run("CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE t (k int)")
    capture, _ = captured(database, "public.t")
    database.run("ALTER TABLE p ATTACH PARTITION t FOR VALUES IN (1)")
    tables = [database.captured("public.t")]
    as_it_is(database, tables)
    mirror = Mirror.begin(database, capture, tables)
    database.run("INSERT INTO p VALUES (1)")
    mirror.check(capture)
    assert mirror.count(tables[0]) == 1


def as_it_is(database: Database, tables: list[Captured]) -> str:
    """Capture tables as they are now; which rows of the catalog stand for the functions after that."""
    with connect(database.reference) as connection:
        keep_installed(connection, PROJECT, tables)
    made = "SELECT string_agg(p.xmin::text, ',' ORDER BY p.oid) FROM pg_proc p WHERE p.proname ~ '^cdc_'"
    return str(database.one(made))


def test_partitions_present_and_future_are_captured_through_the_parent_and_directly(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int, v text, d int) PARTITION BY LIST (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 (d int, extra int, v text, k int); ALTER TABLE p2 DROP COLUMN extra;
        ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
        INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2);
    """)
    mirror = follow(
        database,
        """
        INSERT INTO p VALUES (1, 'c', 3), (2, 'd', 4); INSERT INTO p1 VALUES (1, 'e', 5);
        INSERT INTO p2 (k, v) VALUES (2, 'f');
        UPDATE p SET k = 3 - k WHERE v IN ('a', 'b'); UPDATE p2 SET v = v || '!'; DELETE FROM p WHERE v = 'c';
        """,
        "public.p",
    )
    database.run("CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3); INSERT INTO p3 VALUES (3, 'g', 6)")
    capture = TriggerCapture(Pool(database.reference), PROJECT)
    (table,) = mirror.tables
    assert reasons(capture.read(mirror.position, capture.head(), [table])) == {table.oid: "partitions-changed"}
    assert buffered(database, table) == "I"


def test_a_partition_that_is_captured_by_itself_hears_what_its_parent_is_told(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE q (k int); CREATE TABLE q1 () INHERITS (q);
    """)
    script = "INSERT INTO p VALUES (1), (1); INSERT INTO q1 VALUES (1); UPDATE q SET k = 2; DELETE FROM p"
    follow(database, f"{script}; INSERT INTO p VALUES (1)", "public.p1", "public.q1")


@pytest.mark.parametrize("names", [("public.p", "public.p1"), ("public.p1", "public.p")])
def test_a_table_and_one_of_its_partitions_are_both_captured(database: Database, names: tuple[str, ...]) -> None:
    database.run("""
        CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); INSERT INTO p VALUES (1), (2);
    """)
    for name in names:
        capture, _ = captured(database, name)
    tables = [database.captured(name) for name in names]
    mirror = Mirror.begin(database, capture, tables)
    database.run("INSERT INTO p1 VALUES (1); INSERT INTO p VALUES (1), (2); TRUNCATE p; INSERT INTO p VALUES (1), (1)")
    mirror.check(capture)
    parent, part = (database.table(name).oid for name in ("public.p", "public.p1"))
    with connect(database.reference) as connection:
        uninstall(connection, PROJECT, [parent])
    left = [table for table in tables if table.oid == part]
    mirror = Mirror.begin(database, capture, left)
    database.run("INSERT INTO p VALUES (1)")
    mirror.check(capture)
    assert mirror.count(left[0]) == 3


def test_a_partition_that_went_its_own_way_is_not_captured_with_its_parent_any_more(database: Database) -> None:
    database.run("CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    database.run("CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)")
    capture, _ = captured(database, "public.p")
    database.run("ALTER TABLE p DETACH PARTITION p1")
    tables = [database.captured("public.p")]
    as_it_is(database, tables)
    mirror = Mirror.begin(database, capture, tables)
    database.run("TRUNCATE p1; INSERT INTO p1 VALUES (1); INSERT INTO p VALUES (2)")
    mirror.check(capture)
    assert database.one("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'p1'::regclass") == 0


def test_who_reads_a_former_partition_keeps_nobody_waiting(database: Database) -> None:
    database.run("CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    database.run("CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)")
    capture, _ = captured(database, "public.p")
    database.run("ALTER TABLE p DETACH PARTITION p1; ALTER TABLE p ADD COLUMN v text")
    with database.connect() as reader:
        reader.execute("BEGIN; SELECT FROM p1")
        tables = set_up(database, [database.captured("public.p")])
    mirror = Mirror.begin(database, capture, tables)
    database.run("TRUNCATE p1; INSERT INTO p VALUES (2, 'a')")
    mirror.check(capture)
    assert mirror.count(tables[0]) == 1


def test_a_former_partition_of_somebody_else_is_left_alone(database: Database) -> None:
    database.run(f"""
        CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE {database.name} TO app; CREATE ROLE other;
        CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        ALTER TABLE p OWNER TO app; ALTER TABLE p1 OWNER TO app;
    """)
    try:
        with psycopg.connect(database.server.url(database.name, user="app"), autocommit=True) as connection:
            install(connection, PROJECT, [database.captured("public.p")])
            database.run("ALTER TABLE p DETACH PARTITION p1; ALTER TABLE p1 OWNER TO other")
            for _ in range(2):
                keep_installed(connection, PROJECT, [database.captured("public.p")])
        capture, tables = TriggerCapture(Pool(database.reference), PROJECT), [database.captured("public.p")]
        start = capture.head()
        database.run("TRUNCATE p1")
        assert list(capture.read(start, capture.head(), tables)) == []
    finally:
        database.run("DROP OWNED BY app, other CASCADE; DROP ROLE app, other")


def test_what_goes_from_a_captured_table_itself_is_waited_for_with_nothing_in_hand(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    database.run(f"ALTER TRIGGER {PROJECT.trigger(table.oid, 'ins')} ON t RENAME TO mine")
    with database.connect() as reader, connect(database.reference) as connection:
        reader.execute("BEGIN; SELECT FROM t")
        with pytest.raises(CaptureBusy, match="others kept the locks"):
            install(connection, PROJECT, [table], lock_seconds=0.05)
        reader.execute("COMMIT")
        install(connection, PROJECT, [table], lock_seconds=0.05)
    mirror = Mirror.begin(database, capture, [table])
    database.run("INSERT INTO t VALUES (1)")
    mirror.check(capture)
    assert mirror.count(table) == 1


def test_a_truncated_partition_is_told_from_a_truncated_table(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); INSERT INTO p VALUES (1), (2), (2);
    """)
    mirror = follow(database, "INSERT INTO p VALUES (1); TRUNCATE p; INSERT INTO p VALUES (2)", "public.p")
    capture, (table,) = TriggerCapture(Pool(database.reference), PROJECT), mirror.tables
    database.run("TRUNCATE p; TRUNCATE p1; INSERT INTO p VALUES (1), (2)")
    mirror.check(capture)
    for script in ("TRUNCATE p2", "TRUNCATE p; INSERT INTO p VALUES (1), (2); TRUNCATE p1"):
        database.run(script)
        assert reasons(capture.read(mirror.position, capture.head(), [table])) == {table.oid: "partition-truncated"}


def test_rows_that_a_subscription_applies_are_captured(database: Database) -> None:
    with new_database(database.server) as publisher:
        publisher.run("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION feed FOR TABLE t")
        publisher.run(f"SELECT pg_create_logical_replication_slot('{publisher.name}', 'pgoutput')")
        database.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
        database.run(f"""
            CREATE SUBSCRIPTION feed CONNECTION '{database.server.url(publisher.name)}' PUBLICATION feed
            WITH (create_slot = false, slot_name = '{publisher.name}', copy_data = false)
        """)
        try:
            capture, tables = captured(database, "public.t")
            assert tables[0].table.is_subscribed
            mirror = Mirror.begin(database, capture, tables)
            publisher.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); UPDATE t SET b = 'x' WHERE a = 1")
            publisher.run("DELETE FROM t WHERE a = 2")
            while (
                database.one("SELECT count(*) - (SELECT count(*) FROM t WHERE a = 2) FROM t WHERE b IN ('x', 'c')") < 2
            ):
                pass
            mirror.check(capture)
            assert mirror.count(tables[0]) == 2
        finally:
            database.run("DROP SUBSCRIPTION feed")


def test_every_type_passes_through_a_buffer(database: Database) -> None:
    database.run(f"{SETUP}; {wide_table('wide')}")
    capture, (table,) = captured(database, "public.wide")
    mirror = Mirror.begin(database, capture, [table])
    # what the writer's session prefers must not matter
    database.run("SET datestyle = 'SQL, DMY'; SET extra_float_digits = -5; SET intervalstyle = sql_standard")
    database.run("SET timezone = 'Asia/Kathmandu'; SET bytea_output = escape")
    for statement, texts in wide_rows("wide"):
        database.application.execute(statement.encode(), texts)
    mirror.check(capture)
    expected = {tuple(map(canonical, (n, *(value(case, n) for case in CASES)))): 1 for n in range(ROUNDS)}
    assert mirror.contents[table.oid] == expected
    database.run("UPDATE wide SET n = n + 100; DELETE FROM wide WHERE n % 2 = 0")
    mirror.check(capture)
    # no object of ours keeps a user from dropping a type
    database.run("DROP TABLE wide; DROP TYPE mood; DROP DOMAIN label; DROP EXTENSION citext")


def test_a_value_that_does_not_fit_concerns_its_table_alone(database: Database) -> None:
    database.run("CREATE TABLE t (a numeric); CREATE TABLE u (a int)")
    capture, tables = captured(database, "public.t", "public.u")
    small = TriggerCapture(Pool(database.reference), PROJECT, piece_bytes=1)
    start = capture.head()
    database.run("INSERT INTO t VALUES ('NaN'); INSERT INTO t SELECT i FROM generate_series(1, 1000) i")
    database.run("UPDATE t SET a = 0 WHERE a = 'NaN'; INSERT INTO u VALUES (7)")
    end, (t, u) = capture.head(), tables
    for each in (capture, small):
        events = list(each.read(start, end, tables))
        assert reasons(events) == {t.oid: "value-not-representable"}
        assert summed(e for e in events if e.table == u)[u.oid] == (False, {(canonical(7),): 1})
    mirror = Mirror.begin(database, capture, tables)
    database.run("INSERT INTO t VALUES (5)")
    mirror.check(capture)


def test_buffers_shrink_by_what_was_confirmed_and_by_nothing_else(database: Database) -> None:
    database.run("CREATE TABLE t (a int, b text)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    with database.connect() as late:
        late.execute("BEGIN; INSERT INTO t VALUES (0, 'late')")
        database.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 4000) i")
        end = capture.head()
        capture.confirm(start)
        assert len(buffered(database, table)) == 4000
        capture.confirm(end)
        assert buffered(database, table) == ""
        late.execute("COMMIT")
    assert buffered(database, table) == "I"
    with connect(database.reference) as connection:
        (size,) = sizes(connection, PROJECT)
        assert (size.oid, size.rows) == (table.oid, 1)
        assert size.bytes > 1_000_000
        before = database.one(f"SELECT pg_relation_filenode('{PROJECT.buffer(table.oid)}')")
        capture.confirm(capture.head())
        assert sizes(connection, PROJECT)[0].bytes < 50_000
    assert database.one(f"SELECT pg_relation_filenode('{PROJECT.buffer(table.oid)}')") != before


def test_compaction_leaves_the_net_change_within_every_bound(database: Database) -> None:
    database.run("CREATE TABLE t (id int, a text, j json); INSERT INTO t VALUES (1, 'a', '{}'), (2, NULL, NULL)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run("""
        INSERT INTO t VALUES (3, 'x', '{}'); DELETE FROM t WHERE id = 3; UPDATE t SET a = 'b' WHERE id = 1;
        INSERT INTO t VALUES (4, '', '[1]'), (4, '', '[1]');
    """)
    middle = capture.head()
    database.run("UPDATE t SET a = 'c' WHERE id = 1; UPDATE t SET a = 'd' WHERE id = 1; DELETE FROM t WHERE id = 4")
    database.run("UPDATE t SET a = '' WHERE id = 2")
    end = capture.head()
    bounds = [(start, middle), (middle, end), (start, end)]
    before = [summed(capture.read(*bound, [table])) for bound in bounds]
    with connect(database.reference) as connection:
        saved = compact(connection, PROJECT, table.oid, [start, middle], upto=end)
        assert saved > 0
        assert [summed(capture.read(*bound, [table])) for bound in bounds] == before
        assert compact(connection, PROJECT, table.oid, [start, middle], upto=end) == 0
        compact(connection, PROJECT, table.oid, [start], upto=end)
    assert summed(capture.read(start, end, [table])) == before[2]
    # the rows 1 and 2 were updated, and nothing else is left
    assert buffered(database, table) == "UU"


def test_a_truncation_that_commits_after_a_compaction_still_comes_after_what_was_before_it(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, tables = captured(database, "public.t")
    mirror = Mirror.begin(database, capture, tables)
    database.run("INSERT INTO t VALUES (1), (2)")
    with database.connect() as other, connect(database.reference) as connection:
        other.execute("BEGIN; TRUNCATE t; INSERT INTO t VALUES (3)")
        compact(connection, PROJECT, tables[0].oid, [mirror.position], upto=capture.head())
        other.execute("COMMIT")
    mirror.check(capture)
    assert mirror.contents[tables[0].oid] == {(canonical(3),): 1}


def test_compaction_leaves_alone_what_a_position_that_is_taken_meanwhile_may_divide(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run("INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE a = 2")
    with database.connect() as late, connect(database.reference) as connection:
        late.execute("BEGIN; INSERT INTO t VALUES (3)")
        upto = capture.head()
        late.execute("COMMIT")
        database.run("DELETE FROM t WHERE a = 1")
        middle = capture.head()
        database.run("DELETE FROM t WHERE a = 3")
        places = [start, upto, middle, capture.head()]
        ways = [(one, other) for number, one in enumerate(places) for other in places[number + 1 :]]
        before = [summed(capture.read(*way, [table])) for way in ways]
        assert compact(connection, PROJECT, table.oid, [start], upto=upto) == 2
        assert [summed(capture.read(*way, [table])) for way in ways] == before
    assert buffered(database, table) == "IIDD"


def test_compaction_does_not_touch_what_waits_for_nobody_or_belongs_to_another_history(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, (table,) = captured(database, "public.t")
    start = capture.head()
    database.run("INSERT INTO t VALUES (1); DELETE FROM t")
    read = capture.head()
    database.run("INSERT INTO t VALUES (2); DELETE FROM t")
    end = capture.head()
    elsewhere = SnapshotPosition("other/1/00000001", end.until, end.running)
    with connect(database.reference) as connection:
        assert compact(connection, PROJECT, table.oid, [start], upto=elsewhere) == 0
        assert compact(connection, PROJECT, table.oid, [read], upto=end) == 2
        assert buffered(database, table) == "ID"
        assert compact(connection, PROJECT, table.oid, [start, read], upto=end) == 2
        assert buffered(database, table) == ""
        assert compact(connection, PROJECT, 1, [start], upto=end) == 0, "a buffer that is gone"


def test_buffers_are_counted_where_they_may_be_long(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    _, (table, other) = captured(database, "public.t", "public.u")
    database.run("INSERT INTO t SELECT generate_series(1, 1000)")
    with connect(database.reference) as connection:
        assert lengths(connection, PROJECT, 0) == {table.oid: 1000}
        assert lengths(connection, PROJECT, 999) == {table.oid: 1000}
        assert lengths(connection, PROJECT, 1000) == {}
        database.run("DELETE FROM t; INSERT INTO u VALUES (1)")
        assert lengths(connection, PROJECT, 0) == {table.oid: 2000, other.oid: 1}


def test_installing_waits_for_writers_only_as_long_as_allowed(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    table = database.captured("public.t")
    with database.connect() as writer, connect(database.reference) as connection:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureBusy):
            install(connection, PROJECT, [table], lock_seconds=0.05)
        writer.execute("COMMIT")
        install(connection, PROJECT, [table], lock_seconds=0.05)


def test_two_may_be_the_first_who_install_something(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    tables = [database.captured(name) for name in ("public.t", "public.u")]
    for projects in ((PROJECT, PROJECT), (PROJECT, Names("p2"))):
        at_the_same_time(
            database,
            *(partial(install, names=project, tables=[table]) for project, table in zip(projects, tables, strict=True)),
        )
        with connect(database.reference) as connection:
            for project in {*projects}:
                uninstall(connection, project)
    assert database.one("SELECT to_regnamespace('freshlake_changes')") is None


def test_what_changed_before_its_capture_began_is_refused(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    tables = [database.captured("public.t"), database.captured("public.u")]
    database.run("ALTER TABLE u ALTER COLUMN a TYPE text")
    with connect(database.reference) as connection, pytest.raises(SourceSchemaChanged, match=r"public\.u"):
        install(connection, PROJECT, tables)
    assert database.one("SELECT to_regnamespace('freshlake_changes')") is None


def test_missing_privileges_are_named_with_the_statement_that_grants_them(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE ROLE app LOGIN; GRANT ALL ON t TO app; CREATE ROLE shop")
    try:
        with psycopg.connect(database.server.url(database.name, user="app"), autocommit=True) as connection:
            table = database.captured("public.t")
            for grant, match in (
                ("SELECT", "does not own"),
                (f"GRANT CREATE ON DATABASE {database.name} TO app", "does not own"),
                ("ALTER TABLE t OWNER TO shop; GRANT shop TO app", ""),
            ):
                database.run(grant)
                if match:
                    with pytest.raises(PrivilegeMissing, match=match) as denied:
                        install(connection, PROJECT, [_seen_by(connection, table)])
                    assert "GRANT" in str(denied.value.hint)
            install(connection, PROJECT, [_seen_by(connection, table)])
        # writers need nothing for it
        database.run("CREATE ROLE clerk LOGIN; GRANT INSERT ON t TO clerk")
        with psycopg.connect(database.server.url(database.name, user="clerk"), autocommit=True) as clerk:
            clerk.execute("INSERT INTO t VALUES (1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                clerk.execute(f"DELETE FROM {PROJECT.buffer(table.oid)}".encode())
    finally:
        database.run("DROP OWNED BY app, shop, clerk CASCADE; DROP ROLE app, shop, clerk")


def _seen_by(connection: psycopg.Connection[object], table: Captured) -> Captured:
    with transaction(connection, read_only=True) as cursor:
        return capture_all(describe(cursor, look(cursor), [table.table.full_name])[table.table.full_name])


def test_positions_of_another_history_are_refused(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    capture, tables = captured(database, "public.t")
    here = capture.head()
    elsewhere = SnapshotPosition("other/1/00000001", here.until, here.running)
    for start, end in ((elsewhere, here), (here, elsewhere)):
        with pytest.raises(SourceReplaced):
            list(capture.read(start, end, tables))
    with pytest.raises(SourceReplaced):
        capture.confirm(elsewhere)
    with pytest.raises(InvalidArgument):
        list(capture.read(here, SnapshotPosition(here.origin, here.until - 1), tables))
    with pytest.raises(InvalidArgument):
        list(capture.read(LsnPosition(here.origin, 5), here, tables))
    with pytest.raises(CaptureBusy):
        list(capture.read(here, SnapshotPosition(here.origin, here.until + 10), tables))


def test_a_view_is_not_captured(database: Database) -> None:
    database.run("CREATE TABLE t (a int); CREATE VIEW v AS SELECT a FROM t")
    with connect(database.reference) as connection, pytest.raises(CaptureUnsupported):
        install(connection, PROJECT, [database.captured("public.v")])


def load(database: Database, seed: int, *, writers: int, transactions: int) -> None:
    database.run(TABLES)
    capture, tables = captured(database, *NAMES)
    mirror = Mirror.begin(database, capture, tables)
    work = Load(database, writers=writers, transactions=transactions, seed=seed)
    rounds = 0
    with connect(database.reference) as connection:
        while not work.is_over:
            rounds += 1
            if rounds % 3 == 0:
                compact(connection, PROJECT, tables[rounds % 2].oid, [mirror.position], upto=capture.head())
            mirror.check(capture)
    work.wait()
    mirror.check(capture)
    assert rounds > 1
    assert database.one(f"SELECT count(*) FROM {PROJECT.buffer(tables[0].oid)}") == 0


def test_the_mirror_equals_the_tables_at_every_position_under_load(database: Database) -> None:
    load(database, 1, writers=4, transactions=10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_the_mirror_equals_the_tables_under_long_load(database: Database, seed: int) -> None:
    load(database, seed, writers=8, transactions=40)
