"""Opening a catalog: new, old, newer, damaged, foreign, without permission."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import create_engine, inspect

from freshlake.catalog import Catalog, migrations
from freshlake.catalog.database import translate
from freshlake.catalog.migrations import runner
from freshlake.catalog.tables import metadata
from freshlake.errors import (
    CatalogCorrupt,
    CatalogError,
    CatalogTooNew,
    CatalogUnavailable,
    FreshlakeError,
    LakeNotFound,
    LakeNotWritable,
)
from tests.unit.catalog_cases import added


def file_of(lake: Path) -> Path:
    return lake / "_freshlake" / "catalog.db"


def shape(path: Path) -> dict[str, object]:
    """Everything that SQLite knows about the tables of a file."""
    engine = create_engine(f"sqlite:///{path}")
    look = inspect(engine)
    found: dict[str, object] = {
        table: (
            [(c["name"], str(c["type"]), c["nullable"], c["primary_key"]) for c in look.get_columns(table)],
            sorted((i["name"] or "", tuple(i["column_names"]), i["unique"]) for i in look.get_indexes(table)),
            sorted(tuple(u["column_names"]) for u in look.get_unique_constraints(table)),
            [(f["constrained_columns"], f["referred_table"], f["options"]) for f in look.get_foreign_keys(table)],
            [c["sqltext"] for c in look.get_check_constraints(table)],
        )
        for table in look.get_table_names()
    }
    engine.dispose()
    return found


def at_version(lake: Path, version: int) -> None:
    """A lake whose catalog an earlier Freshlake made."""
    file_of(lake).parent.mkdir(parents=True)
    engine = create_engine(f"sqlite:///{file_of(lake)}")
    with engine.begin() as connection:
        migrations.upgrade(connection, 0, version)
        if version:
            for key, value in (("schema_version", version), ("lake_id", "old")):
                connection.exec_driver_sql("INSERT INTO fl_meta VALUES (?, ?)", (key, str(value)))
    engine.dispose()


def test_a_new_lake_gets_a_catalog_and_keeps_its_id(tmp_path: Path) -> None:
    lake = tmp_path / "deep" / "lake with ? # % name"
    first = Catalog.open(lake)
    table = added(first)
    first.close()
    again = Catalog.open(str(lake))
    assert again.lake_id == first.lake_id
    assert again.get("revenue") == table
    again.close()
    assert Catalog.open(tmp_path / "other").lake_id != first.lake_id


def test_the_database_is_set_up_for_many_processes(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, busy_seconds=7)
    with catalog._read() as connection:
        read = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "foreign_keys")
        }
        assert read == {"journal_mode": "wal", "foreign_keys": 1}
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 7_000
    catalog.close()


def test_without_create_a_missing_lake_is_not_found_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound):
        Catalog.open(tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()
    Catalog.open(tmp_path / "lake").close()
    Catalog.open(tmp_path / "lake", create=False).close()


@pytest.mark.parametrize("version", range(migrations.current_version() + 1))
def test_every_earlier_version_becomes_the_current_one(tmp_path: Path, version: int) -> None:
    at_version(tmp_path / "old", version)
    catalog = Catalog.open(tmp_path / "old")
    assert catalog.lake_id == "old" if version else catalog.lake_id
    added(catalog)
    catalog.close()
    Catalog.open(tmp_path / "new").close()
    assert shape(file_of(tmp_path / "old")) == shape(file_of(tmp_path / "new"))


def test_migrations_make_exactly_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    Catalog.open(tmp_path).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'code.db'}")
    metadata.create_all(engine)
    engine.dispose()
    assert shape(file_of(tmp_path)) == shape(tmp_path / "code.db")


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(runner.steps()) == list(range(1, migrations.current_version() + 1))


def test_an_upgrade_runs_the_missing_steps_once_and_fails_as_a_whole(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    table = added(catalog)
    catalog.close()
    calls: list[int] = []
    last = migrations.current_version()

    def second(connection: object) -> None:
        calls.append(2)
        connection.exec_driver_sql("ALTER TABLE fl_stream_tables ADD COLUMN colour TEXT")  # type: ignore[attr-defined]

    def third(connection: object) -> None:
        calls.append(3)
        if calls.count(3) == 1:
            raise CatalogUnavailable("the disk is full")

    steps = {**runner.steps(), last + 1: second, last + 2: third}
    with patch.object(runner, "steps", lambda: steps):
        with pytest.raises(CatalogUnavailable):
            Catalog.open(tmp_path)
        assert "colour" not in str(shape(file_of(tmp_path)))
        Catalog.open(tmp_path).close()
        Catalog.open(tmp_path).close()
    assert calls == [2, 3, 2, 3]
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        assert connection.execute("SELECT name, colour FROM fl_stream_tables").fetchall() == [(table.name, None)]
        assert connection.execute("SELECT value FROM fl_meta WHERE key = 'schema_version'").fetchone() == (
            str(last + 2),
        )
    with pytest.raises(CatalogTooNew):
        Catalog.open(tmp_path)


def test_a_newer_catalog_is_refused_and_not_touched(tmp_path: Path) -> None:
    Catalog.open(tmp_path).close()
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        connection.execute("UPDATE fl_meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(CatalogTooNew, match="newer Freshlake") as caught:
        Catalog.open(tmp_path)
    assert "version 99" in (caught.value.detail or "")
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        assert connection.execute("SELECT value FROM fl_meta WHERE key = 'schema_version'").fetchone() == ("99",)


@pytest.mark.parametrize("damage", ["text", "header", "middle", "version", "foreign", "empty", "removed"])
def test_a_damaged_catalog_is_refused(tmp_path: Path, damage: str) -> None:
    catalog = Catalog.open(tmp_path)
    for number in range(50):
        added(catalog, f"t{number}", query="SELECT 1 " * 500)
    catalog.close()
    file = file_of(tmp_path)
    content = file.read_bytes()
    if damage == "text":
        file.write_text("this is not a database" * 100)
    elif damage == "header":
        file.write_bytes(b"\0" * 100 + content[100:])
    elif damage == "middle":
        file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "removed":
        file.unlink()
    else:
        with closing(sqlite3.connect(file)) as connection, connection:
            drop = "DROP TABLE fl_meta" if damage == "foreign" else "UPDATE fl_meta SET value = 'x'"
            connection.execute(drop)
    with pytest.raises(CatalogCorrupt):
        Catalog.open(tmp_path).stream_tables()


def test_the_catalog_of_another_lake_is_refused(tmp_path: Path) -> None:
    Catalog.open(tmp_path / "a").close()
    Catalog.open(tmp_path / "b").close()
    shutil.copy(file_of(tmp_path / "a"), file_of(tmp_path / "b"))
    with pytest.raises(CatalogCorrupt, match="another lake"):
        Catalog.open(tmp_path / "b")


def test_a_crash_before_the_marker_was_written_is_repaired(tmp_path: Path) -> None:
    lake_id = Catalog.open(tmp_path).lake_id
    (tmp_path / "_freshlake" / "lake-id").unlink()
    assert Catalog.open(tmp_path).lake_id == lake_id
    assert (tmp_path / "_freshlake" / "lake-id").read_text().strip() == lake_id


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("x")
    with pytest.raises(LakeNotWritable):
        Catalog.open(tmp_path / "lake")
    (tmp_path / "_freshlake").mkdir()
    (tmp_path / "_freshlake" / "catalog.db").mkdir()
    with pytest.raises(LakeNotWritable):
        Catalog.open(tmp_path)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def open_as_nobody(lake: Path) -> str:
    """What a user without permission gets; the superuser may write anywhere, so another user must try."""
    code = (
        "import os, sys, tempfile\n"
        "from freshlake.catalog import Catalog\n"
        "from freshlake.errors import FreshlakeError\n"
        # loads all modules while they can be read, wherever the environment is
        "Catalog.open(tempfile.mkdtemp()).close()\n"
        "os.getuid() or os.setuid(65534)\n"
        "try:\n"
        "    catalog = Catalog.open(sys.argv[1])\n"
        "    catalog.register_schema('s')\n"
        "    print('opened')\n"
        "except FreshlakeError as error:\n"
        "    print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(lake)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_without_permission_is_refused(shared_folder: Path) -> None:
    shared_folder.chmod(0o555)
    assert open_as_nobody(shared_folder / "lake") == "lake-not-writable"
    shared_folder.chmod(0o755)
    Catalog.open(shared_folder / "lake").close()
    for path in [shared_folder / "lake" / "_freshlake", *(shared_folder / "lake" / "_freshlake").iterdir()]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert open_as_nobody(shared_folder / "lake") == "lake-not-writable"


def test_a_catalog_that_is_locked_for_too_long_is_unavailable(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, busy_seconds=0.05)
    with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogUnavailable):
            added(catalog)
        assert catalog.stream_tables() == ()
        other.execute("ROLLBACK")
    assert added(catalog).name == "revenue"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_BUSY, CatalogUnavailable),
        (sqlite3.SQLITE_IOERR, CatalogUnavailable),
        (sqlite3.SQLITE_FULL, CatalogUnavailable),
        (sqlite3.SQLITE_CORRUPT, CatalogCorrupt),
        (sqlite3.SQLITE_NOTADB, CatalogCorrupt),
        (sqlite3.SQLITE_READONLY, LakeNotWritable),
        (sqlite3.SQLITE_CANTOPEN, LakeNotWritable),
        (sqlite3.SQLITE_CONSTRAINT, CatalogError),
        (sqlite3.SQLITE_IOERR | (1 << 8), CatalogUnavailable),
    ],
)
def test_every_error_of_the_database_has_its_own_meaning(code: int, error: type[FreshlakeError]) -> None:
    cause = sqlite3.OperationalError("x")
    cause.sqlite_errorcode = code
    assert type(translate(cause)) is error


def test_many_threads_open_a_new_lake_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        catalogs = list(threads.map(lambda _: Catalog.open(tmp_path / "lake"), range(8)))
    assert len({catalog.lake_id for catalog in catalogs}) == 1
    for catalog in catalogs:
        catalog.close()
