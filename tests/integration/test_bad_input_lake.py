"""A lake that cannot be opened, and a table that somebody else is refreshing: said clearly, and nothing is touched."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, orders, refused


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refuses(lake: Path, kind: type[e.FreshlakeError]) -> e.FreshlakeError:
    with pytest.raises(kind) as caught:
        freshlake.connect(lake)
    assert caught.value.code == kind.code
    assert caught.value.hint
    return caught.value


@pytest.fixture
def closed(spark: SparkSession, lake_dir: Path) -> Path:
    """A lake that nobody has open."""
    freshlake.connect(lake_dir).close()
    return lake_dir


def catalog(lake: Path) -> Path:
    return lake / "_freshlake" / "catalog.db"


def _garbage(lake: Path) -> None:
    catalog(lake).write_bytes(b"this is no database, although it is long enough to look like one" * 100)


def _cut(lake: Path) -> None:
    catalog(lake).write_bytes(catalog(lake).read_bytes()[:5000])


def _emptied(lake: Path) -> None:
    catalog(lake).write_bytes(b"")


def _another_database(lake: Path) -> None:
    catalog(lake).unlink()
    with closing(sqlite3.connect(catalog(lake))) as database, database:
        database.execute("CREATE TABLE mine (a INT)")


def _of_another_lake(lake: Path) -> None:
    (lake / "_freshlake" / "lake-id").write_text("another\n")


@pytest.mark.parametrize("damage", [_garbage, _cut, _emptied, _another_database, _of_another_lake])
def test_a_damaged_catalog_is_refused_and_left_alone(closed: Path, damage: Callable[[Path], None]) -> None:
    for extra in closed.glob("_freshlake/catalog.db-*"):
        extra.unlink()
    damage(closed)
    before = {name: content for name, content in files(closed).items() if "catalog.db-" not in name}
    error = refuses(closed, e.CatalogCorrupt)
    assert "backup" in str(error.hint)
    after = {name: content for name, content in files(closed).items() if "catalog.db-" not in name}
    assert after == before


def test_a_newer_catalog_is_refused_and_left_alone(closed: Path) -> None:
    with closing(sqlite3.connect(catalog(closed))) as database, database:
        database.execute("UPDATE fl_meta SET value = '999' WHERE key = 'schema_version'")
    error = refuses(closed, e.CatalogTooNew)
    assert "999" in str(error.detail)
    assert "upgrade" in str(error.hint)


def test_a_file_where_the_lake_should_be(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    place.write_text("precious")
    refuses(place, e.LakeNotWritable)
    assert place.read_text() == "precious"
    refuses(place / "below", e.LakeNotWritable)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the next test stands in")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refuses(tmp_path / "lake", e.LakeNotWritable)
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_the_system_says_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake" / "_freshlake").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    refuses(tmp_path / "lake", e.LakeNotWritable)
    assert not files(tmp_path)


def test_an_unknown_setting_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(e.InvalidSetting) as caught:
        freshlake.connect(tmp_path / "lake", settings={"speed": 11})
    assert "speed" in str(caught.value)
    assert "min_schedule_seconds" in str(caught.value.hint)


@pytest.fixture
def two(spark: SparkSession, lake_dir: Path) -> tuple[Freshlake, Freshlake]:
    """Two connections to one lake, as two processes have them."""
    first = freshlake.connect(lake_dir, settings=ANY_SHARE)
    orders(first)
    first.create_stream_table("copy", "SELECT id, amount FROM orders")
    first.sql("INSERT INTO orders VALUES (9, 'north', 1)")
    return first, freshlake.connect(lake_dir, settings=ANY_SHARE)


def test_a_table_is_refreshed_by_one_at_a_time(two: tuple[Freshlake, Freshlake]) -> None:
    first, second = two
    table = first._engine.catalog.get("default.copy")
    lease = first._engine.catalog.acquire_lease(table.id, 60)
    for call in (
        lambda: second.refresh("copy"),
        lambda: second.fold("copy"),
        lambda: second.alter_stream_table("copy", query="SELECT id FROM orders"),
        lambda: second.drop_stream_table("copy"),
    ):
        with refused(second, e.RefreshInProgress, "copy", "process"):
            call()
    (skipped,) = second.refresh_all()
    assert (str(skipped.action), skipped.reason) == ("SKIPPED", "refresh-in-progress")
    first._engine.catalog.release_lease(lease)
    assert str(second.refresh("copy").action) == "DIFFERENTIAL"
    assert str(first.refresh("copy").action) == "NO_DATA"
    assert first.verify("copy").equal


def test_a_worker_that_lost_its_lease_writes_nothing(two: tuple[Freshlake, Freshlake]) -> None:
    """It wakes up after another one took over: what it computed is not accepted, and what the other wrote stays."""
    first, second = two
    overtaken = []

    def sleep(step: str) -> None:
        if step == "append root" and not overtaken:
            # the lease ran out while this worker was away
            with closing(sqlite3.connect(catalog(first.path))) as database, database:
                database.execute("UPDATE fl_leases SET expires_at = '2000-01-01 00:00:00.000000'")
            overtaken.append(second.refresh("copy"))

    first._engine.observer = sleep
    with pytest.raises((e.LeaseLost, e.CommitConflict)) as caught:
        first.refresh("copy")
    assert caught.value.hint
    first._engine.observer = None
    assert str(overtaken[0].action) == "DIFFERENTIAL"
    assert str(first.refresh("copy").action) == "NO_DATA"
    assert first.verify("copy").equal
    assert first.status()[0].version == 2
    first.sql("INSERT INTO orders VALUES (10, 'north', 1)")
    assert first.refresh("copy").version == 3
    assert second.verify("copy").equal
