"""Tables of a PostgreSQL database in the lake: captured when named, exact after every refresh, gone without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import InvalidQuery, SourceInUse
from freshlake.sources.postgres.capture import Mode
from tests.integration.capture_database import Bag, Database, new_database
from tests.integration.lakes import ANY_SHARE, bag
from tests.integration.postgres_server import LOGICAL, binaries, embedded, server

REVENUE = (
    "SELECT o.region, count(*) AS items, sum(i.price) AS total "
    "FROM shop.public.orders o JOIN shop.public.items i ON o.id = i.order_id GROUP BY o.region"
)
PLAIN = REVENUE.replace("shop.public.", "public.")
TABLES = """
CREATE TABLE orders (id bigint PRIMARY KEY, region text, at timestamptz DEFAULT '2026-01-01 00:00:00+00');
CREATE TABLE items (order_id bigint, price numeric(10, 2), tags text[]);
ALTER TABLE items REPLICA IDENTITY FULL;
INSERT INTO orders VALUES (1, 'north'), (2, 'south'), (3, NULL);
INSERT INTO items VALUES (1, 10, '{a,b}'), (1, 10, '{a,b}'), (2, 5.5, NULL);
"""


@pytest.fixture(scope="module", params=[Mode.TRIGGER, Mode.WAL])
def mode(request: pytest.FixtureRequest) -> Mode:
    """How the tables are captured; a user sees no difference. Each way on a server of another version."""
    return Mode(request.param)


@pytest.fixture(scope="module")
def database(mode: Mode) -> Iterator[Database]:
    bin_folder = embedded() if mode is Mode.WAL else binaries()
    with server(bin_folder, LOGICAL) as running, new_database(running) as made:
        made.run(TABLES)
        yield made


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: Database, mode: Mode
) -> Iterator[freshlake.Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("postgres"), settings=ANY_SHARE) as lake:
        lake.sql(f"CREATE SOURCE shop FROM POSTGRES CONNECTION '{database.reference}' CDC MODE {mode}")
        lake.create_stream_table("revenue", REVENUE)
        yield lake


def theirs(database: Database, query: str) -> Bag:
    return bag(database.application.execute(query.encode()).fetchall())


def ours(fl: freshlake.Freshlake, name: str) -> Bag:
    return bag(tuple(map(_in_utc, row)) for row in fl.table(name).collect())


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def assert_as_in(fl: freshlake.Freshlake, database: Database) -> None:
    """Nobody writes at the moment: the mirrors hold what the tables hold, the stream table what its query gives."""
    assert ours(fl, "revenue") == theirs(database, PLAIN)
    for table in ("orders", "items"):
        assert ours(fl, f"shop.public.{table}") == theirs(database, f"SELECT {captured(fl, table)} FROM {table}")


def captured(fl: freshlake.Freshlake, table: str) -> str:
    """The columns that somebody reads, and the key; others have no values in the lake."""
    return ", ".join(fl.table(f"shop.public.{table}").columns)


def actions(fl: freshlake.Freshlake) -> dict[str, tuple[str, str | None]]:
    return {r.table: (str(r.action), r.reason) for r in fl.refresh_all()}


def test_the_first_stream_table_captures_and_copies_what_it_names(
    fl: freshlake.Freshlake, database: Database, mode: Mode
) -> None:
    assert_as_in(fl, database)
    assert fl.verify("revenue").equal
    assert fl.verify("shop.public.items").equal
    (shop,) = fl.list_sources()
    assert shop.captured_tables == ("public.items", "public.orders")
    assert {line.cdc_mode for line in fl.cdc_status()} == {shop.captured_by} == {mode}
    slots = database.one("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert slots == (mode is Mode.WAL), "there is one, or triggers"
    assert (database.one("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^freshlake'") == 0) == (mode is Mode.WAL)


def test_inserts_updates_and_deletes_arrive_once(fl: freshlake.Freshlake, database: Database) -> None:
    database.run(
        "BEGIN; INSERT INTO orders VALUES (4, 'west'); INSERT INTO items VALUES (4, 1, '{}'), (4, 1, '{}');"
        "UPDATE orders SET region = 'east' WHERE id = 1; DELETE FROM items WHERE order_id = 2; COMMIT"
    )
    results = {r.table: r for r in fl.refresh_all()}
    assert {str(r.action) for r in results.values()} == {"DIFFERENTIAL"}
    assert_as_in(fl, database)
    assert fl.verify("revenue").equal


def test_nothing_captured_changed_is_no_data(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("CREATE TABLE other (a int); INSERT INTO other SELECT generate_series(1, 10)")
    (before,) = fl.list_sources()
    results = fl.refresh_all()
    assert {str(r.action) for r in results} == {"NO_DATA"}
    assert sum(r.spark_jobs for r in results) == 0
    assert fl.list_sources() == [before]


def test_the_database_forgets_what_was_landed(fl: freshlake.Freshlake, database: Database, mode: Mode) -> None:
    database.run("INSERT INTO orders VALUES (5, 'soon gone'); DELETE FROM orders WHERE id = 5")
    if mode is Mode.TRIGGER:
        assert {size.source_table: size.pending_rows for size in fl.change_buffer_sizes()}["public.orders"] == 2
    fl.refresh_all()
    assert not any(size.pending_rows for size in fl.change_buffer_sizes())
    if mode is Mode.WAL:
        position = fl._engine.catalog.database("shop").position or {}
        assert database.one("SELECT confirmed_flush_lsn::text FROM pg_replication_slots") == position["lsn"]
    assert_as_in(fl, database)


def test_log_without_captured_changes_is_not_kept(fl: freshlake.Freshlake, database: Database, mode: Mode) -> None:
    before = fl._engine.catalog.database("shop").version
    database.run("INSERT INTO other SELECT i FROM generate_series(1, 400000) i; CHECKPOINT")
    assert {str(r.action) for r in fl.refresh_all()} == {"NO_DATA"}
    after = fl._engine.catalog.database("shop").version
    assert after == before + (mode is Mode.WAL), "only a slot keeps the server's log"
    kept = "SELECT max(pg_current_wal_lsn() - confirmed_flush_lsn) FROM pg_replication_slots"
    assert (database.one(kept) or 0) < 16 * 1024 * 1024
    assert_as_in(fl, database)


def test_a_truncation_is_what_came_after_it(fl: freshlake.Freshlake, database: Database) -> None:
    database.run(
        "BEGIN; INSERT INTO items VALUES (1, 77, '{}'); TRUNCATE items; INSERT INTO items VALUES (1, 3, '{z}');"
        "INSERT INTO items VALUES (1, 3, '{z}'), (4, 2, NULL); DELETE FROM items WHERE order_id = 4; COMMIT"
    )
    assert actions(fl) == {
        "shop.public.items": ("FULL", "truncate-detected"),
        "shop.public.orders": ("NO_DATA", None),
        "default.revenue": ("DIFFERENTIAL", None),
    }
    assert_as_in(fl, database)
    assert fl.verify("shop.public.items").equal


def test_who_commits_last_is_not_missed(fl: freshlake.Freshlake, database: Database) -> None:
    with database.connect() as late:
        late.execute("BEGIN")
        late.execute("INSERT INTO orders VALUES (50, 'late')")
        database.run("INSERT INTO orders VALUES (51, 'soon'); INSERT INTO items VALUES (50, 1, NULL), (51, 1, NULL)")
        fl.refresh_all()
        assert ours(fl, "shop.public.orders") == theirs(database, "SELECT id, region FROM orders WHERE id <> 50")
        late.execute("COMMIT")
    fl.refresh_all()
    assert_as_in(fl, database)


def test_a_join_never_shows_a_state_that_nobody_committed(fl: freshlake.Freshlake, database: Database) -> None:
    """Every transaction writes an order with its item, or moves both: no order is ever without its item."""
    alone = "SELECT o.id FROM shop.public.orders o LEFT ANTI JOIN shop.public.items i ON o.id = i.order_id"
    database.run("INSERT INTO items SELECT id, 1, NULL FROM orders")
    fl.create_stream_table("alone", alone)
    stopped: list[bool] = []

    def write(base: int) -> None:
        with database.connect() as own:
            number = base
            while not stopped:
                number += 1
                own.execute(
                    f"BEGIN; INSERT INTO orders VALUES ({number}, 'x'); INSERT INTO items VALUES ({number}, 2, NULL);"
                    f"UPDATE orders SET id = -id WHERE id = {number - 3}; SELECT pg_sleep(0.002);"
                    f"UPDATE items SET order_id = -order_id WHERE order_id = {number - 3}; COMMIT".encode()
                )

    writers = [Thread(target=write, args=(base,)) for base in (1_000_000, 2_000_000)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(4):
            fl.refresh("alone")
            assert ours(fl, "alone") == bag([])
            frames = fl.snapshot("shop.public.orders", "shop.public.items")
            ids = {row.id for row in frames["shop.public.orders"].select("id").collect()}
            owners = {row.order_id for row in frames["shop.public.items"].select("order_id").collect()}
            assert ids - owners == set()
    finally:
        stopped.append(True)
        for writer in writers:
            writer.join()
    fl.refresh_all()
    assert_as_in(fl, database)
    fl.drop_stream_table("alone")


def test_a_lake_goes_on_after_a_restart_from_where_it_stood(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("INSERT INTO orders VALUES (60, 'while away')")
    with freshlake.connect(fl.path, settings=ANY_SHARE) as again:
        again.refresh("revenue")
        assert ours(again, "shop.public.orders") == theirs(database, "SELECT id, region FROM orders")
    database.run("DELETE FROM orders WHERE id = 60")
    fl.refresh_all()
    assert_as_in(fl, database)


class Killed(BaseException):
    """As if the process had ended here."""


@pytest.mark.parametrize("step", ["append root", "appended", "committed", "publish"])
def test_a_crash_between_the_mirrors_leaves_one_state_to_readers(
    fl: freshlake.Freshlake, database: Database, step: str
) -> None:
    before = {name: ours(fl, name) for name in ("shop.public.orders", "shop.public.items")}
    database.run("BEGIN; INSERT INTO orders VALUES (70, 'k'); INSERT INTO items VALUES (70, 7, NULL); COMMIT")

    def kill(reached: str) -> None:
        if reached == step:
            raise Killed

    with freshlake.connect(fl.path, settings=ANY_SHARE) as victim:
        victim._engine.observer = kill
        with pytest.raises(Killed):
            victim.refresh_all()
    assert {name: ours(fl, name) for name in before} == before, "neither mirror shows what the other does not"
    database.run("INSERT INTO items VALUES (70, 8, NULL)")
    fl.refresh_all()
    assert_as_in(fl, database)
    database.run("DELETE FROM orders WHERE id = 70; DELETE FROM items WHERE order_id = 70")
    fl.refresh_all()


def test_a_column_that_changes_its_type_rebuilds_the_mirror(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("ALTER TABLE items ALTER COLUMN price TYPE numeric(12, 3); INSERT INTO items VALUES (1, 0.125, NULL)")
    found = actions(fl)
    assert found["shop.public.items"] == ("REINITIALIZE", "schema-changed")
    assert_as_in(fl, database)
    assert dict(fl.table("shop.public.items").dtypes)["price"] == "decimal(12,3)"
    database.run("INSERT INTO items VALUES (1, 0.5, NULL)")
    assert actions(fl)["shop.public.items"] == ("DIFFERENTIAL", None)
    assert_as_in(fl, database)


def test_a_column_that_is_added_matters_to_who_asks_for_it(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("ALTER TABLE orders ADD COLUMN note text DEFAULT 'none'")
    database.run("INSERT INTO orders (id, region, note) VALUES (71, 'west', 'new')")
    found = actions(fl)
    assert (found["shop.public.orders"], found["default.revenue"][0]) == (("DIFFERENTIAL", None), "DIFFERENTIAL")
    assert "note" not in fl.table("shop.public.orders").columns
    fl.create_stream_table("notes", "SELECT id, note FROM shop.public.orders")
    assert ours(fl, "notes") == theirs(database, "SELECT id, note FROM orders")
    assert_as_in(fl, database)
    database.run("UPDATE orders SET note = 'changed' WHERE id = 71")
    assert actions(fl)["default.notes"] == ("DIFFERENTIAL", None)
    assert ours(fl, "notes") == theirs(database, "SELECT id, note FROM orders")
    with pytest.raises(InvalidQuery, match="missing"):
        fl.create_stream_table("broken", "SELECT missing FROM shop.public.orders")
    fl.drop_stream_table("notes")


def test_a_column_that_is_added_is_taken_by_who_selects_all(fl: freshlake.Freshlake, database: Database) -> None:
    fl.create_stream_table("everything", "SELECT * FROM shop.public.orders")
    database.run("ALTER TABLE orders ADD COLUMN more int DEFAULT 7")
    found = actions(fl)
    assert found["shop.public.orders"] == ("REINITIALIZE", "schema-changed")
    assert ours(fl, "everything") == theirs(database, "SELECT * FROM orders")
    assert fl.table("everything").columns[-1] == "more"
    database.run("INSERT INTO orders (id, region) VALUES (72, 'west')")
    assert actions(fl)["default.everything"] == ("DIFFERENTIAL", None)
    assert ours(fl, "everything") == theirs(database, "SELECT * FROM orders")
    database.run("ALTER TABLE orders DROP COLUMN note, DROP COLUMN more; DELETE FROM orders WHERE id > 70")
    fl.refresh_all()
    assert ours(fl, "everything") == theirs(database, "SELECT * FROM orders")
    assert_as_in(fl, database)
    fl.drop_stream_table("everything")


def test_a_value_that_does_not_fit_stops_its_table_alone(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("CREATE TABLE readings (id int PRIMARY KEY, n numeric); INSERT INTO readings VALUES (1, 1)")
    fl.create_stream_table("seen", "SELECT id, n FROM shop.public.readings")
    for number in (90, 91):
        database.run(f"INSERT INTO readings VALUES ({number}, 'NaN'); INSERT INTO orders VALUES ({number}, 'goes on')")
        found = actions(fl)
        assert found["shop.public.readings"] == ("SKIPPED", "value-not-representable")
        assert found["default.seen"] == ("SKIPPED", "upstream-failed")
        assert_as_in(fl, database)
    assert fl._engine.catalog.get("shop.public.readings").status == "ERROR"
    assert "public.readings.n" in (fl.history("shop.public.readings")[0].error or "")
    fl.alter_source("shop", as_text=["public.readings.n"])
    fl.refresh("seen")
    assert ours(fl, "seen") == theirs(database, "SELECT id, n::text FROM readings")
    database.run("INSERT INTO readings VALUES (92, 'NaN')")
    assert actions(fl)["default.seen"] == ("DIFFERENTIAL", None)
    assert ours(fl, "seen") == theirs(database, "SELECT id, n::text FROM readings")
    database.run("DELETE FROM readings WHERE n = 'NaN'")
    fl.alter_source("shop", as_text=[])
    fl.refresh("seen")
    assert ours(fl, "seen") == theirs(database, "SELECT id, n::numeric(38, 18) FROM readings")
    database.run("INSERT INTO readings VALUES (93, 'NaN'); UPDATE readings SET n = 3 WHERE id = 93")
    assert actions(fl)["shop.public.readings"] == ("FULL", "history-lost")
    assert ours(fl, "seen") == theirs(database, "SELECT id, n::numeric(38, 18) FROM readings")
    fl.drop_stream_table("seen")
    database.run("DROP TABLE readings; DELETE FROM orders WHERE id >= 90")
    fl.refresh_all()
    assert_as_in(fl, database)


def test_a_database_that_was_put_back_is_copied_anew(fl: freshlake.Freshlake, database: Database, mode: Mode) -> None:
    if mode is Mode.TRIGGER:
        marker = fl._captures.database("shop").names.released
        before = database.one(f"SELECT r::text FROM {marker} r")
        database.run("INSERT INTO orders VALUES (79, 'seen')")
        fl.refresh_all()
        database.run(f"DELETE FROM {marker}; INSERT INTO {marker} SELECT ('{before}'::{marker}).*")
        database.run("DELETE FROM orders WHERE id = 79")
        database.run(f"DELETE FROM {fl._captures.database('shop').names.buffer(table_number(database))}")
        assert actions(fl)["shop.public.orders"] == ("FULL", "history-lost")
        assert_as_in(fl, database)
        database.run("INSERT INTO orders VALUES (79, 'again')")
        assert actions(fl)["shop.public.orders"] == ("DIFFERENTIAL", None)
        database.run("DELETE FROM orders WHERE id = 79")
        fl.refresh_all()
    assert_as_in(fl, database)


def table_number(database: Database) -> int:
    return int(database.one("SELECT 'orders'::regclass::oid"))


def test_a_gap_in_capture_is_noticed_and_the_table_copied_anew(
    fl: freshlake.Freshlake, database: Database, mode: Mode
) -> None:
    if mode is Mode.TRIGGER:
        database.run("ALTER TABLE orders DISABLE TRIGGER USER")
    else:
        publication = database.one("SELECT pubname FROM pg_publication")
        database.run(f"ALTER PUBLICATION {publication} DROP TABLE orders")
    database.run("INSERT INTO orders VALUES (80, 'unseen')")
    free: list[str] = []

    def alter(reached: str) -> None:
        """What is not copied may be altered while others are copied."""
        if reached == "copying" and mode is Mode.TRIGGER:
            database.run("BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE items IN ACCESS EXCLUSIVE MODE; COMMIT")
            free.append(reached)

    fl._engine.observer = alter
    assert actions(fl)["shop.public.orders"] == ("FULL", "history-lost")
    fl._engine.observer = None
    assert bool(free) == (mode is Mode.TRIGGER)
    assert_as_in(fl, database)
    database.run("UPDATE orders SET region = 'seen' WHERE id = 80")
    assert actions(fl)["shop.public.orders"] == ("DIFFERENTIAL", None)
    assert_as_in(fl, database)


def test_a_table_that_is_made_anew_is_followed_by_its_name(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("ALTER TABLE orders RENAME TO orders_old")
    assert actions(fl)["shop.public.orders"][1] == "source-dropped"
    database.run("CREATE TABLE orders (id bigint PRIMARY KEY, region text, at timestamptz DEFAULT now())")
    database.run("INSERT INTO orders (id, region) VALUES (1, 'new')")
    fl.refresh("revenue")
    assert_as_in(fl, database)
    assert fl._engine.catalog.get("shop.public.orders").status == "ACTIVE"
    database.run("INSERT INTO orders (id, region) VALUES (2, 'newer')")
    assert actions(fl)["shop.public.orders"] == ("DIFFERENTIAL", None)
    assert_as_in(fl, database)


def test_a_slot_that_is_gone_is_made_anew_and_the_tables_copied(
    fl: freshlake.Freshlake, database: Database, mode: Mode
) -> None:
    if mode is Mode.TRIGGER:
        assert database.one("SELECT count(*) FROM pg_replication_slots") == 0
        assert fl.slot_health() == []
        return
    (slot,) = fl.slot_health()
    assert (slot.source, slot.slot_name) == ("shop", database.one("SELECT slot_name FROM pg_replication_slots"))
    assert (slot.level, slot.alert) == ("ok", None)
    assert slot.retained_bytes >= slot.lag_bytes >= 0
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    (slot,) = fl.slot_health()
    assert (slot.slot_name, slot.level, slot.alert) == (None, "critical", "replication_slot_missing")
    assert [f.name for f in fl.health() if f.code == "replication_slot_missing"] == ["shop"]
    database.run("INSERT INTO orders (id, region) VALUES (90, 'unseen')")
    found = actions(fl)
    assert found["shop.public.orders"] == found["shop.public.items"] == ("FULL", "history-lost")
    assert_as_in(fl, database)
    database.run("DELETE FROM orders WHERE id = 90")
    assert actions(fl)["shop.public.orders"] == ("DIFFERENTIAL", None)
    assert_as_in(fl, database)


def test_capture_ends_with_the_last_reader_and_leaves_nothing(fl: freshlake.Freshlake, database: Database) -> None:
    with pytest.raises(SourceInUse):
        fl.drop_source("shop")
    fl.create_stream_table("ids", "SELECT id FROM shop.public.orders")
    fl.drop_stream_table("revenue")
    assert fl.list_sources()[0].captured_tables == ("public.orders",), "items had no other reader"
    fl.drop_source("shop", cascade=True)
    assert (fl.list_sources(), fl.status()) == ([], [])
    left = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^freshlake'"
    assert database.one(left) == 0
    assert database.one("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^freshlake'") == 0
    assert database.one("SELECT count(*) FROM pg_replication_slots") == 0
    assert database.one("SELECT count(*) FROM pg_publication") == 0
    assert database.one("SELECT relreplident::text FROM pg_class WHERE relname = 'orders'") == "d", "as it was"
