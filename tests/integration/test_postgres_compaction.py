"""Buffers that grow long are compacted by themselves, and every mirror still gets every state right."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.errors import CaptureBusy, SourceHistoryLost, SourceUnreachable
from freshlake.sources.captured.compaction import Compaction
from freshlake.sources.captured.positions import place_of
from freshlake.sources.captured.state import CaptureState, Compacted
from freshlake.sources.postgres.events import WEIGHT
from freshlake.sources.protocol import Position
from tests.integration.capture_database import Bag, Database, bag
from tests.integration.capture_mirror import NAMES, TABLES, Load
from tests.integration.capture_mirror import added as added_to
from tests.integration.capture_shop import NOW, Shop, opened
from tests.integration.lakes import ANY_SHARE
from tests.integration.lakes import bag as bag_of

LEAST = 100
CHURN = (
    "INSERT INTO t SELECT i, 'x' FROM generate_series(1, {n}) i; UPDATE t SET a = a || 'y'; DELETE FROM t WHERE id > 2"
)


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int, a text); CREATE TABLE u (id int)")
    with opened(database, tmp_path, ("public.t", "public.u")) as made:
        yield made


def test_a_long_buffer_is_compacted_and_the_next_batch_is_the_same(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    start = shop.shop.head()
    shop.database.run(CHURN.format(n=60))
    shop.database.run("INSERT INTO u SELECT generate_series(1, 90)")
    before = shop.batch("t", start, end := shop.shop.head())
    assert shop.rows("t") == 178
    with caplog.at_level(logging.INFO, "freshlake"):
        shop.compacting(LEAST).consider()
    assert (shop.rows("t"), shop.rows("u")) == (2, 90), "the other one is not long"
    assert shop.batch("t", start, end) == before
    assert "the buffer of shop.public.t is compacted: 178 changes became 2" in caplog.text


def test_nothing_is_compacted_below_the_threshold_or_without_one(shop: Shop) -> None:
    shop.database.run(CHURN.format(n=60))
    for threshold in (178, 0):
        shop.compacting(threshold).consider()
    assert shop.rows("t") == 178
    shop.compacting(177).consider()
    assert shop.rows("t") == 2


def test_nothing_is_added_up_across_a_position_that_a_mirror_stands_at(shop: Shop) -> None:
    start = shop.shop.head()
    shop.database.run(CHURN.format(n=60))
    middle = shop.shop.head()
    shop.moves("u", middle)
    shop.database.run("UPDATE t SET a = 'z'; DELETE FROM t; INSERT INTO t VALUES (1, 'xy')")
    end = shop.shop.head()
    ways = [(start, middle), (middle, end), (start, end)]
    before = [shop.batch("t", *way) for way in ways]
    shop.compacting(LEAST).consider()
    assert shop.rows("t") < 10
    assert [shop.batch("t", *way) for way in ways] == before
    shop.moves("u", end)
    shop.database.run(CHURN.format(n=60))
    shop.compacting(LEAST).consider()
    assert shop.batch("t", start, end) == before[2]


def _refreshed(shop: Shop) -> Callable[[], None]:
    lease = shop.leased("u")
    return lambda: shop.catalog.release_lease(lease)


def _copied(shop: Shop) -> Callable[[], None]:
    shop.catalog.mark_resync(shop.mirrors["u"].id, "history-lost: a gap")
    return lambda: shop.catalog.mark_resync(shop.mirrors["u"].id, None)


def _on_its_way(shop: Shop) -> Callable[[], None]:
    state = shop.shop.state()
    begun = replace(state, since=NOW)
    shop.catalog.put_capture("shop", begun.to_json(), begun.word)
    return lambda: shop.catalog.put_capture("shop", state.to_json(), state.word)


@pytest.mark.parametrize("begins", [_refreshed, _copied, _on_its_way])
def test_nothing_is_compacted_while_mirrors_are_on_their_way(
    shop: Shop, begins: Callable[[Shop], Callable[[], None]]
) -> None:
    shop.database.run(CHURN.format(n=60))
    ends = begins(shop)
    compacting = shop.compacting(LEAST)
    compacting.consider()
    assert shop.rows("t") == 178
    assert shop.shop.state().compacted == Compacted(0)
    ends()
    compacting.consider()
    assert shop.rows("t") == 2


def test_who_has_pinned_a_position_before_goes_to_a_newer_one(shop: Shop) -> None:
    start = shop.shop.head()
    shop.database.run("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 60) i")
    late = shop.shop.head()
    table, tables = shop.captured["t"], list(shop.captured.values())
    read = shop.shop.batches.change(table, start, late, lambda: tables)
    assert read.rows.inserted == 60
    shop.database.run("UPDATE t SET a = 'y'; DELETE FROM t WHERE id > 2")
    shop.compacting(LEAST).consider()
    with pytest.raises(CaptureBusy, match="position"):
        shop.shop.batches.change(table, start, late, lambda: tables)
    end = shop.shop.attainable(late)
    assert end == shop.shop.head() != late
    assert shop.shop.attainable(end) == end
    assert shop.shop.batches.change(table, start, end, lambda: tables).rows.count == 2
    with pytest.raises(SourceHistoryLost, match="position"):
        shop.shop.batches.change(table, late, end, lambda: tables)
    with pytest.raises(SourceHistoryLost, match="position"):
        shop.shop.batches.since(table, late, place_of(end))


def test_a_claim_never_takes_back_what_another_has_said(shop: Shop) -> None:
    start = shop.shop.head()
    shop.database.run(CHURN.format(n=60))
    compaction = Compaction(shop.shop, shop.catalog)
    early = shop.shop.head()
    said = CaptureState(compacted=Compacted(early.version + 5, (start.version,)))
    shop.catalog.put_capture("shop", said.to_json(), said.word)
    assert compaction.claim() is None
    assert shop.shop.state() == said
    lost = CaptureState(compacted=Compacted(early.version, ()))
    shop.catalog.put_capture("shop", lost.to_json(), lost.word)
    assert compaction.claim() is None, "a mirror stands where changes may have been added up across"


def test_there_is_nothing_to_claim_where_all_was_read(shop: Shop) -> None:
    shop.database.run(CHURN.format(n=60))
    for name in shop.mirrors:
        shop.moves(name, shop.shop.head())
    assert Compaction(shop.shop, shop.catalog).claim() is None
    shop.shop.release()
    assert shop.rows("t") == 0


def test_a_buffer_that_cannot_be_made_shorter_is_left_alone_until_it_has_grown(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    compacting = shop.compacting(LEAST)
    fill = "INSERT INTO t SELECT i, 'x' FROM generate_series(1, {n}) i"
    with caplog.at_level(logging.INFO, "freshlake"):
        for rows in (150, 149, 1):
            shop.database.run(fill.format(n=rows))
            compacting.consider()
    told = [message.partition(": ")[2] for message in caplog.messages]
    assert told == ["150 changes became 150", "300 changes became 300"]


def test_a_database_that_does_not_answer_is_said_once_and_harms_nobody(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.database.run(CHURN.format(n=60))
    compacting = shop.compacting(LEAST)

    def fails(*_: Any) -> None:
        raise SourceUnreachable("the source database did not answer")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "freshlake"):
        broken.setattr(Compaction, "run", fails)
        compacting.consider()
        compacting.consider()
    assert caplog.messages == ["buffers of source shop are compacted later: the source database did not answer"]
    compacting.consider()
    assert shop.rows("t") == 2


class Followed:
    """Mirrors as bags, refreshed a few at a time, each to where the database can be looked at."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.compared = shop, 0
        with shop.shop.copying(list(shop.captured.values())) as at:
            self.contents = {name: self._theirs(name, at) for name in shop.captured}
        for name in shop.captured:
            shop.moves(name, at)

    def refresh(self, names: Sequence[str]) -> None:
        """As a round does it: what was pinned before the leases may have been overtaken by a compaction."""
        shop, tables = self.shop, self.shop.captured
        with shop.shop.copying(list(tables.values())) as at:
            leases = {name: shop.leased(name) for name in names}
            end = shop.shop.attainable(at)
            landed = {name: self._landed(name, end) for name in names}
            for name, lease in leases.items():
                shop.moves(name, end, lease)
            if end == at:
                assert landed == {name: self._theirs(name, at) for name in names}
                self.compared += 1
        self.contents |= landed
        shop.shop.release()

    def _theirs(self, name: str, at: Position) -> Bag:
        snapshot = self.shop.shop._held[at].point.snapshot
        return self.shop.database.rows(self.shop.captured[name], snapshot)

    def _landed(self, name: str, end: Position) -> Bag:
        shop, table = self.shop, self.shop.captured[name]
        start = next(m for m in shop.shop.mirrored() if m.captured.oid == table.oid).stands_at(shop.shop.key)
        assert start is not None
        change = shop.shop.change(table, start, end)
        assert change.resync is None
        rows = change.rows.table
        weighted = bag([] if rows is None else rows.rename_columns([*rows.column_names[:-1], WEIGHT]).to_batches())
        return added_to(Counter() if change.truncated else self.contents[name], weighted)


