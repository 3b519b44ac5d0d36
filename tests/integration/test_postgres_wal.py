"""Capture from the log against real servers: every committed change once, until it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg
import pytest

from freshlake.errors import (
    CaptureBusy,
    CaptureUnsupported,
    InvalidArgument,
    PrivilegeMissing,
    SourceHistoryLost,
    SourceReplaced,
)
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.describe import describe
from freshlake.sources.postgres.events import Rows
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import Captured, capture_all, capture_some
from freshlake.sources.postgres.wal import slot
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import obstacles, publish, unpublish
from freshlake.sources.postgres.wal.slot import Alert, judge
from tests.bags import canonical
from tests.integration.capture_database import Database
from tests.integration.capture_mirror import NAMES, TABLES, Load, Mirror, at_the_same_time, reasons, summed
from tests.integration.postgres_types import CASES, ROUNDS, SETUP, value, wide_rows, wide_table

PROJECT = Names("p1")


def published(database: Database, tables: Sequence[Captured]) -> list[Captured]:
    with connect(database.reference) as connection:
        return list(publish(connection, PROJECT, tables))


def begin(database: Database, *names: str, columns: Sequence[str] = (), protocol: int = 1) -> tuple[WalCapture, Mirror]:
    """Capture tables, and copy them at the beginning of the slot."""
    tables = published(database, [capture_some(database.table(name), columns) for name in names])
    capture = WalCapture(Pool(database.reference), PROJECT, protocol=protocol)
    with capture.create_slot(tables) as point:
        return capture, Mirror(database, tables, point)


def rows(mirror: Mirror) -> dict[tuple[object, ...], int]:
    return dict(mirror.contents[mirror.tables[0].oid])


def row(*values: object) -> tuple[object, ...]:
    return tuple(map(canonical, values))


@pytest.mark.parametrize("protocol", [1, 2])
def test_inserts_updates_and_deletes_arrive_with_old_and_new_rows(database: Database, protocol: int) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    capture, mirror = begin(database, "public.t", protocol=protocol)
    assert capture.mode is Mode.WAL
    database.run("INSERT INTO t VALUES (3, ''); UPDATE t SET b = 'y' WHERE a = 1; DELETE FROM t WHERE a = 2")
    (change,) = summed(capture.read(mirror.position, capture.head(), mirror.tables)).values()
    assert change == (False, {row(3, ""): 1, row(1, "x"): -1, row(1, "y"): 1, row(2, None): -1})
    mirror.check(capture)


def test_what_was_landed_but_not_confirmed_is_not_landed_twice(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    for number in range(3):
        database.run(f"INSERT INTO t VALUES ({number})")
        end = capture.head()
        assert summed(capture.read(mirror.position, end, mirror.tables)) == summed(
            capture.read(mirror.position, end, mirror.tables)
        )
        mirror.land(capture.read(mirror.position, end, mirror.tables), end)
    assert mirror.count(mirror.tables[0]) == 3
    mirror.check(capture)
    state = capture.slot_state()
    assert state is not None
    assert state.confirmed == mirror.position.text
    capture.confirm(mirror.position)


def test_a_position_that_was_confirmed_cannot_be_read_from_before(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    start = mirror.position
    database.run("INSERT INTO t VALUES (1)")
    mirror.check(capture)
    with pytest.raises(SourceHistoryLost):
        list(capture.read(start, capture.head(), mirror.tables))


def test_a_database_whose_log_ends_before_what_was_read_was_put_back(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    later = LsnPosition(mirror.position.origin, capture.head().lsn + 2**30)
    with pytest.raises(SourceReplaced, match="put back"):
        list(capture.read(later, capture.head(), mirror.tables))


def test_a_transaction_that_began_first_and_commits_last_is_not_skipped(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    with database.connect() as early:
        early.execute("BEGIN; INSERT INTO t VALUES (1)")
        database.run("INSERT INTO t VALUES (2)")
        mirror.follow(capture)
        assert rows(mirror) == {row(2): 1}
        early.execute("COMMIT")
    mirror.check(capture)
    assert rows(mirror) == {row(1): 1, row(2): 1}


def test_a_prepared_transaction_counts_when_it_is_committed(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    database.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
    database.run("INSERT INTO t VALUES (2)")
    mirror.follow(capture)
    assert rows(mirror) == {row(2): 1}
    database.run("COMMIT PREPARED 'p'")
    mirror.check(capture)
    assert rows(mirror) == {row(1): 1, row(2): 1}


def test_commits_that_are_not_on_disk_yet_are_waited_for(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY); SET synchronous_commit = off")
    capture, mirror = begin(database, "public.t")
    for number in range(20):
        database.run(f"INSERT INTO t VALUES ({number})")
        mirror.follow(capture)
        assert mirror.count(mirror.tables[0]) == number + 1


def test_large_values_that_an_update_leaves_alone_are_kept(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text, c text); ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
    database.run("INSERT INTO t SELECT i, repeat(md5(i::text), 500), 'c' FROM generate_series(1, 3) i")
    capture, mirror = begin(database, "public.t")
    database.run("UPDATE t SET c = 'd'; UPDATE t SET a = a + 10 WHERE a = 2; UPDATE t SET b = b || 'x' WHERE a = 3")
    mirror.check(capture)


def test_truncations_are_followed_exactly(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
    capture, mirror = begin(database, "public.t")
    database.run("INSERT INTO t VALUES (2); TRUNCATE t; INSERT INTO t VALUES (3)")
    database.run("BEGIN; DELETE FROM t; INSERT INTO t VALUES (4); TRUNCATE t; INSERT INTO t VALUES (5); COMMIT")
    mirror.check(capture)
    assert rows(mirror) == {row(5): 1}


def test_a_large_transaction_comes_in_pieces(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    _, mirror = begin(database, "public.t")
    capture = WalCapture(Pool(database.reference), PROJECT, piece_bytes=100_000)
    database.run("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 10000) i")
    events = list(capture.read(mirror.position, end := capture.head(), mirror.tables))
    assert all(isinstance(event, Rows) and event.rows.nbytes < 300_000 for event in events)
    assert len(events) >= 10
    mirror.land(events, end)
    mirror.check(capture)


def test_catching_up_can_be_done_in_parts(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    capture, mirror = begin(database, "public.t")
    for number in range(10):
        database.run(f"INSERT INTO t VALUES ({number}, repeat('x', 1000))")
    counts = []
    head = capture.head()
    while mirror.position != head:
        start = LsnPosition.parse(mirror.position.origin, mirror.position.text)
        mirror.follow(capture, LsnPosition(head.origin, min(head.lsn, start.lsn + 3000)))
        counts.append(mirror.count(mirror.tables[0]))
    assert counts[-1] == 10
    assert len(set(counts)) > 3


def test_chosen_columns_are_captured_without_the_others(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'a', 'b')")
    capture, mirror = begin(database, "public.t", columns=["a"])
    database.run("UPDATE t SET b = 'c'")
    assert list(capture.read(mirror.position, capture.head(), mirror.tables)) == []
    database.run("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN c int DEFAULT 5; UPDATE t SET a = 'x', c = 6")
    mirror.check(capture)


CHANGES = {
    "ALTER TABLE t RENAME COLUMN b TO c": "schema-changed",
    "ALTER TABLE t DROP COLUMN b": "schema-changed",
    "ALTER TABLE t ALTER COLUMN n TYPE numeric(12,2)": "schema-changed",
    "ALTER TABLE t ALTER COLUMN b TYPE text USING upper(b)": "table-rewritten",
    "ALTER TABLE t REPLICA IDENTITY DEFAULT": "identity-changed",
    "ALTER PUBLICATION freshlake_p1 DROP TABLE t": "capture-missing",
    "ALTER PUBLICATION freshlake_p1 DROP TABLE t; ALTER PUBLICATION freshlake_p1 ADD TABLE t": "capture-missing",
    "DROP TABLE t": "table-dropped",
}


def test_ddl_and_gaps_are_noticed_with_and_without_changes_after_them(database: Database) -> None:
    for number, (ddl, reason) in enumerate(CHANGES.items()):
        database.run(f"CREATE SCHEMA s{number}; SET search_path TO s{number}")
        database.run("CREATE TABLE t (a int PRIMARY KEY, b text, n numeric(10,2)); INSERT INTO t VALUES (1, 'b', 2)")
        capture, mirror = begin(database, f"s{number}.t")
        for statement in ddl.split("; "):
            database.run(statement)
        if reason != "identity-changed":
            assert set(reasons(capture.read(mirror.position, capture.head(), mirror.tables)).values()) == {reason}, ddl
        if "DROP TABLE" not in ddl:
            database.run("UPDATE t SET a = 3")
            found = set(reasons(capture.read(mirror.position, capture.head(), mirror.tables)).values())
            assert reason in found, ddl


def test_partitions_are_captured_and_others_noticed(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int, v text, PRIMARY KEY (k, v)) PARTITION BY LIST (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 (v text NOT NULL, k int NOT NULL); ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
        INSERT INTO p VALUES (1, 'a'), (2, 'b');
    """)
    capture, mirror = begin(database, "public.p")
    (table,) = mirror.tables
    database.run("INSERT INTO p VALUES (1, 'c'); INSERT INTO p2 VALUES ('d', 2); UPDATE p SET k = 3 - k WHERE v < 'c'")
    mirror.check(capture)
    database.run("TRUNCATE p; INSERT INTO p VALUES (1, 'e'), (2, 'f')")
    mirror.check(capture)
    database.run("TRUNCATE p1")
    assert reasons(capture.read(mirror.position, capture.head(), [table])) == {table.oid: "partition-truncated"}
    database.run("CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3); INSERT INTO p VALUES (3, 'g')")
    found = [
        event.reason for event in capture.read(mirror.position, capture.head(), [table]) if hasattr(event, "reason")
    ]
    assert found == ["partition-truncated", "partitions-changed"]


