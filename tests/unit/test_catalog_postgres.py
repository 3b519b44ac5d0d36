"""A catalog in PostgreSQL: opening, errors, permissions, lost connections; what all catalogs do is tested elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import inspect

from freshlake.catalog import Action, Catalog, Commit, RefreshStatus, TableName, migrations, postgres
from freshlake.catalog.database import begun, translate
from freshlake.catalog.marker import Marker
from freshlake.catalog.migrations import runner
from freshlake.catalog.tables import metadata
from freshlake.clock import SystemClock
from freshlake.errors import (
    CatalogCorrupt,
    CatalogDenied,
    CatalogError,
    CatalogTooNew,
    CatalogUnavailable,
    DriverNotFound,
    FreshlakeError,
    InvalidSetting,
    LakeNotFound,
    RefreshFailed,
    RefreshInProgress,
)
from tests.integration.postgres_server import Server, cluster, running
from tests.unit.catalog_cases import added, frontier

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DATABASE = "catalogs"


@pytest.fixture
def url(postgres_server: Server) -> str:
    return postgres_server.url(DATABASE)


@pytest.fixture
def catalog(tmp_path: Path, url: str) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path / "lake", url=url)
    yield opened
    opened.close()


def schema_of(catalog: Catalog) -> str:
    return postgres.schema_of(catalog.lake_id)


def shape(url: str, lake_id: str) -> dict[str, object]:
    """Everything that PostgreSQL knows about the tables of a lake."""
    engine = postgres.postgres_engine(url, 10)
    schema = postgres.schema_of(lake_id)
    with begun(postgres.in_schema(engine, lake_id), "read") as connection:
        look = inspect(connection)
        found: dict[str, object] = {
            table: (
                [
                    (c["name"], repr(c["type"]), c["nullable"], str(c["default"]).replace(schema, "schema"))
                    for c in look.get_columns(table, schema)
                ],
                look.get_pk_constraint(table, schema)["constrained_columns"],
                sorted(
                    (i["name"] or "", tuple(i["column_names"]), i["unique"], str(i.get("dialect_options")))
                    for i in look.get_indexes(table, schema)
                ),
                sorted(tuple(u["column_names"]) for u in look.get_unique_constraints(table, schema)),
                [
                    (f["constrained_columns"], f["referred_table"], f["options"])
                    for f in look.get_foreign_keys(table, schema)
                ],
                [c["sqltext"] for c in look.get_check_constraints(table, schema)],
            )
            for table in look.get_table_names(schema)
        }
    engine.dispose()
    return found


def made_by(url: str, lake_id: str, version: int | None) -> None:
    """A lake's schema as an earlier Freshlake made it, or straight from the tables of the code."""
    engine = postgres.postgres_engine(url, 10)
    with begun(postgres.in_schema(engine, lake_id), "write") as connection:
        postgres.make_schema(connection, postgres.schema_of(lake_id))
        if version is None:
            metadata.create_all(connection, checkfirst=False)
        else:
            migrations.upgrade(connection, 0, version)
            for key, value in (("schema_version", version), ("lake_id", lake_id)):
                connection.exec_driver_sql(f"INSERT INTO fl_meta VALUES ('{key}', '{value}')")
        postgres.widen(connection, postgres.schema_of(lake_id))
    engine.dispose()


# opening


def test_several_lakes_share_a_database_and_know_nothing_of_each_other(tmp_path: Path, url: str) -> None:
    first, second = (Catalog.open(tmp_path / name, url=url) for name in ("a", "b"))
    table = added(first)
    assert second.stream_tables() == ()
    for opened in (first, second):
        opened.close()
    again = Catalog.open(tmp_path / "a", url=url, create=False)
    assert (again.lake_id, again.get("revenue")) == (first.lake_id, table)
    assert not list(tmp_path.rglob("catalog.db"))
    again.close()