def under_load(database: Database, folder: Path, *, seed: int, transactions: int) -> None:
    database.run(TABLES)
    with opened(database, folder, NAMES) as shop:
        followed = Followed(shop)
        work = Load(database, writers=4, transactions=transactions, seed=seed)
        with repeated(partial(_compact, shop)) as failures:
            _follow(followed, work, Random(seed))
        assert not failures
        assert followed.compared > 1
        assert shop.shop.state().compacted.upto > 1, "something was compacted"


def _compact(shop: Shop) -> None:
    shop.compacting(5).consider()


def _follow(followed: Followed, work: Load, random: Random) -> None:
    names = list(followed.contents)
    while not work.is_over:
        followed.refresh(random.sample(names, random.randint(1, len(names))))
    work.wait()
    followed.refresh(names)


@contextmanager
def repeated(act: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Something that is done again and again in a thread of its own; what it raises is told."""
    over, failures = Event(), list[BaseException]()

    def run() -> None:
        while not over.wait(0.005):
            try:
                act()
            except BaseException as error:
                failures.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        over.set()
        thread.join()


def test_mirrors_are_right_at_every_position_while_buffers_are_compacted(database: Database, tmp_path: Path) -> None:
    under_load(database, tmp_path, seed=1, transactions=15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_mirrors_are_right_while_buffers_are_compacted_for_long(database: Database, tmp_path: Path, seed: int) -> None:
    under_load(database, tmp_path, seed=seed, transactions=40)


def test_a_scheduler_compacts_and_the_next_refresh_is_right(
    spark: SparkSession, tmp_path: Path, database: Database
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    database.run("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)")
    query = "SELECT t.a, count(*) AS n FROM {0}t t JOIN {0}u u ON t.id >= u.id GROUP BY t.a"
    with freshlake.connect(tmp_path, settings={**ANY_SHARE, "compact_threshold": 1000}) as fl:
        fl.add_postgres("shop", str(database.reference), cdc_mode="trigger")
        fl.create_stream_table("counted", query.format("shop.public."))
        for turn in range(3):
            for _ in range(6):
                database.run(
                    f"UPDATE t SET a = a || '{turn}'; INSERT INTO t SELECT i, 'x' FROM generate_series(9, 99) i"
                )
                database.run("DELETE FROM t WHERE id > 8 OR a IS NULL; INSERT INTO u SELECT max(id) + 1 FROM u")
        database.run("UPDATE t SET a = 'x' || a; INSERT INTO t SELECT i, 'new' FROM generate_series(3, 1200) i")
        assert _waiting(fl)["public.t"] > 4000
        fl._upkeep.run(fl._engine.clock.now())
        assert _waiting(fl) == {"public.t": 1200, "public.u": 18}
        database.run("DELETE FROM t WHERE id > 1000; TRUNCATE u; INSERT INTO u VALUES (5)")
        results = {result.table: str(result.action) for result in fl.refresh_all()}
        assert results["shop.public.t"] == "DIFFERENTIAL"
        assert _waiting(fl) == {"public.t": 0, "public.u": 0}
        for name in ("t", "u"):
            mirror = fl.table(f"shop.public.{name}")
            theirs = database.application.execute(f"SELECT {', '.join(mirror.columns)} FROM {name}".encode()).fetchall()
            assert bag_of(map(tuple, mirror.collect())) == bag_of(theirs)
        joined = database.application.execute(query.format("public.").encode()).fetchall()
        assert bag_of(map(tuple, fl.table("counted").collect())) == bag_of(joined)
        fl.drop_source("shop", cascade=True)


def _waiting(fl: freshlake.Freshlake) -> dict[str, int]:
    return {info.source_table: info.pending_rows for info in fl.change_buffer_sizes()}