def test_a_table_and_one_of_its_partitions_are_both_captured(database: Database) -> None:
    database.run("""
        CREATE TABLE p (k int PRIMARY KEY) PARTITION BY RANGE (k);
        CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
        CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
    """)
    capture, mirror = begin(database, "public.p", "public.p1")
    database.run("INSERT INTO p VALUES (1), (11); UPDATE p SET k = k + 1; INSERT INTO p1 VALUES (5)")
    mirror.check(capture)
    assert [mirror.count(table) for table in mirror.tables] == [3, 2]
    parent, part = mirror.tables
    with connect(database.reference) as connection:
        unpublish(connection, PROJECT, [parent.oid])
    identities = (
        "SELECT string_agg(relname || relreplident::text, ' ' ORDER BY relname) FROM pg_class WHERE relname ~ '^p.?$'"
    )
    assert database.one(identities) == "pd p1f p2d"
    mirror.tables = [part]
    del mirror.contents[parent.oid]
    database.run("DELETE FROM p WHERE k = 2")
    mirror.check(capture)
    assert mirror.count(part) == 1


def test_every_type_passes_through_the_log(database: Database) -> None:
    database.run(f"{SETUP}; {wide_table('wide')}; ALTER TABLE wide REPLICA IDENTITY FULL")
    capture, mirror = begin(database, "public.wide")
    database.run("SET datestyle = 'SQL, DMY'; SET extra_float_digits = -5; SET intervalstyle = sql_standard")
    for statement, texts in wide_rows("wide"):
        database.application.execute(statement.encode(), texts)
    mirror.check(capture)
    assert rows(mirror) == {row(n, *(value(case, n) for case in CASES)): 1 for n in range(ROUNDS)}
    database.run("UPDATE wide SET n = n + 100; DELETE FROM wide WHERE n % 2 = 0")
    mirror.check(capture)


