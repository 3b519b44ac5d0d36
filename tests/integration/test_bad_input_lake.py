"""A lake that cannot be opened: said clearly, and nothing is touched."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake import errors as e


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


@pytest.mark.parametrize("name", ["a%20b", "a[b]", "a\\b"])
def test_a_path_whose_characters_mean_something_else(tmp_path: Path, name: str) -> None:
    error = refuses(tmp_path / name, e.InvalidArgument)
    assert str(tmp_path / name) in error.message
    assert not (tmp_path / name).exists()


def test_a_folder_without_permission() -> None:
    user, nobody = os.geteuid(), 65534
    assert freshlake.connect  # loaded now: nobody may be unable to read the packages
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        if user == 0:  # who may write everywhere
            os.seteuid(nobody)
        try:
            refuses(Path(folder) / "lake", e.LakeNotWritable)
        finally:
            os.seteuid(user)
            Path(folder).chmod(0o700)


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
