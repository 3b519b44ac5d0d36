"""A database knows what it gave up: a lake or a database that was put back is not read as if nothing had happened."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from freshlake.catalog import Catalog
from freshlake.clock import ManualClock
from freshlake.errors import SourceHistoryLost, SourceReplaced
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured import gaps as captured_gaps
from freshlake.sources.captured.positions import place_of
from freshlake.sources.postgres import watching
from freshlake.sources.protocol import Position
from tests.integration.capture_database import Database
from tests.integration.capture_shop import NOW, Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int, a text); CREATE TABLE u (id int)")
    with opened(database, tmp_path / "lake", ("public.t", "public.u")) as made:
        yield made


def landed(shop: Shop, script: str) -> Position:
    """What a round does: changes arrive in all mirrors, and the database forgets them."""
    shop.database.run(script)
    end = shop.shop.head()
    shop.shop.land(end)
    for name in shop.mirrors:
        shop.moves(name, end)
    shop.shop.release()
    assert shop.rows("t") == shop.rows("u") == 0
    return end


def marker(shop: Shop) -> str:
    return shop.shop.names.released


def put_back(shop: Shop, note: tuple[str, str, str]) -> None:
    """The database knows no more than it did when this was noted."""
    update = f"UPDATE {marker(shop)} SET origin = %s, snapshot = %s, landed = %s"
    shop.database.application.execute(update.encode(), note)


def noted(shop: Shop) -> tuple[str, str, str]:
    row = shop.database.application.execute(f"SELECT origin, snapshot, landed FROM {marker(shop)}".encode()).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def copied(lake: Path, backup: Path) -> Path:
    """The catalog of a lake, and nothing else of it."""
    shutil.copytree(lake / "_freshlake", backup / "_freshlake", ignore=shutil.ignore_patterns("catalog.db*"))
    file = "_freshlake/catalog.db"
    with closing(sqlite3.connect(lake / file)) as live, closing(sqlite3.connect(backup / file)) as copy:
        live.backup(copy)
    return backup


def test_a_lake_that_was_put_back_finds_that_its_changes_were_given_up(shop: Shop, tmp_path: Path) -> None:
    start = landed(shop, "INSERT INTO t VALUES (1, 'x')")
    backup = copied(tmp_path / "lake", tmp_path / "backup")
    landed(shop, "INSERT INTO t VALUES (2, 'lost to it')")
    with closing(Catalog.open(backup, clock=ManualClock(NOW))) as catalog:
        old = CapturedDatabase(catalog, cast(SparkSession, None), catalog.database("shop"), tmp_path)
        assert old.head().version == start.version + 1, "nothing waits, and still there is something to do"
        shop.database.run("INSERT INTO t VALUES (3, 'y')")
        with pytest.raises(SourceHistoryLost, match="not kept"):
            old.resyncs(start, old.head())
        old.close()


def test_a_database_that_was_put_back_is_not_read_on(shop: Shop) -> None:
    landed(shop, "INSERT INTO t VALUES (1, 'x')")
    before = noted(shop)
    start = landed(shop, "INSERT INTO t VALUES (2, 'it forgets')")
    assert shop.shop.head() == start
    put_back(shop, before)
    end = shop.shop.head()
    assert end.version == start.version + 1
    assert [type(error) for error in shop.shop.lost().values()] == [SourceReplaced]
    shop.shop.land(end)
    for name in shop.mirrors:
        shop.moves(name, end)
    assert (shop.shop.lost(), shop.shop.resyncs(end, shop.shop.head())) == ({}, {}), "copied anew, it is read on"
    landed(shop, "INSERT INTO t VALUES (3, 'y')")
    assert noted(shop) > before


def test_a_database_that_was_put_back_is_noticed_also_when_one_mirror_lags(shop: Shop) -> None:
    """What is given up is what the slowest one has landed, so it says nothing of those that went on."""
    before = landed(shop, "INSERT INTO t VALUES (1, 'x')")
    old = noted(shop)
    shop.database.run("INSERT INTO t VALUES (2, 'it forgets')")
    start = shop.shop.head()
    shop.shop.land(start)
    shop.moves("t", start)
    shop.shop.release()
    assert (noted(shop)[1], shop.shop.lost()) == (old[1], {})
    put_back(shop, old)
    shop.database.run("DO $$ BEGIN FOR i IN 1..50 LOOP INSERT INTO t VALUES (i, 'unseen'); COMMIT; END LOOP; END $$")
    assert shop.shop.head().version == start.version + 1
    assert {at: type(error) for at, error in shop.shop.lost().items()} == {start: SourceReplaced}
    assert before in shop.shop.standing(), "the one that lags is read on"


def test_where_mirrors_go_is_noted_once_and_never_less(shop: Shop) -> None:
    start = landed(shop, "INSERT INTO t VALUES (1, 'x')")
    end = landed(shop, "INSERT INTO t VALUES (2, 'y')")
    known = noted(shop)
    assert known[2] == end.fingerprint.removeprefix("snapshot ")
    shop.shop.land(start)
    shop.shop.land(end)
    assert noted(shop) == known


def test_a_note_of_an_earlier_version_is_added_to(shop: Shop) -> None:
    shop.database.run(f"ALTER TABLE {marker(shop)} DROP COLUMN landed")
    assert shop.shop.lost() == {}
    landed(shop, "INSERT INTO t VALUES (1, 'x')")
    assert noted(shop)[2]


def test_what_is_given_up_while_it_is_read_is_missed(shop: Shop) -> None:
    start = landed(shop, "INSERT INTO t VALUES (1, 'x')")
    shop.database.run(
        "INSERT INTO u VALUES (1); INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 4000) i"
    )
    end, captured = shop.shop.head(), shop.captured
    reads = shop.shop.triggers.read(place_of(start), place_of(end), [captured["u"], captured["t"]])
    assert next(reads).table == captured["u"]
    for name in shop.mirrors:
        shop.moves(name, end)
    shop.shop.release()
    with pytest.raises(SourceHistoryLost, match="not kept"):
        list(reads)


def test_who_gives_up_less_than_others_did_does_not_say_so(shop: Shop) -> None:
    start = landed(shop, "INSERT INTO t VALUES (1, 'x')")
    landed(shop, "INSERT INTO t VALUES (2, 'y')")
    known = noted(shop)
    shop.shop.triggers.confirm(place_of(start))
    assert noted(shop) == known


def test_changes_are_given_up_and_added_up_where_all_tables_are_published(shop: Shop) -> None:
    shop.database.run("ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION everything FOR ALL TABLES")
    landed(shop, "INSERT INTO t VALUES (1, 'x'); UPDATE t SET a = 'y'")
    shop.database.run("UPDATE t SET a = 'z'; DELETE FROM t")
    shop.compacting(1).consider()
    assert shop.rows("t") == 1, "what is left of two changes"
    landed(shop, "INSERT INTO u VALUES (1)")


def test_a_label_that_is_renamed_is_noticed_while_nothing_else_happens(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE m (id int, mood mood)")
    with opened(database, tmp_path / "labels", ("public.m",)) as shop:
        start = shop.shop.head()
        assert shop.shop.gaps() == {}
        database.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
        assert shop.shop.head().version == start.version + 1
        assert [gap.reason for gap in shop.shop.gaps().values()] == ["schema-changed"]


def test_policies_that_change_are_told_once_and_capture_goes_on(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.database.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id > 1)")
    for number in range(2):
        landed(shop, f"INSERT INTO t VALUES ({number}, 'x')")
    assert [r.getMessage() for r in caplog.records if "row security of shop.public.t" in r.getMessage()] == [
        "row security of shop.public.t has changed; its mirror has all rows as before"
    ]
    caplog.clear()
    shop.database.run("DROP POLICY p ON t")
    landed(shop, "INSERT INTO u VALUES (1)")
    assert "row security of shop.public.t" in caplog.text


def test_what_has_changed_is_described_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    for module in (captured_gaps, watching):
        if (describe := getattr(module, "describe_oids", None)) is not None:

            def counted(cursor: Any, server: Any, oids: list[int], describe: Any = describe) -> Any:
                asked.append(oids)
                return describe(cursor, server, oids)

            monkeypatch.setattr(module, "describe_oids", counted)
    shop.database.run("ALTER TABLE t ADD COLUMN more int; ALTER TABLE u ENABLE ROW LEVEL SECURITY")
    assert shop.shop.gaps() == {}
    assert asked == [[captured.oid for captured in shop.captured.values()]]


def test_a_database_without_a_note_gets_one(shop: Shop) -> None:
    shop.database.run(f"DROP TABLE {marker(shop)}")
    landed(shop, "INSERT INTO t VALUES (1, 'x')")
    assert noted(shop)[1]
