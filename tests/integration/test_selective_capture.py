"""Of a captured table only the columns that somebody reads are captured, and its key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import freshlake
from freshlake.catalog.records import StreamTable
from freshlake.errors import InvalidQuery
from freshlake.sources.postgres.capture import Mode
from tests.integration.beside import LONGEST, Beside, Watched
from tests.integration.capture_database import Bag, Database, new_database
from tests.integration.lakes import ANY_SHARE, bag
from tests.integration.postgres_server import LOGICAL, binaries, embedded, server

by_triggers = pytest.mark.parametrize("mode", [Mode.TRIGGER], indirect=True, scope="module")
"""What does not depend on how changes are captured is shown once."""


@pytest.fixture(scope="module", params=[Mode.TRIGGER, Mode.WAL])
def mode(request: pytest.FixtureRequest) -> Mode:
    return Mode(request.param)


@pytest.fixture(scope="module")
def database(mode: Mode) -> Iterator[Database]:
    bin_folder = embedded() if mode is Mode.TRIGGER else binaries()
    with server(bin_folder, LOGICAL) as running, new_database(running) as made:
        yield made


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: Database, mode: Mode
) -> Iterator[freshlake.Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("selective"), settings=ANY_SHARE) as lake:
        lake.sql(f"CREATE SOURCE shop FROM POSTGRES CONNECTION '{database.reference}' CDC MODE {mode}")
        yield lake


class Orders:
    """A table of the database, and stream tables over it, which are gone after the test."""

    def __init__(self, fl: freshlake.Freshlake, database: Database) -> None:
        self.fl, self.database, self.queries = fl, database, dict[str, str]()
        self.run("""
            CREATE TABLE orders (
                amount numeric(10, 2) DEFAULT 1, region text, id bigint PRIMARY KEY, note text, "odd name" int DEFAULT 4
            );
            INSERT INTO orders (id, region, note) VALUES (1, 'north', 'a'), (2, 'south', NULL), (3, NULL, 'c');
        """)
        self.create("regions", "SELECT region, id FROM shop.public.orders")

    def run(self, script: str) -> None:
        self.database.run(script)

    def create(self, name: str, query: str) -> None:
        self.fl.create_stream_table(name, query)
        self.queries[name] = query

    @property
    def shown(self) -> list[str]:
        return self.fl.table("shop.public.orders").columns

    @property
    def in_buffer(self) -> list[str]:
        """The columns of the buffers, by their numbers in the table."""
        found = self.database.application.execute(
            "SELECT a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname ~ '^freshlake' AND a.attname ~ '^n_'"
        )
        return sorted(name for (name,) in found)

    def refreshed(self) -> dict[str, tuple[str, str | None]]:
        return {r.table: (str(r.action), r.reason) for r in self.fl.refresh_all()}

    def theirs(self, query: str) -> Bag:
        text = query.replace("shop.", "").replace("`", '"')
        return bag(self.database.application.execute(text.encode(), prepare=False).fetchall())

    def ours(self, name: str) -> Bag:
        return bag(map(tuple, self.fl.table(name).collect()))

    def check(self) -> None:
        """Every stream table equals its query, and the mirror its table in the columns that it shows."""
        for name, query in self.queries.items():
            assert self.ours(name) == self.theirs(query), name
        columns = ", ".join(f'"{name}"' for name in self.shown)
        assert self.ours("shop.public.orders") == self.theirs(f"SELECT {columns} FROM orders")

    def gone(self) -> None:
        self.fl._engine.observer = None
        for table in self.fl.status():
            if table.name.count(".") < 2:
                self.fl.drop_stream_table(table.name)
        self.run("DROP TABLE IF EXISTS orders, events CASCADE")


@pytest.fixture
def orders(fl: freshlake.Freshlake, database: Database) -> Iterator[Orders]:
    made = Orders(fl, database)
    yield made
    made.gone()


NOTES = "SELECT id, note FROM shop.public.orders"


def test_only_what_is_read_and_the_key_is_captured(orders: Orders, mode: Mode) -> None:
    assert orders.shown == ["region", "id"], "in the order of the table"
    assert [line.selective_capture for line in orders.fl.check_cdc_health()] == [True]
    assert orders.in_buffer == (["n_2", "n_3"] if mode is Mode.TRIGGER else [])
    orders.run("UPDATE orders SET note = 'nobody reads it', amount = 9")
    if mode is Mode.TRIGGER:
        assert [size.pending_rows for size in orders.fl.change_buffer_sizes()] == [0], "not even written down"
    assert sum(r.rows_inserted + r.rows_deleted for r in orders.fl.refresh_all()) == 0
    orders.run("UPDATE orders SET region = 'west' WHERE id = 1; DELETE FROM orders WHERE id = 3")
    assert orders.refreshed()["default.regions"] == ("DIFFERENTIAL", None)
    orders.check()
    assert orders.fl.verify("shop.public.orders").equal


def test_another_reader_widens_what_is_captured(orders: Orders, mode: Mode) -> None:
    orders.run("UPDATE orders SET note = 'waits' WHERE id = 2; UPDATE orders SET region = 'waits' WHERE id = 3")
    orders.create("notes", NOTES)
    assert orders.shown == ["region", "id", "note"]
    assert orders.in_buffer == (["n_2", "n_3", "n_4"] if mode is Mode.TRIGGER else [])
    assert orders.refreshed()["default.regions"][1] != "definition-changed", "its query means what it meant"
    orders.check()
    orders.run("UPDATE orders SET note = NULL WHERE id = 1; UPDATE orders SET note = 'new' WHERE id = 2")
    found = orders.refreshed()
    assert (found["shop.public.orders"], found["default.notes"]) == (("DIFFERENTIAL", None), ("DIFFERENTIAL", None))
    orders.check()
    assert orders.fl.verify("shop.public.orders").equal
    orders.fl.drop_stream_table("notes")
    assert orders.shown == ["region", "id", "note"], "what was captured once stays so"


@by_triggers
def test_who_reads_everything_captures_everything(orders: Orders) -> None:
    orders.create("everything", "SELECT * FROM shop.public.orders")
    assert orders.shown == ["amount", "region", "id", "note", "odd name"]
    assert [line.selective_capture for line in orders.fl.check_cdc_health()] == [False]
    orders.run('UPDATE orders SET "odd name" = 5 WHERE id = 1')
    orders.refreshed()
    orders.check()


@by_triggers
def test_rows_that_are_equal_in_what_is_captured_stay_as_many(orders: Orders) -> None:
    orders.run("CREATE TABLE events (kind text, payload text); INSERT INTO events VALUES ('a', 'x'), ('a', 'y')")
    orders.create("kinds", "SELECT kind FROM shop.public.events")
    orders.create("counted", "SELECT count(*) AS n FROM shop.public.events")
    assert orders.fl.table("shop.public.events").columns == ["kind"], "to count rows, one column is as good as all"
    orders.run("UPDATE events SET payload = 'z'; INSERT INTO events VALUES ('a', 'x'), ('b', 'y')")
    orders.refreshed()
    orders.check()
    orders.run("DELETE FROM events WHERE payload = 'x'")
    orders.refreshed()
    orders.check()


@by_triggers
def test_a_column_with_an_odd_name_is_known_by_it(orders: Orders) -> None:
    orders.create("odd", "SELECT `odd name` FROM shop.public.orders")
    assert orders.shown == ["region", "id", "odd name"]
    orders.run('UPDATE orders SET "odd name" = 7 WHERE id = 2')
    orders.refreshed()
    orders.check()


@by_triggers
def test_what_is_not_captured_is_never_read_as_null(orders: Orders) -> None:
    with pytest.raises(InvalidQuery, match="note"):
        orders.fl.sql(NOTES)
    assert orders.fl.sql("SELECT * FROM shop.public.orders").columns == ["region", "id"]
    plain = orders.fl.spark.table("shop__public.orders")
    assert plain.select("id", "region").count() == 3
    with pytest.raises(PySparkException, match="note is not captured, because no stream table reads it"):
        plain.select("note").collect()


@by_triggers
@pytest.mark.parametrize("column", ["note", "o.note", "o.NOTE"])
def test_who_asks_for_a_column_that_is_left_out_learns_how_to_get_it(orders: Orders, column: str) -> None:
    with pytest.raises(InvalidQuery, match="cannot be resolved") as raised:
        orders.fl.sql(f"SELECT id, {column} FROM shop.public.orders o")
    assert raised.value.hint == "shop.public.orders.note is not captured: create a stream table that reads it"
    with pytest.raises(InvalidQuery, match="cannot be resolved") as raised:
        orders.fl.sql("SELECT id, nothing FROM shop.public.orders o")
    assert "captured" not in (raised.value.hint or "")


@by_triggers
def test_looking_at_a_query_captures_nothing(orders: Orders) -> None:
    before, captured = orders.in_buffer, orders.fl.list_sources()[0].captured_tables
    orders.run("CREATE TABLE events (kind text)")
    assert orders.fl.validate(NOTES).differential
    assert orders.fl.validate("SELECT kind FROM shop.public.events").differential
    with pytest.raises(InvalidQuery):
        orders.fl.create_stream_table("broken", "SELECT missing FROM shop.public.events")
    assert (orders.shown, orders.in_buffer) == (["region", "id"], before)
    assert orders.fl.list_sources()[0].captured_tables == captured


@by_triggers
def test_another_query_may_read_more(orders: Orders) -> None:
    orders.create("some", "SELECT id FROM shop.public.orders")
    orders.fl.alter_stream_table("some", query=NOTES)
    orders.queries["some"] = NOTES
    assert orders.shown == ["region", "id", "note"]
    orders.check()
    orders.run("UPDATE orders SET note = 'later'")
    assert orders.refreshed()["default.some"] == ("DIFFERENTIAL", None)
    orders.check()


@by_triggers
def test_a_view_that_is_replaced_may_read_more(orders: Orders) -> None:
    orders.fl.sql("CREATE VIEW v AS SELECT id FROM shop.public.orders")
    orders.fl.create_stream_table("over_view", "SELECT * FROM v")
    orders.fl.sql(f"CREATE OR REPLACE VIEW v AS {NOTES}")
    orders.fl.refresh("over_view")
    orders.queries["over_view"] = NOTES
    orders.check()
    assert orders.shown == ["region", "id", "note"]
    orders.fl.drop_stream_table("over_view")
    orders.fl.sql("DROP VIEW v")
    del orders.queries["over_view"]


def with_notes(spark: SparkSession) -> DataFrame:
    return spark.table("shop__public.orders").where("note IS NOT NULL").select("id", "note")


@by_triggers
def test_a_function_captures_what_it_reads(orders: Orders) -> None:
    orders.fl.create_stream_table("by_function", with_notes)
    orders.queries["by_function"] = f"{NOTES} WHERE note IS NOT NULL"
    assert orders.shown == ["region", "id", "note"]
    orders.run("INSERT INTO orders (id, note) VALUES (7, 'seven')")
    orders.refreshed()
    orders.check()


@by_triggers
def test_a_column_that_nobody_reads_may_go(orders: Orders) -> None:
    orders.run("ALTER TABLE orders DROP COLUMN note; ALTER TABLE orders RENAME COLUMN amount TO price")
    orders.run("INSERT INTO orders (id, region, price) VALUES (8, 'west', 3)")
    assert orders.refreshed()["default.regions"] == ("DIFFERENTIAL", None)
    with pytest.raises(InvalidQuery, match="note"):
        orders.fl.create_stream_table("notes", NOTES)
    orders.create("prices", "SELECT id, price FROM shop.public.orders")
    orders.refreshed()
    orders.check()
    assert orders.shown == ["price", "region", "id"]


@by_triggers
def test_a_rebuild_keeps_to_what_is_read(orders: Orders) -> None:
    orders.run("ALTER TABLE orders ALTER COLUMN region TYPE int USING length(region)")
    assert orders.refreshed()["shop.public.orders"] == ("REINITIALIZE", "schema-changed")
    assert (orders.shown, orders.in_buffer) == (["region", "id"], ["n_2", "n_3"])
    orders.check()
    orders.run("INSERT INTO orders (id, region) VALUES (9, 5)")
    assert orders.refreshed()["shop.public.orders"] == ("DIFFERENTIAL", None)
    orders.check()


@pytest.mark.parametrize("step", ["copying", "appended", "committed"])
def test_who_asks_for_more_while_a_table_is_copied_is_not_forgotten(orders: Orders, step: str) -> None:
    """The copy that is being made lacks the column; it must not count as one that has it."""
    orders.run("ALTER TABLE orders ALTER COLUMN region TYPE varchar(9) USING upper(region)")
    with freshlake.connect(orders.fl.path, settings=ANY_SHARE) as reader:
        assert reader.table("shop.public.orders").columns == ["region", "id"], "as it was captured by others"

        def ask(reached: str) -> None:
            if reached == step:
                orders.fl._engine.observer = None
                reader.create_stream_table("notes", NOTES, initialize=False)

        orders.fl._engine.observer = ask
        orders.refreshed()
        assert orders.fl._engine.observer is None, "somebody has asked"
    orders.fl.refresh("notes")
    orders.queries["notes"] = NOTES
    orders.refreshed()
    orders.check()
    orders.run("UPDATE orders SET note = 'late' WHERE id = 1")
    orders.refreshed()
    orders.check()


@by_triggers
def test_a_column_that_is_taken_as_text_may_go(orders: Orders, caplog: pytest.LogCaptureFixture) -> None:
    orders.fl.alter_source("shop", as_text=["public.orders.Note", "public.orders.id"])
    orders.run("ALTER TABLE orders DROP COLUMN note")
    orders.queries["regions"] = "SELECT region, id::text FROM shop.public.orders"
    orders.refreshed()
    assert orders.ours("regions") == orders.theirs(orders.queries["regions"])
    assert "shop.public.orders has no column Note, which is to be taken as text" in caplog.messages
    orders.fl.alter_source("shop", as_text=[])
    orders.refreshed()
    orders.queries["regions"] = "SELECT region, id FROM shop.public.orders"
    orders.check()


EVENTS = "SELECT id, note FROM shop.public.events"


@pytest.fixture
def events(orders: Orders) -> Orders:
    """Besides the orders, a table that nobody has named yet."""
    orders.run("CREATE TABLE events (id bigint PRIMARY KEY, note text); INSERT INTO events VALUES (1, 'a'), (2, NULL)")
    return orders


def before_it_is_made(orders: Orders, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something when the next mirror of this lake is about to be made."""
    mirrors = orders.fl._captures.mirrors
    create = mirrors.create

    def acting(*arguments: Any) -> StreamTable:
        monkeypatch.setattr(mirrors, "create", create)
        act()
        return create(*arguments)

    monkeypatch.setattr(mirrors, "create", acting)


