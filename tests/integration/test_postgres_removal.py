"""Removal of capture: what could not be removed at once goes later, also when the database is captured again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.delivery.columns import Column
from freshlake.delivery.target import Place, Target
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.removals import Removals
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.tables import capture_nothing
from freshlake.sources.postgres.trigger.install import install
from freshlake.sources.postgres.wal.capture import WalCapture
from freshlake.sources.postgres.wal.publication import publish
from tests.integration.capture_database import Database, new_database
from tests.integration.capture_shop import NOW, Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    with opened(database, tmp_path, ("public.t", "public.u")) as made:
        yield made


@pytest.fixture
def removals(shop: Shop) -> Removals:
    return Removals(shop.catalog, lambda name: shop.shop)


def add_log(shop: Shop) -> None:
    """As if tables had been captured from the log."""
    with shop.shop.pool.take() as connection:
        tables = publish(connection, shop.shop.names, list(shop.captured.values()))
    with shop.shop.log.create_slot(tables):
        pass


def is_captured_by(shop: Shop, mode: Mode) -> None:
    state = replace(shop.shop.state(), mode=mode)
    shop.catalog.put_capture("shop", state.to_json(), state.word)


def left(shop: Shop) -> dict[str, Any]:
    """What of ours is in the database."""
    queries = {
        "slots": "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()",
        "published": "SELECT count(*) FROM pg_publication_tables",
        "full": "SELECT count(*) FROM pg_class WHERE relreplident = 'f' AND relnamespace = 'public'::regnamespace",
        "triggered": "SELECT count(DISTINCT tgrelid) FROM pg_trigger WHERE tgname ~ '^freshlake'",
        "buffers": "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^changes_'",
    }
    return {name: shop.database.one(query) for name, query in queries.items()}


BY_TRIGGERS = {"slots": 0, "published": 0, "full": 0, "triggered": 2, "buffers": 2}
BY_LOG = {"slots": 1, "published": 2, "full": 2, "triggered": 0, "buffers": 0}
NOTHING = dict.fromkeys(BY_LOG, 0)


@pytest.mark.parametrize(("mode", "rest"), [(Mode.TRIGGER, BY_TRIGGERS), (Mode.WAL, BY_LOG)])
def test_of_a_database_that_is_captured_again_the_other_way_goes(
    shop: Shop, removals: Removals, mode: Mode, rest: dict[str, int]
) -> None:
    add_log(shop)
    removal = removals.add(shop.catalog.database("shop"), None)
    is_captured_by(shop, mode)
    assert removals.remove(removal)
    assert left(shop) == rest
    assert shop.catalog.removals() == ()
    if mode is Mode.TRIGGER:
        start = shop.shop.head()
        shop.database.run("INSERT INTO t VALUES (1)")
        assert shop.batch("t", start, shop.shop.head())[1].total() == 1


def test_a_table_that_is_not_captured_any_more_goes_with_the_other_way(shop: Shop, removals: Removals) -> None:
    removals.add(shop.catalog.database("shop"), None)
    shop.catalog.delete(shop.mirrors["u"].id)
    removals.retry("another")
    assert left(shop) == BY_TRIGGERS
    removals.retry("shop")
    assert left(shop) == {**BY_TRIGGERS, "triggered": 1, "buffers": 1}


@pytest.mark.parametrize("mode", Mode)
def test_of_one_table_that_is_captured_again_the_other_way_goes(shop: Shop, removals: Removals, mode: Mode) -> None:
    add_log(shop)
    is_captured_by(shop, mode)
    assert removals.remove(removals.add(shop.catalog.database("shop"), shop.captured["t"].oid))
    both = {**BY_LOG, "triggered": 2, "buffers": 2}
    by_triggers = {**both, "published": 1, "full": 1}
    assert left(shop) == (by_triggers if mode is Mode.TRIGGER else {**both, "triggered": 1, "buffers": 1})


def test_nothing_goes_as_long_as_it_is_on_its_way_to_the_other_kind(shop: Shop, removals: Removals) -> None:
    add_log(shop)
    begun = replace(shop.shop.state(), since=NOW)
    shop.catalog.put_capture("shop", begun.to_json(), begun.word)
    removal = removals.add(shop.catalog.database("shop"), None)
    assert not removals.remove(removal)
    assert left(shop) == {**BY_LOG, "triggered": 2, "buffers": 2}
    assert shop.catalog.removals() == (removal,)


def test_what_cannot_be_reached_is_removed_later(
    shop: Shop, removals: Removals, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_log(shop)
    for mirror in shop.mirrors.values():
        shop.catalog.delete(mirror.id)
    with monkeypatch.context() as away:
        away.setenv(shop.database.reference.name, "postgresql://nobody@127.0.0.1:1/none")
        assert not removals.remove(removals.add(shop.catalog.database("shop"), None))
    (waiting,) = shop.catalog.removals()
    assert (waiting.attempts, left(shop)["slots"]) == (1, 1)
    removals.retry()
    assert left(shop) == NOTHING
    assert shop.catalog.removals() == ()


def test_another_database_may_have_the_name_of_one_that_is_left_over(shop: Shop, removals: Removals) -> None:
    """Its slot would keep the log of its server for ever."""
    is_captured_by(shop, Mode.WAL)
    with new_database(shop.database.server) as other, connect(other.reference) as connection:
        other.run("CREATE TABLE t (id int PRIMARY KEY)")
        tables = publish(connection, shop.shop.names, [other.captured("public.t")])
        with WalCapture(Pool(other.reference), shop.shop.names).create_slot(tables):
            pass
        what = {"project": shop.shop.names.project, "schema": shop.shop.names.schema, "oid": None}
        assert removals.remove(shop.catalog.add_removal("shop", str(other.reference), what))
        slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        assert (other.one(slots), other.one("SELECT count(*) FROM pg_publication")) == (0, 0)
    assert left(shop) == BY_TRIGGERS


def test_a_table_of_another_database_may_have_the_number_of_a_captured_one(shop: Shop, removals: Removals) -> None:
    with new_database(shop.database.server) as other, connect(other.reference) as connection:
        other.run("CREATE TABLE t (id int PRIMARY KEY)")
        names, (made,) = shop.shop.names, install(connection, shop.shop.names, [other.captured("public.t")])
        what = {"project": names.project, "schema": names.schema, "oid": made.captured.oid}
        mine = shop.captured["t"]
        same = replace(mine, table=replace(mine.table, oid=made.captured.oid))
        shop.shop.put(shop.mirrors["t"], same, shop.shop.state())
        assert removals.remove(shop.catalog.add_removal("shop", str(other.reference), what))
        assert other.one("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^freshlake'") == 0
    assert left(shop) == BY_TRIGGERS


def test_what_was_delivered_to_another_database_of_that_name_goes(shop: Shop, removals: Removals) -> None:
    column, what = Column("id", "bigint"), {"delivered": "public.copy", "lake": shop.catalog.lake_id}
    shop.catalog.insert_delivery(shop.mirrors["t"].id, "shop", "public.copy")
    with new_database(shop.database.server) as other:
        for database, count in ((other, 0), (shop.database, 1)):
            with connect(database.reference) as connection, transaction(connection) as cursor:
                Target(shop.catalog.lake_id, "public", "copy", (column,)).make(cursor, Place("", 0, 0))
            assert removals.remove(shop.catalog.add_removal("shop", str(database.reference), what))
            assert database.one("SELECT count(*) FROM pg_tables WHERE tablename = 'copy'") == count


def test_what_is_left_goes_before_the_first_table_is_captured_again(shop: Shop, tmp_path: Path) -> None:
    add_log(shop)
    layout = SimpleNamespace(staging=tmp_path / "staging")
    settings = SimpleNamespace(block_source_ddl=False)
    engine = SimpleNamespace(catalog=shop.catalog, spark=None, layout=layout, settings=settings)
    captures = Captures(cast(Engine, engine), cast(Any, None))
    captures.removals.add(shop.catalog.database("shop"), None)
    for name, captured in shop.captured.items():
        shop.shop.put(shop.mirrors[name], capture_nothing(captured), shop.shop.state())
    edge = SimpleNamespace(stream_table_id=shop.mirrors["t"].id, source_name="shop.public.t", columns_used=None)
    captures.follow(cast(Any, [edge]))
    assert left(shop) == {**BY_TRIGGERS, "triggered": 1, "buffers": 1}
    captures.close()
