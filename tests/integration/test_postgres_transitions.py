"""From triggers to the log and back while mirrors go on: nothing is copied anew, nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import CaptureBusy, CaptureUnsupported, InvalidArgument
from freshlake.service.transitions import MAX_FAILURES
from freshlake.sources.postgres.handover import to_wal
from tests.integration.capture_database import Database, new_database
from tests.integration.lakes import ANY_SHARE, bag
from tests.integration.postgres_server import LOGICAL, binaries, server

PATIENCE = 3600
SETTINGS = {**ANY_SHARE, "wal_min_changes_per_second": 0, "wal_transition_timeout": PATIENCE}
TABLES = """
CREATE TABLE orders (id bigint PRIMARY KEY, region text);
CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint, price numeric(10, 2));
INSERT INTO orders VALUES (1, 'north'), (2, 'south');
INSERT INTO items VALUES (1, 1, 10), (2, 1, 10), (3, 2, 5.5);
"""
REVENUE = (
    "SELECT o.region, count(*) AS items, sum(i.price) AS total "
    "FROM shop.public.orders o JOIN shop.public.items i ON o.id = i.order_id GROUP BY o.region"
)
MIRRORS = ("shop.public.orders", "shop.public.items")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with server(binaries(), LOGICAL) as running, new_database(running) as made:
        made.run(TABLES)
        yield made


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, database: Database
) -> Iterator[freshlake.Freshlake]:
    with freshlake.connect(tmp_path_factory.mktemp("transitions"), settings=SETTINGS) as lake:
        lake.add_postgres("shop", str(database.reference), cdc_mode="trigger")
        lake.create_stream_table("revenue", REVENUE)
        yield lake


@pytest.fixture(autouse=True)
def by_triggers(fl: freshlake.Freshlake, database: Database) -> Iterator[None]:
    """Each test begins and ends with triggers alone."""
    assert captured_by(fl) == "trigger"
    assert installed(database) == ("triggers",)
    yield
    fl.alter_source("shop", cdc_mode="trigger")
    fl.refresh_all()
    assert_as_in(fl, database)
    assert installed(database) == ("triggers",)


def captured_by(fl: freshlake.Freshlake) -> str:
    (shop,) = fl.list_sources()
    assert {line.cdc_mode for line in fl.cdc_status()} == {shop.captured_by}
    return shop.captured_by


def installed(database: Database) -> tuple[str, ...]:
    """What of ours is in the database."""
    counts = {
        "triggers": "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^freshlake'",
        "slot": "SELECT count(*) FROM pg_replication_slots",
        "publication": "SELECT count(*) FROM pg_publication",
        "full": "SELECT count(*) FROM pg_class WHERE relreplident = 'f' AND relnamespace = 'public'::regnamespace",
    }
    return tuple(name for name, query in counts.items() if database.one(query))


def write(database: Database, number: int) -> None:
    """One transaction over both tables, with all that can happen to a row."""
    database.run(
        f"BEGIN; INSERT INTO orders VALUES ({number}, 'west'); INSERT INTO items VALUES ({number}, {number}, 1.25);"
        f"UPDATE orders SET region = region || '{number}' WHERE id = 1; SAVEPOINT s;"
        f"DELETE FROM items; ROLLBACK TO s; UPDATE items SET price = price + 1 WHERE id IN (1, 3); COMMIT"
    )


def assert_as_in(fl: freshlake.Freshlake, database: Database) -> None:
    for table in ("orders", "items"):
        mirror = fl.table(f"shop.public.{table}")
        theirs = database.application.execute(f"SELECT {', '.join(mirror.columns)} FROM {table}".encode()).fetchall()
        assert bag(map(tuple, mirror.collect())) == bag(theirs)
    joined = database.application.execute(REVENUE.replace("shop.public.", "").encode()).fetchall()
    assert bag(map(tuple, fl.table("revenue").collect())) == bag(joined)


def assert_follows(fl: freshlake.Freshlake, database: Database) -> None:
    """A refresh takes changes, and copies nothing."""
    results = {r.table: (str(r.action), r.reason) for r in fl.refresh_all()}
    assert {results[name] for name in MIRRORS} <= {("DIFFERENTIAL", None), ("NO_DATA", None)}
    assert_as_in(fl, database)


def transitions(fl: freshlake.Freshlake) -> list[str]:
    told = [alert.payload for alert in fl.alerts(limit=10_000) if str(alert.event) == "cdc_transition"]
    return [payload["transition"] for payload in reversed(told)]


def later(fl: freshlake.Freshlake, seconds: float = 0) -> datetime:
    return fl._engine.clock.now() + timedelta(seconds=seconds)


def test_mirrors_go_to_the_log_and_back_with_their_next_refresh(fl: freshlake.Freshlake, database: Database) -> None:
    before = len(transitions(fl))
    write(database, 10)
    fl.sql("ALTER SOURCE shop SET CDC MODE WAL")
    assert captured_by(fl) == "transitioning"
    assert installed(database) == ("triggers", "slot", "publication", "full")
    write(database, 11)
    assert_follows(fl, database)
    assert (captured_by(fl), installed(database)) == ("wal", ("slot", "publication", "full"))
    write(database, 12)
    assert_follows(fl, database)
    assert all(fl.verify(name).equal for name in (*MIRRORS, "revenue"))
    write(database, 13)
    fl.alter_source("shop", cdc_mode="trigger")
    assert captured_by(fl) == "transitioning"
    write(database, 14)
    assert_follows(fl, database)
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    assert transitions(fl)[before:] == ["transition_start", "transition_complete"] * 2


def told_of(fl: freshlake.Freshlake) -> list[tuple[object, ...]]:
    """Every step that was told, in order: what it was, from which mode to which, and whether it says why."""
    found = [alert.payload for alert in reversed(fl.alerts(1000, event="cdc_transition"))]
    return [(p["transition"], p["old_mode"], p["new_mode"], p["reason"] is not None) for p in found]


def test_every_step_of_a_transition_is_told_with_its_modes(fl: freshlake.Freshlake, database: Database) -> None:
    before = len(told_of(fl))
    fl.alter_source("shop", cdc_mode="wal")
    assert told_of(fl)[before:] == [("transition_start", "trigger", "transitioning", False)]
    write(database, 15)
    assert_follows(fl, database)
    assert told_of(fl)[before + 1 :] == [("transition_complete", "transitioning", "wal", False)]
    fl.alter_source("shop", cdc_mode="auto")
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    fl._upkeep.run(later(fl))
    (rolled_back,) = told_of(fl)[before + 2 :]
    assert (rolled_back[0], rolled_back[1], rolled_back[3]) == ("transition_rolled_back", "wal", True)
    last = fl.alerts(1, event="cdc_transition")[0].payload
    assert (last["source"], sorted(last["tables"])) == ("shop", ["public.items", "public.orders"])
    assert "slot" in last["reason"]


def test_a_transition_that_no_mirror_has_crossed_is_taken_back(fl: freshlake.Freshlake, database: Database) -> None:
    write(database, 20)
    fl.alter_source("shop", cdc_mode="wal")
    write(database, 21)
    fl.alter_source("shop", cdc_mode="trigger")
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    write(database, 22)
    assert_follows(fl, database)


def test_a_mirror_that_has_crossed_alone_comes_back_too(fl: freshlake.Freshlake, database: Database) -> None:
    class Killed(BaseException):
        """As if the process had ended here."""

    def kill(step: str) -> None:
        if step == "committed":
            raise Killed

    write(database, 30)
    fl.alter_source("shop", cdc_mode="wal")
    write(database, 31)
    with freshlake.connect(fl.path, settings=SETTINGS) as victim:
        victim._engine.observer = kill
        with pytest.raises(Killed):
            victim.refresh_all()
    write(database, 32)
    fl.alter_source("shop", cdc_mode="trigger")
    assert captured_by(fl) == "transitioning", "what one mirror has read from the log must be read on from there"
    write(database, 33)
    assert_follows(fl, database)


def test_who_died_while_making_a_slot_leaves_nothing(fl: freshlake.Freshlake, database: Database) -> None:
    transition = fl._upkeep.transitions.of("shop")
    assert transition.begin()
    shop = transition.database
    with to_wal(shop.pool, shop.names, [mine.captured for mine in shop.mirrored()]):
        pass  # the slot stays, and nobody has stored the hand-over
    assert not transition.begin(), "others leave it alone"
    write(database, 40)
    assert_follows(fl, database)
    fl._upkeep.run(later(fl, 1))
    assert captured_by(fl) == "transitioning", "it may still be on its way"
    fl._upkeep.run(later(fl, PATIENCE + 1))
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    assert transitions(fl)[-1] == "transition_rolled_back"


def test_a_long_transaction_lets_a_transition_fail_and_everything_as_it_was(
    fl: freshlake.Freshlake, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = fl._engine.settings.model_copy(update={"wal_transition_timeout": 1})
    monkeypatch.setattr(fl._engine, "settings", impatient)
    with database.connect() as long:
        long.execute("BEGIN")
        long.execute("SELECT pg_current_xact_id()")
        with pytest.raises(CaptureBusy):
            fl.alter_source("shop", cdc_mode="wal")
        assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
        long.execute("ROLLBACK")
    assert fl.list_sources()[0].cdc_mode == "trigger"


def test_what_the_log_cannot_serve_is_refused_and_stays_by_triggers(
    fl: freshlake.Freshlake, database: Database
) -> None:
    database.run("CREATE TABLE keyless (a int)")
    fl.create_stream_table("plain", "SELECT a FROM shop.public.keyless")
    with pytest.raises(CaptureUnsupported, match="keyless"):
        fl.alter_source("shop", cdc_mode="wal")
    with pytest.raises(InvalidArgument):
        fl.alter_source("shop", cdc_mode="telepathy")
    fl.alter_source("shop", cdc_mode="auto")
    fl._upkeep.run(later(fl))
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    assert "keyless" in fl._upkeep.transitions._reasons["shop"]
    fl.drop_stream_table("plain")
    database.run("DROP TABLE keyless")


def test_auto_stays_with_triggers_as_long_as_little_is_written(
    fl: freshlake.Freshlake, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = fl._engine.settings.model_copy(update={"wal_min_changes_per_second": 1000})
    monkeypatch.setattr(fl._engine, "settings", busy)
    fl.alter_source("shop", cdc_mode="auto")
    write(database, 45)
    fl.refresh_all()
    fl._upkeep.run(later(fl))
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    assert "1000 changes" in fl._upkeep.transitions._reasons["shop"]


def test_auto_goes_to_the_log_by_itself_and_back_when_its_slot_is_gone(
    fl: freshlake.Freshlake, database: Database
) -> None:
    fl.alter_source("shop", cdc_mode="auto")
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "transitioning"
    write(database, 50)
    assert_follows(fl, database)
    assert captured_by(fl) == "wal"
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "wal", "all is well"
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    write(database, 51)
    fl._upkeep.run(later(fl))
    write(database, 52)
    results = {r.table: (str(r.action), r.reason) for r in fl.refresh_all()}
    assert {results[name] for name in MIRRORS} == {("FULL", "history-lost")}
    assert_as_in(fl, database)
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))


def test_auto_goes_back_when_a_transition_takes_too_long_or_the_log_fails(
    fl: freshlake.Freshlake, database: Database
) -> None:
    fl.alter_source("shop", cdc_mode="auto")
    fl._upkeep.run(later(fl))
    write(database, 60)
    fl._upkeep.run(later(fl, PATIENCE + 1))
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",)), "nobody crossed it in time"
    assert_follows(fl, database)
    fl._upkeep.run(later(fl))
    write(database, 61)
    assert_follows(fl, database)
    assert captured_by(fl) == "wal"
    fl._captures.database("shop").batches.failures = MAX_FAILURES
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "transitioning"
    write(database, 62)
    assert_follows(fl, database)
    assert captured_by(fl) == "trigger"


def test_auto_goes_back_for_a_table_that_the_log_cannot_serve(fl: freshlake.Freshlake, database: Database) -> None:
    fl.alter_source("shop", cdc_mode="auto")
    fl._upkeep.run(later(fl))
    write(database, 65)
    assert_follows(fl, database)
    assert captured_by(fl) == "wal"
    database.run("CREATE TABLE keyless (a int); INSERT INTO keyless VALUES (1), (1)")
    with pytest.raises(CaptureUnsupported, match="keyless"):
        fl.create_stream_table("plain", "SELECT a FROM shop.public.keyless", cdc_mode="wal")
    assert captured_by(fl) == "wal"
    before = len(transitions(fl))
    fl.create_stream_table("plain", "SELECT a FROM shop.public.keyless")
    assert transitions(fl)[before] == "transition_start"
    write(database, 66)
    database.run("INSERT INTO keyless VALUES (2)")
    assert_follows(fl, database)
    assert bag(map(tuple, fl.table("plain").collect())) == bag([(1,), (1,), (2,)])
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "trigger", "it stays so for as long as the table is read"
    fl.drop_stream_table("plain")
    database.run("DROP TABLE keyless")


def test_auto_goes_back_for_a_table_that_was_made_again_without_a_key(
    fl: freshlake.Freshlake, database: Database
) -> None:
    database.run("CREATE TABLE again (a int PRIMARY KEY); INSERT INTO again VALUES (1)")
    fl.create_stream_table("plain", "SELECT a FROM shop.public.again")
    fl.alter_source("shop", cdc_mode="auto")
    fl._upkeep.run(later(fl))
    write(database, 67)
    assert_follows(fl, database)
    assert captured_by(fl) == "wal"
    database.run("DROP TABLE again; CREATE TABLE again (a int); INSERT INTO again VALUES (2), (2)")
    fl.refresh_all()
    write(database, 68)
    database.run("INSERT INTO again VALUES (3)")
    assert_follows(fl, database)
    assert bag(map(tuple, fl.table("plain").collect())) == bag([(2,), (2,), (3,)])
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    fl.drop_stream_table("plain")
    database.run("DROP TABLE again")


def test_a_stream_table_that_asks_for_triggers_keeps_its_source_from_the_log(
    fl: freshlake.Freshlake, database: Database
) -> None:
    fl.alter_source("shop", cdc_mode="auto")
    fl.create_stream_table("regions", "SELECT DISTINCT region FROM shop.public.orders", cdc_mode="trigger")
    fl._upkeep.run(later(fl))
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    with pytest.raises(InvalidArgument, match="regions asks for trigger") as refused:
        fl.alter_stream_table("revenue", cdc_mode="wal")
    assert "regions SET (cdc_mode = inherit)" in str(refused.value.hint)
    with pytest.raises(InvalidArgument, match="regions asks for trigger"):
        fl.create_stream_table("prices", "SELECT price FROM shop.public.items", cdc_mode="wal")
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    fl.sql("ALTER STREAM TABLE regions SET (cdc_mode = inherit)")
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "transitioning", "nobody asks for triggers any more"
    fl.drop_stream_table("regions")


def test_a_stream_table_brings_its_source_to_the_log_and_back(fl: freshlake.Freshlake, database: Database) -> None:
    fl.alter_stream_table("revenue", cdc_mode="wal")
    assert captured_by(fl) == "transitioning"
    write(database, 80)
    assert_follows(fl, database)
    assert (captured_by(fl), installed(database)) == ("wal", ("slot", "publication", "full"))
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "wal", "the source itself says trigger"
    fl.alter_source("shop", cdc_mode="trigger")
    assert captured_by(fl) == "wal", "a stream table asks for the log"
    with pytest.raises(InvalidArgument, match="IMMEDIATE"):
        fl.alter_stream_table("revenue", refresh_mode="IMMEDIATE")
    fl.alter_stream_table("revenue", cdc_mode="inherit")
    write(database, 81)
    assert_follows(fl, database)
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))


def test_what_a_stream_table_asks_for_is_done_when_it_can_be(
    fl: freshlake.Freshlake, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = fl._engine.settings.model_copy(update={"wal_transition_timeout": 1})
    with monkeypatch.context() as patched, database.connect() as long:
        patched.setattr(fl._engine, "settings", impatient)
        long.execute("BEGIN")
        long.execute("SELECT pg_current_xact_id()")
        fl.alter_stream_table("revenue", cdc_mode="wal")
        long.execute("ROLLBACK")
    assert "source shop goes to wal later" in caplog.text
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "transitioning"
    write(database, 82)
    assert_follows(fl, database)
    assert captured_by(fl) == "wal"
    monkeypatch.setattr(fl._upkeep.transitions, "move", _busy)
    fl.alter_stream_table("revenue", cdc_mode="inherit")
    monkeypatch.undo()
    assert captured_by(fl) == "wal"
    fl._upkeep.run(later(fl))
    assert captured_by(fl) == "transitioning", "the source itself says trigger"
    assert not fl._upkeep.transitions.owed


def _busy(name: str, mode: object) -> None:
    raise CaptureBusy(f"{name} does not go to {mode} now")


def test_a_stream_table_cannot_ask_for_a_log_without_old_rows(fl: freshlake.Freshlake, database: Database) -> None:
    database.run("CREATE TABLE keyless (a int)")
    with pytest.raises(CaptureUnsupported, match="keyless"):
        fl.create_stream_table("plain", "SELECT a FROM shop.public.keyless", cdc_mode="wal")
    assert "plain" not in {line.name for line in fl.status()}
    assert (captured_by(fl), installed(database)) == ("trigger", ("triggers",))
    database.run("DROP TABLE keyless")


def test_the_first_stream_table_over_a_source_decides_how_its_capture_begins(
    fl: freshlake.Freshlake, database: Database
) -> None:
    with server(binaries(), LOGICAL) as running, new_database(running) as fresh:
        fresh.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        for source, asked, there in (
            ("wal", "trigger", ("triggers",)),
            ("trigger", "wal", ("slot", "publication", "full")),
        ):
            fl.add_postgres("mall", str(fresh.reference), cdc_mode=source)
            fl.create_stream_table("ids", "SELECT id FROM mall.public.t", cdc_mode=asked)
            assert {s.name: s.captured_by for s in fl.list_sources()} == {"mall": asked, "shop": "trigger"}
            assert installed(fresh) == there
            assert "transition_start" not in [
                alert.payload["transition"]
                for alert in fl.alerts()
                if str(alert.event) == "cdc_transition" and alert.payload["source"] == "mall"
            ]
            fl.drop_source("mall", cascade=True)
            assert installed(fresh) == ()


def test_auto_without_a_logical_log_is_triggers_and_wal_is_refused(fl: freshlake.Freshlake) -> None:
    with server(binaries()) as running, new_database(running) as plain:
        plain.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureUnsupported, match="log"):
            fl.add_postgres("mall", str(plain.reference), cdc_mode="wal")
        assert [source.name for source in fl.list_sources()] == ["shop"], "nothing is left of it"
        fl.add_postgres("mall", str(plain.reference))
        fl.create_stream_table("ids", "SELECT id FROM mall.public.t")
        fl._upkeep.run(later(fl))
        plain.run("INSERT INTO t VALUES (2)")
        fl.refresh("ids")
        assert bag(map(tuple, fl.table("ids").collect())) == bag([(1,), (2,)])
        assert {s.name: s.captured_by for s in fl.list_sources()} == {"mall": "trigger", "shop": "trigger"}
        fl.drop_source("mall", cascade=True)
