"""From triggers to the log and back, under load: no change is lost, and none is taken twice."""

from __future__ import annotations

import json
from random import Random

import pytest

from freshlake.errors import CaptureBusy, CaptureUnsupported
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import connect
from freshlake.sources.postgres.handover import Handover, to_triggers, to_wal
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.trigger.capture import TriggerCapture
from freshlake.sources.postgres.trigger.install import install, uninstall
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import unpublish
from tests.integration.capture_database import Database
from tests.integration.capture_mirror import NAMES, TABLES, Load, Mirror

PROJECT = Names("p1")
PATIENCE = 60.0


class Captured:
    """A database with both kinds of capture at hand, and a mirror that follows one of them."""

    def __init__(self, database: Database, *names: str) -> None:
        self.database, self.pool = database, Pool(database.reference)
        self.triggers, self.log = TriggerCapture(self.pool, PROJECT), WalCapture(self.pool, PROJECT)
        with connect(database.reference) as connection:
            made = install(connection, PROJECT, [database.captured(name) for name in names])
        self.mirror = Mirror.begin(database, self.triggers, [each.captured for each in made])

    def to_wal(self) -> Handover:
        """The last batch of the triggers is landed under the snapshot; the triggers stay."""
        with to_wal(self.pool, PROJECT, self.mirror.tables, lock_seconds=PATIENCE) as (handover, snapshot):
            events = self.triggers.read(self.mirror.position, handover.before, self.mirror.tables, snapshot=snapshot)
            self.mirror.land(events, handover.before)
            assert self.mirror.contents == self.mirror.copied(snapshot)
        self._continue(handover)
        return handover

    def to_triggers(self) -> Handover:
        """The last batch of the log is landed; the slot stays."""
        handover = to_triggers(self.pool, PROJECT, self.mirror.tables, lock_seconds=PATIENCE)
        self.mirror.land(self.log.read(self.mirror.position, handover.before, self.mirror.tables), handover.before)
        self._continue(handover)
        return handover

    def _continue(self, handover: Handover) -> None:
        stored = Handover.from_json(json.loads(json.dumps(handover.to_json())))
        assert stored == handover
        self.mirror.position, self.mirror.tables = stored.after, list(stored.tables)

    def remove_triggers(self) -> None:
        with self.pool.take() as connection:
            uninstall(connection, PROJECT, lock_seconds=PATIENCE)

    def remove_slot(self) -> None:
        self.log.drop_slot()
        with self.pool.take() as connection:
            unpublish(connection, PROJECT, lock_seconds=PATIENCE)


def test_a_table_goes_to_the_log_and_back(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')")
    captured = Captured(database, "public.t")
    database.run("INSERT INTO t VALUES (2, 'before')")
    assert captured.to_wal().mode is Mode.WAL
    database.run("UPDATE t SET b = 'both'")
    captured.mirror.check(captured.log)
    captured.remove_triggers()
    database.run("INSERT INTO t VALUES (3, 'log')")
    captured.mirror.check(captured.log)
    database.run("DELETE FROM t WHERE a = 1")
    assert captured.to_triggers().mode is Mode.TRIGGER
    database.run("UPDATE t SET b = 'both again'")
    captured.mirror.check(captured.triggers)
    captured.remove_slot()
    database.run("TRUNCATE t; INSERT INTO t VALUES (9, 'triggers')")
    captured.mirror.check(captured.triggers)
    assert database.one("SELECT relreplident::text FROM pg_class WHERE relname = 't'") == "d"


def test_a_transaction_that_lies_across_the_hand_over_is_taken_once(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    captured = Captured(database, "public.t")
    database.run("ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION freshlake_p1 FOR TABLE t")
    with database.connect() as one, database.connect() as two:
        one.execute("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureBusy), to_wal(captured.pool, PROJECT, captured.mirror.tables, slot_seconds=0.1):
            pass
        one.execute("COMMIT")
        captured.to_wal()
        two.execute("BEGIN; INSERT INTO t VALUES (2)")
        captured.mirror.follow(captured.log)
        two.execute("COMMIT")
    captured.mirror.check(captured.log)
    assert captured.mirror.count(captured.mirror.tables[0]) == 2


def test_a_hand_over_that_fails_leaves_the_triggers_in_charge(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    captured = Captured(database, "public.t")
    with pytest.raises(KeyboardInterrupt), to_wal(captured.pool, PROJECT, captured.mirror.tables):
        raise KeyboardInterrupt
    assert captured.log.slot_state() is None
    database.run("INSERT INTO t VALUES (1)")
    captured.mirror.check(captured.triggers)
    # one that died without a word left a slot, which is in nobody's way
    with captured.log.create_slot(captured.mirror.tables):
        pass
    captured.to_wal()
    database.run("INSERT INTO t VALUES (2)")
    captured.mirror.check(captured.log)


def test_a_hand_over_that_fails_leaves_the_log_in_charge(database: Database) -> None:
    database.run("CREATE TABLE t (a int PRIMARY KEY)")
    captured = Captured(database, "public.t")
    captured.to_wal()
    captured.remove_triggers()
    with database.connect() as writer:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(CaptureBusy):
            to_triggers(captured.pool, PROJECT, captured.mirror.tables, lock_seconds=0.1)
        writer.execute("COMMIT")
    assert database.one("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'freshlake%'") == 0
    captured.mirror.check(captured.log)


def test_a_table_that_the_log_cannot_serve_stays_with_its_triggers(database: Database) -> None:
    database.run("CREATE TABLE t (a int)")
    captured = Captured(database, "public.t")
    with pytest.raises(CaptureUnsupported, match=r"public\.t"):
        captured.to_wal()
    database.run("INSERT INTO t VALUES (1)")
    captured.mirror.check(captured.triggers)


def transitions(database: Database, seed: int, *, writers: int, transactions: int) -> None:
    """Back and forth while others write, at moments that nobody chose; at least once each way."""
    database.run(f"{TABLES}; ALTER TABLE events REPLICA IDENTITY FULL; ALTER TABLE archive REPLICA IDENTITY FULL")
    captured = Captured(database, *NAMES)
    work = Load(database, writers=writers, transactions=transactions, seed=seed)
    random, first = Random(seed), True
    while first or not work.is_over:
        _follow(captured.mirror, captured.triggers, random)
        captured.to_wal()
        _follow(captured.mirror, captured.log, random)
        captured.remove_triggers()
        _follow(captured.mirror, captured.log, random)
        captured.to_triggers()
        _follow(captured.mirror, captured.triggers, random)
        captured.remove_slot()
        first = False
    work.wait()
    captured.mirror.check(captured.triggers)


def _follow(mirror: Mirror, capture: TriggerCapture | WalCapture, random: Random) -> None:
    for _ in range(random.randint(0, 2)):
        mirror.follow(capture)
    if random.random() < 0.7:
        mirror.check(capture)


def test_nothing_is_lost_or_doubled_by_hand_overs_under_load(database: Database) -> None:
    transitions(database, 1, writers=8, transactions=6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_nothing_is_lost_or_doubled_by_many_hand_overs(database: Database, seed: int) -> None:
    transitions(database, seed, writers=8, transactions=40)