def test_many_threads_open_a_new_lake_at_once(tmp_path: Path, url: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        catalogs = list(threads.map(lambda _: Catalog.open(tmp_path / "lake", url=url), range(6)))
    assert len({catalog.lake_id for catalog in catalogs}) == 1
    for catalog in catalogs:
        catalog.close()


def test_without_create_a_missing_lake_is_not_found_and_not_made(tmp_path: Path, url: str) -> None:
    with pytest.raises(LakeNotFound):
        Catalog.open(tmp_path / "nothing", url=url, create=False)
    assert not (tmp_path / "nothing").exists()


@pytest.fixture(scope="module")
def code(postgres_server: Server) -> dict[str, object]:
    """The tables that the code uses."""
    url, lake_id = postgres_server.url(DATABASE), f"{0:032x}"
    made_by(url, lake_id, None)
    return shape(url, lake_id)


@pytest.mark.parametrize("version", range(1, migrations.current_version() + 1))
def test_every_earlier_version_becomes_the_tables_that_the_code_uses(
    tmp_path: Path, url: str, code: dict[str, object], version: int
) -> None:
    old = f"{version:032x}"
    made_by(url, old, version)
    (tmp_path / "_freshlake").mkdir()
    Marker(old, in_postgres=True).write(tmp_path / "_freshlake")
    catalog = Catalog.open(tmp_path, url=url)
    assert catalog.lake_id == old
    added(catalog)
    catalog.close()
    assert shape(url, old) == code


def test_a_new_catalog_has_exactly_the_tables_that_the_code_uses(
    catalog: Catalog, url: str, code: dict[str, object]
) -> None:
    assert shape(url, catalog.lake_id) == code


def test_an_upgrade_fails_as_a_whole(tmp_path: Path, catalog: Catalog, url: str) -> None:
    last = migrations.current_version()

    def next_step(connection: object) -> None:
        connection.exec_driver_sql("ALTER TABLE fl_stream_tables ADD COLUMN colour TEXT")  # type: ignore[attr-defined]

    def failing_step(connection: object) -> None:
        raise CatalogUnavailable("the disk is full")

    steps = {**runner.steps(), last + 1: next_step, last + 2: failing_step}
    with patch.object(runner, "steps", lambda: steps), pytest.raises(CatalogUnavailable):
        Catalog.open(tmp_path / "lake", url=url)
    assert "colour" not in str(shape(url, catalog.lake_id))


def test_a_newer_catalog_is_refused_and_not_touched(
    tmp_path: Path, catalog: Catalog, url: str, postgres_server: Server
) -> None:
    changed = f"UPDATE {schema_of(catalog)}.fl_meta SET value = '99' WHERE key = 'schema_version'"
    postgres_server.run(changed, DATABASE)
    with pytest.raises(CatalogTooNew, match="newer Freshlake"):
        Catalog.open(tmp_path / "lake", url=url)
    assert "99" in postgres_server.run(f"SELECT value FROM {schema_of(catalog)}.fl_meta", DATABASE)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DROP SCHEMA {schema} CASCADE", "is missing"),
        ("DROP TABLE {schema}.fl_meta", "not a Freshlake catalog"),
        ("DROP TABLE {schema}.fl_stream_tables CASCADE", "damaged"),
        ("UPDATE {schema}.fl_meta SET value = 'x' WHERE key = 'schema_version'", "does not say its version"),
        ("UPDATE {schema}.fl_meta SET value = 'x' WHERE key = 'lake_id'", "belongs to another lake"),
        ("DELETE FROM {schema}.fl_meta WHERE key = 'lake_id'", "has no lake id"),
    ],
)
def test_a_damaged_catalog_is_refused(
    tmp_path: Path, catalog: Catalog, url: str, postgres_server: Server, damage: str, message: str
) -> None:
    postgres_server.run(damage.format(schema=schema_of(catalog)), DATABASE)
    with pytest.raises(CatalogCorrupt, match=message):
        Catalog.open(tmp_path / "lake", url=url).stream_tables()


def test_a_lake_is_not_looked_for_in_another_database(
    tmp_path: Path, catalog: Catalog, postgres_server: Server
) -> None:
    with pytest.raises(CatalogCorrupt, match="is missing") as caught:
        Catalog.open(tmp_path / "lake", url=postgres_server.url("postgres"))
    assert "right database" in (caught.value.hint or "")
    assert schema_of(catalog) not in postgres_server.run("SELECT nspname FROM pg_namespace")