def test_a_table_can_be_added_while_others_are_captured(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1)")
    capture, mirror = begin(database, "public.t")
    database.run("INSERT INTO t VALUES (1); INSERT INTO u VALUES (2)")
    (added,) = published(database, [database.captured("public.u")])
    database.run("INSERT INTO t VALUES (2); INSERT INTO u VALUES (3)")
    with capture.copy_point([added]) as point:
        mirror.follow(capture, point.position)
        other = Mirror(database, [added], point)
    database.run("INSERT INTO t VALUES (3); INSERT INTO u VALUES (4)")
    mirror.tables.append(added)
    mirror.contents.update(other.contents)
    mirror.check(capture)
    assert [mirror.count(table) for table in mirror.tables] == [3, 4]


def test_a_missing_slot_is_a_value_and_stops_reading(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    state = capture.slot_state()
    assert judge(state).alert is None
    capture.drop_slot()
    capture.drop_slot()
    assert capture.slot_state() is None
    assert judge(capture.slot_state()).alert is Alert.MISSING
    for failing in (
        lambda: list(capture.read(mirror.position, capture.head(), mirror.tables)),
        lambda: capture.confirm(mirror.position),
    ):
        with pytest.raises(SourceHistoryLost, match="slot"):
            failing()


def test_the_log_that_is_kept_shows_until_it_is_confirmed(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    capture, mirror = begin(database, "public.t")
    database.run("INSERT INTO t SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 3000) i")
    state = capture.slot_state()
    assert state is not None
    assert state.lag_bytes > 1_000_000
    assert judge(state, warning_mb=1, critical_mb=100).alert is Alert.LAG
    mirror.follow(capture)
    # the server moves on with the next note of running transactions, which a new slot leaves
    with capture.copy_point([]) as point:
        capture.confirm(point.position)
    state = capture.slot_state()
    assert state is not None
    assert state.lag_bytes < 100_000


def test_a_slot_waits_for_running_transactions_only_as_long_as_allowed(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    tables = published(database, [database.captured("public.t")])
    capture = WalCapture(Pool(database.reference), PROJECT)
    with database.connect() as writer:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureBusy), capture.create_slot(tables, slot_seconds=0.1):
            pass
        writer.execute("COMMIT")
    assert capture.slot_state() is None
    with capture.create_slot(tables) as point:
        assert Mirror(database, tables, point).count(tables[0]) == 1


def test_limits_of_the_role_do_not_end_a_copy(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["statement_timeout", "idle_in_transaction_session_timeout"]
    names += ["transaction_timeout"] if database.application.info.server_version >= 170_000 else []
    for name in names:
        database.run(f"ALTER DATABASE {database.name} SET {name} = '5min'")
    database.reopen()
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    opened: list[psycopg.Connection[Any]] = []

    def kept(*given: Any, **named: Any) -> psycopg.Connection[Any]:
        opened.append(connect(*given, **named))
        return opened[-1]

    def values(ask: Callable[[bytes], psycopg.Cursor[Any]]) -> list[Any]:
        return [(ask(f"SHOW {name}".encode()).fetchone() or ("",))[0] for name in names]

    monkeypatch.setattr(slot, "connect", kept)
    tables = published(database, [database.captured("public.t")])
    with WalCapture(Pool(database.reference), PROJECT).create_slot(tables) as point:
        with database.reading(point.snapshot) as cursor:
            assert values(cursor.execute) == ["0"] * len(names)
        assert values(opened[0].execute) == ["0"] * len(names)
    assert values(database.application.execute) == ["5min"] * len(names)


def test_a_slot_that_an_earlier_try_left_is_made_anew(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, _ = begin(database, "public.t")
    database.run("INSERT INTO t VALUES (1)")
    tables = published(database, [database.captured("public.t")])
    with capture.create_slot(tables) as point:
        mirror = Mirror(database, tables, point)
    database.run("INSERT INTO t VALUES (2)")
    mirror.check(capture)


def test_replica_identities_are_given_back(database: Database) -> None:
    database.run("""
        CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE f (a int); ALTER TABLE f REPLICA IDENTITY FULL;
        CREATE TABLE i (a int NOT NULL); CREATE UNIQUE INDEX "An index" ON i (a);
        ALTER TABLE i REPLICA IDENTITY USING INDEX "An index";
        CREATE TABLE n (a int PRIMARY KEY); ALTER TABLE n REPLICA IDENTITY NOTHING;
        CREATE TABLE gone (a int PRIMARY KEY);
    """)
    identities = (
        "SELECT string_agg(relreplident::text, '' ORDER BY relname) FROM pg_class WHERE relname IN ('t','f','i','n')"
    )
    before = database.one(identities)
    for _ in range(2):
        tables = published(database, [database.captured(f"public.{name}") for name in ("t", "f", "i", "n", "gone")])
    assert database.one(identities) == "ffff"
    assert all(table.table.identity == "f" for table in tables)
    database.run("DROP TABLE gone")
    with connect(database.reference) as connection:
        for _ in range(2):
            unpublish(connection, PROJECT)
    assert database.one(identities) == before == "find"
    assert database.one("SELECT count(*) FROM pg_publication") == 0


def test_a_table_leaves_the_publication_only_as_soon_as_it_is_free(database: Database) -> None:
    database.run("CREATE TABLE t (a int); ALTER TABLE t REPLICA IDENTITY FULL")
    (table,) = published(database, [database.captured("public.t")])
    with database.connect() as other, connect(database.reference) as connection:
        other.execute("BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE")
        with pytest.raises(CaptureBusy):
            unpublish(connection, PROJECT, [table.oid], lock_seconds=0.05)
        other.execute("COMMIT")
        unpublish(connection, PROJECT, [table.oid], lock_seconds=0.05)
    assert database.one("SELECT count(*) FROM pg_publication_rel") == 0


def test_tables_that_are_published_at_the_same_time_get_their_identities_back(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY)")
    begin = partial(publish, names=PROJECT, tables=[database.captured("public.u")])
    at_the_same_time(database, partial(publish, names=PROJECT, tables=[database.captured("public.t")]), begin)
    assert database.one("SELECT count(*) FROM pg_publication_rel") == 2
    with connect(database.reference) as connection:
        unpublish(connection, PROJECT)
    assert database.one("SELECT count(*) FROM pg_class WHERE relreplident = 'f' AND relname IN ('t', 'u')") == 0


def test_tables_that_the_log_cannot_serve_are_refused_with_reasons(database: Database) -> None:
    database.run("""
        CREATE TABLE keyless (a int); CREATE TABLE whole (a int); ALTER TABLE whole REPLICA IDENTITY FULL;
        CREATE TABLE computed (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a + 1) STORED);
    """)
    server = database.found()
    names = ("keyless", "whole", "computed")
    found = [bool(obstacles(server, database.captured(f"public.{name}"))) for name in names]
    assert found == [True, False, server.major < 18]
    with pytest.raises(CaptureUnsupported, match="keyless") as refused:
        published(database, [database.captured("public.keyless")])
    assert "primary key" in str(refused.value.detail)
    partial = capture_some(database.table("public.computed"), ["a"])
    assert obstacles(server, partial) == []


def test_generated_columns_are_sent_where_the_server_can(database: Database) -> None:
    if database.found().major < 18:
        return
    database.run(
        "CREATE TABLE t (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO t VALUES (1)"
    )
    capture, mirror = begin(database, "public.t")
    database.run("INSERT INTO t VALUES (2); UPDATE t SET a = 5 WHERE a = 1")
    mirror.check(capture)


def test_missing_privileges_are_named(database: Database) -> None:
    database.run("CREATE ROLE app LOGIN; CREATE TABLE t (a int PRIMARY KEY)")
    try:
        with psycopg.connect(database.server.url(database.name, user="app"), autocommit=True) as connection:
            with pytest.raises(CaptureUnsupported, match=r"public\.t") as refused:
                publish(connection, PROJECT, [_seen_by(connection)])
            assert "REPLICATION" in str(refused.value.detail)
            database.run("ALTER ROLE app REPLICATION")
            with pytest.raises(PrivilegeMissing, match="does not own"):
                publish(connection, PROJECT, [_seen_by(connection)])
            database.run("ALTER TABLE t OWNER TO app")
            with pytest.raises(PrivilegeMissing, match="publication"):
                publish(connection, PROJECT, [_seen_by(connection)])
            database.run(f"GRANT CREATE ON DATABASE {database.name} TO app")
            publish(connection, PROJECT, [_seen_by(connection)])
    finally:
        database.run("DROP OWNED BY app CASCADE; DROP ROLE app")


def _seen_by(connection: psycopg.Connection[object]) -> Captured:
    with transaction(connection, read_only=True) as cursor:
        return capture_all(describe(cursor, look(cursor), ["public.t"])["public.t"])


def test_positions_of_another_history_are_refused(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    capture, mirror = begin(database, "public.t")
    here, tables = capture.head(), mirror.tables
    elsewhere = LsnPosition("other/1/00000001", here.lsn)
    for start, end in ((elsewhere, here), (here, elsewhere)):
        with pytest.raises(SourceReplaced):
            list(capture.read(start, end, tables))
    with pytest.raises(SourceReplaced):
        capture.confirm(elsewhere)
    with pytest.raises(InvalidArgument):
        list(capture.read(here, LsnPosition(here.origin, here.lsn - 1), tables))
    with pytest.raises(InvalidArgument):
        list(capture.read(SnapshotPosition(here.origin, 5), here, tables))
    with pytest.raises(InvalidArgument):
        WalCapture(Pool(database.reference), PROJECT, protocol=4)


def load(database: Database, seed: int, *, writers: int, transactions: int) -> None:
    database.run(f"{TABLES}; ALTER TABLE events REPLICA IDENTITY FULL; ALTER TABLE archive REPLICA IDENTITY FULL")
    capture, mirror = begin(database, *NAMES)
    work = Load(database, writers=writers, transactions=transactions, seed=seed)
    while not work.is_over:
        mirror.follow(capture)
        mirror.check(capture)
    work.wait()
    mirror.check(capture)


def test_the_mirror_equals_the_tables_at_every_position_under_load(database: Database) -> None:
    load(database, 1, writers=4, transactions=10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_the_mirror_equals_the_tables_under_long_load(database: Database, seed: int) -> None:
    load(database, seed, writers=8, transactions=40)