@by_triggers
def test_two_threads_name_a_new_table_at_once(events: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    it_came, beside = threading.Event(), list[Beside]()

    def meanwhile() -> None:
        beside.append(Beside(lambda: events.create("b", EVENTS), it_came))
        assert it_came.wait(LONGEST)

    monkeypatch.setattr(events.fl._captures, "_making", Watched(it_came), raising=False)
    before_it_is_made(events, monkeypatch, meanwhile)
    events.create("a", EVENTS)
    assert beside[0].returned() is None
    events.run("INSERT INTO events VALUES (3, 'c')")
    events.refreshed()
    events.check()


@by_triggers
def test_another_process_names_a_new_table_first(events: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    with freshlake.connect(events.fl.path, settings=ANY_SHARE) as other:
        before_it_is_made(events, monkeypatch, lambda: other.create_stream_table("b", EVENTS) and None)
        events.create("a", EVENTS)
    events.queries["b"] = EVENTS
    events.refreshed()
    events.check()


@by_triggers
@pytest.mark.parametrize("step", ["ChangeLogged.create", "Catalog.put_captured"])
def test_a_mirror_that_cannot_be_made_leaves_nothing(
    events: Orders, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kind = {
        "ChangeLogged": freshlake.service.mirrors.ChangeLogged,
        "Catalog": type(events.fl._engine.catalog),
    }[step.partition(".")[0]]

    def fails(*arguments: Any, **options: Any) -> None:
        raise OSError("no space left on device")

    streams = events.fl.path / "_freshlake/streams"
    before = {entry.name for entry in streams.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(kind, step.partition(".")[2], fails)
        with pytest.raises((OSError, freshlake.errors.FreshlakeError)):
            events.create("a", EVENTS)
    assert events.fl._engine.catalog.find("shop.public.events") is None
    assert {entry.name for entry in streams.iterdir()} == before
    events.create("a", EVENTS)
    events.check()