def test_a_crash_before_the_marker_was_written_leaves_a_lake_that_can_be_made(tmp_path: Path, url: str) -> None:
    with patch.object(Marker, "write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        Catalog.open(tmp_path, url=url)
    catalog = Catalog.open(tmp_path, url=url)
    assert catalog.stream_tables() == ()
    catalog.close()


@pytest.mark.parametrize("text", ["x\npostgresql\n", '"; DROP SCHEMA public\npostgresql\n'])
def test_a_marker_that_names_no_lake_is_refused(tmp_path: Path, url: str, text: str) -> None:
    (tmp_path / "_freshlake").mkdir()
    (tmp_path / "_freshlake" / "lake-id").write_text(text)
    with pytest.raises(CatalogCorrupt, match="does not name a lake"):
        Catalog.open(tmp_path, url=url)


# one place per lake


@pytest.mark.parametrize("marked", [True, False])
def test_a_lake_with_a_catalog_in_its_folder_is_refused(tmp_path: Path, url: str, marked: bool) -> None:
    embedded = Catalog.open(tmp_path)
    table = added(embedded)
    embedded.close()
    if not marked:
        (tmp_path / "_freshlake" / "lake-id").unlink()
    with pytest.raises(InvalidSetting, match="has its catalog in its folder") as caught:
        Catalog.open(tmp_path, url=url)
    assert "sqlite" in (caught.value.hint or "")
    again = Catalog.open(tmp_path)
    assert again.get("revenue") == table
    again.close()


def test_a_lake_with_its_catalog_in_postgres_is_not_started_empty(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(InvalidSetting, match="has its catalog in PostgreSQL") as caught:
        Catalog.open(tmp_path / "lake")
    assert "FRESHLAKE_CATALOG" in (caught.value.hint or "")
    assert not (tmp_path / "lake" / "_freshlake" / "catalog.db").exists()


def test_a_copied_lake_does_not_share_the_catalog_of_the_first(tmp_path: Path, catalog: Catalog, url: str) -> None:
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with pytest.raises(InvalidSetting, match="is a copy of the lake in"):
        Catalog.open(tmp_path / "copy", url=url)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    Catalog.open(tmp_path / "link", url=url).close()


def test_a_copy_with_a_catalog_of_its_own_is_a_lake_of_its_own(
    tmp_path: Path, catalog: Catalog, url: str, postgres_server: Server
) -> None:
    table = added(catalog)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    postgres_server.run("CREATE DATABASE other")
    dump = [postgres_server.bin / "pg_dump", url, f"--schema={schema_of(catalog)}"]
    postgres_server.run(subprocess.run(dump, check=True, capture_output=True, text=True).stdout, "other")
    copy = Catalog.open(tmp_path / "copy", url=postgres_server.url("other"))
    copy.update(table.id, schedule="1h")
    assert (copy.get("revenue").schedule, catalog.get("revenue").schedule) == ("1h", None)
    copy.close()


def test_a_moved_lake_keeps_its_catalog(tmp_path: Path, catalog: Catalog, url: str) -> None:
    table = added(catalog)
    (tmp_path / "lake").rename(tmp_path / "moved")
    for _ in range(2):
        moved = Catalog.open(tmp_path / "moved", url=url)
        assert moved.get("revenue") == table
        moved.close()


# the server says no, or nothing


def test_a_password_never_appears(tmp_path: Path, postgres_server: Server) -> None:
    secret = "s3cr%25t"
    wrong = {
        f"postgresql://nobody:{secret}@/{DATABASE}?host={postgres_server.socket}": CatalogDenied,
        f"postgresql://postgres:{secret}@/nothing?host={postgres_server.socket}": CatalogDenied,
        f"postgresql://postgres:{secret}@127.0.0.1:1/{DATABASE}": CatalogUnavailable,
        "postgresql://postgres:s3cr%zzt@h/d": InvalidSetting,
        f"postgresql://postgres:{secret}@h/d?colour=red": InvalidSetting,
    }
    for url, error in wrong.items():
        with pytest.raises(error) as caught:
            Catalog.open(tmp_path, url=url)
        seen: BaseException | None = caught.value
        while seen is not None:
            assert "s3cr" not in str(seen) + repr(seen) + str(getattr(seen, "hint", ""))
            seen = seen.__cause__
    assert not (tmp_path / "_freshlake" / "lake-id").exists()
    opened = Catalog.open(tmp_path, url=f"postgresql://postgres:{secret}@/{DATABASE}?host={postgres_server.socket}")
    assert "s3cr" not in repr(opened._engine) + str(opened._engine.url) + repr(opened)
    opened.close()


def test_what_the_url_leaves_out_comes_from_the_environment(
    tmp_path: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", str(postgres_server.socket))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGDATABASE", DATABASE)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    opened = Catalog.open(tmp_path, url="postgresql://")
    assert opened.stream_tables() == ()
    opened.close()


def test_a_missing_driver_says_what_to_install(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DriverNotFound) as caught:
        Catalog.open(tmp_path, url=url)
    assert "freshlake[postgres]" in (caught.value.hint or "")


def test_a_user_needs_no_more_than_its_permissions(tmp_path: Path, postgres_server: Server) -> None:
    """CREATE on the database is needed once, for the schema; reading alone is not enough to write."""
    postgres_server.run("CREATE ROLE keeper LOGIN; CREATE ROLE guest LOGIN")
    with pytest.raises(CatalogDenied) as caught:
        Catalog.open(tmp_path, url=postgres_server.url(DATABASE, "keeper"))
    assert "permission denied for database" in (caught.value.detail or "")
    postgres_server.run(f"GRANT CREATE ON DATABASE {DATABASE} TO keeper")
    Catalog.open(tmp_path, url=postgres_server.url(DATABASE, "keeper")).close()
    postgres_server.run(f"REVOKE CREATE ON DATABASE {DATABASE} FROM keeper")
    kept = Catalog.open(tmp_path, url=postgres_server.url(DATABASE, "keeper"))
    table = added(kept)
    schema = schema_of(kept)
    postgres_server.run(
        f"GRANT USAGE ON SCHEMA {schema} TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO guest", DATABASE
    )
    reading = Catalog.open(tmp_path, url=postgres_server.url(DATABASE, "guest"))
    assert reading.get("revenue") == table
    with pytest.raises(CatalogDenied):
        added(reading, "other")
    for opened in (kept, reading):
        opened.close()


def test_a_writer_that_waits_for_too_long_is_told_and_readers_do_not_wait(tmp_path: Path, url: str) -> None:
    first, second = (Catalog.open(tmp_path, url=url, busy_seconds=0.05) for _ in range(2))
    with first.transaction():
        table = added(first)
        assert second.stream_tables() == ()
        with pytest.raises(CatalogUnavailable, match="did not answer") as caught:
            added(second)
        assert "server" in (caught.value.hint or "")
    assert second.stream_tables() == (table,)
    assert added(second, "other").name == "other"
    for opened in (first, second):
        opened.close()


def test_a_writer_that_falls_silent_does_not_hold_its_lock_for_hours(catalog: Catalog) -> None:
    with catalog._write() as connection:
        assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar() == "1min"


# lost connections


def drop_connections(server: Server) -> None:
    others = "FROM pg_stat_activity WHERE application_name = 'freshlake'"
    server.run(f"SELECT pg_terminate_backend(pid) {others}; SELECT count(*) {others}")


def test_dropped_connections_are_opened_again(catalog: Catalog, postgres_server: Server) -> None:
    table = added(catalog)
    drop_connections(postgres_server)
    assert catalog.stream_tables() == (table,)
    drop_connections(postgres_server)
    assert catalog.update(table.id, schedule="1h").schedule == "1h"


@pytest.mark.parametrize("when", ["in between", "at the end"])
def test_a_write_whose_connection_is_lost_leaves_nothing(catalog: Catalog, postgres_server: Server, when: str) -> None:
    table = added(catalog)

    def write() -> None:
        with catalog.transaction():
            catalog.update(table.id, schedule="1h")
            drop_connections(postgres_server)
            if when == "in between":
                added(catalog, "other")

    with pytest.raises(CatalogUnavailable):
        write()
    assert catalog.stream_tables() == (table,)
    assert added(catalog, "other").name == "other"


def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    with cluster() as folder:
        with running(folder) as server:
            catalog = Catalog.open(tmp_path, url=server.url("postgres"))
            lease = catalog.acquire_lease(added(catalog).id, 60)
        for attempt in (catalog.stream_tables, lambda: added(catalog, "late")):
            with pytest.raises(CatalogUnavailable):
                attempt()
        with running(folder):
            refresh = catalog.begin_refresh(lease)
            done = Commit(refresh.refresh_id, Action.FULL, 0, 1, frontier(), NOW)
            assert catalog.commit_refresh(lease.stream_table_id, lease.epoch, done).version == 1
            catalog.close()


# the same reach as in SQLite


def test_text_sorts_by_code_points_whatever_the_database_says(catalog: Catalog) -> None:
    names = ["a_b", "ab", "a1", "a", "_a", "b"]
    for name in names:
        added(catalog, name)
        catalog.register_schema(name)
    assert [table.name for table in catalog.stream_tables()] == sorted(names)
    assert [schema.name for schema in catalog.schemas()] == sorted(names)


def test_text_has_no_length_and_no_history_is_too_long(catalog: Catalog, postgres_server: Server) -> None:
    counter = f"{schema_of(catalog)}.fl_refresh_history_sequence_seq"
    postgres_server.run(f"ALTER SEQUENCE {counter} RESTART 3000000000", DATABASE)
    table = added(catalog, schedule="x" * 1000)
    assert catalog.get_by_id(table.id).schedule == "x" * 1000
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    assert catalog.history(table.id) == (refresh,)
    assert catalog.register_table(TableName.parse("t"), provider="p" * 1000).provider == "p" * 1000


def test_a_message_may_quote_what_postgres_cannot_hold(catalog: Catalog) -> None:
    table = added(catalog)
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    catalog.fail_refresh(refresh.refresh_id, RefreshFailed("value 'a\0b' is bad"), max_consecutive_errors=3)
    (failed,) = catalog.history(table.id)
    assert failed.status is RefreshStatus.FAILED
    assert "a\\0b" in (failed.error_message or "")


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("08006", CatalogUnavailable),
        ("57P01", CatalogUnavailable),
        ("57014", CatalogUnavailable),
        ("53100", CatalogUnavailable),
        ("53300", CatalogUnavailable),
        ("55P03", CatalogUnavailable),
        ("40P01", CatalogUnavailable),
        ("25006", CatalogUnavailable),
        ("42501", CatalogDenied),
        ("28P01", CatalogDenied),
        ("3D000", CatalogDenied),
        ("42P01", CatalogCorrupt),
        ("XX001", CatalogCorrupt),
        ("23505", CatalogError),
        (None, CatalogError),
    ],
)
def test_every_error_of_the_server_has_its_own_meaning(state: str | None, error: type[FreshlakeError]) -> None:
    cause = Exception("does not exist")
    cause.sqlstate = state  # type: ignore[attr-defined]
    assert type(translate(cause)) is error


# Clocks of several machines


class Wrong(SystemClock):
    """The clock of a machine that is wrong by some hours."""

    def __init__(self, hours: float) -> None:
        self._wrong = timedelta(hours=hours)

    def now(self) -> datetime:
        return super().now() + self._wrong


@pytest.fixture
def machines(tmp_path: Path, url: str) -> Iterator[tuple[Catalog, Catalog]]:
    """Two machines whose clocks are two hours apart, and neither is right."""
    opened = [
        Catalog.open(tmp_path, url=url, clock=Wrong(hours), owner=name) for name, hours in (("fast", 1), ("slow", -1))
    ]
    yield opened[0], opened[1]
    for catalog in opened:
        catalog.close()


@pytest.mark.parametrize("first", [0, 1], ids=["a fast one holds it", "a slow one holds it"])
def test_a_lease_is_kept_whatever_the_clocks_of_machines_show(machines: tuple[Catalog, Catalog], first: int) -> None:
    holder, other = machines[first], machines[1 - first]
    table = added(holder)
    lease = holder.heartbeat_lease(holder.acquire_lease(table.id, 60), 60)
    running = holder.begin_refresh(lease)
    with pytest.raises(RefreshInProgress):
        other.acquire_lease(table.id, 60)
    assert other.fail_interrupted() == ()
    assert holder.find_refresh(running.refresh_id) == running
    (looked,) = other.look()
    assert looked.is_leased(other.shared_now())
    gone = holder.heartbeat_lease(lease, -1)
    assert gone.expires_at < holder.shared_now()
    assert other.acquire_lease(table.id, 60).taken_from == holder.owner


def test_a_daemon_is_awake_whatever_the_clocks_of_machines_show(machines: tuple[Catalog, Catalog]) -> None:
    for catalog in machines:
        catalog.register_daemon(1000, 4)
        assert catalog.beat_daemon(NOW)
    for catalog in machines:
        assert catalog.forget_gone_daemons(60) == ()
        assert {daemon.owner for daemon in catalog.live_daemons(60)} == {"fast", "slow"}
        assert {load.owner for load in catalog.loads()} >= {"fast", "slow"}


def test_a_clock_that_is_set_while_a_daemon_runs_makes_nobody_gone(machines: tuple[Catalog, Catalog]) -> None:
    for catalog in machines:
        catalog.register_daemon(1000, 4)
    mine = machines[0]
    mine._clock._wrong += timedelta(hours=5)  # type: ignore[attr-defined]
    assert mine.forget_gone_daemons(60) == ()
