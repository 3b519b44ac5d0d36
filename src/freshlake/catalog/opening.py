"""Opening a lake's catalog: find or make it, bring it to the current version, refuse what is not ours."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection, Engine, inspect, select

from freshlake.catalog import migrations, postgres
from freshlake.catalog.database import begun, translated
from freshlake.catalog.marker import FILE, FOLDER, MARKER, Marker, check_marker, read_marker
from freshlake.catalog.sqlite import sqlite_engine, use_write_ahead_log
from freshlake.catalog.tables import meta
from freshlake.catalog.upsert import upsert
from freshlake.errors import CatalogCorrupt, CatalogTooNew, InvalidSetting, LakeNotFound, LakeNotWritable
from freshlake.version import VERSION

EMBEDDED = "sqlite"
_VERSION = "freshlake_version"
_log = logging.getLogger("freshlake")


@dataclass(frozen=True)
class _Place:
    """A database of a catalog, and what to call it."""

    engine: Engine
    folder: Path
    name: str
    schema: str | None = None


def open_engine(lake: Path, *, url: str, create: bool, busy_seconds: float) -> tuple[Engine, str]:
    """The engine of a lake's catalog at the current version, and the lake's id."""
    folder = lake / FOLDER
    _prepare(lake, folder, create=create)
    in_postgres = postgres.is_postgres(url)
    _check_place(lake, folder, in_postgres=in_postgres)
    engine = postgres.postgres_engine(url, busy_seconds) if in_postgres else sqlite_engine(folder / FILE, busy_seconds)
    try:
        opened, lake_id = _open_postgres(engine, folder) if in_postgres else _open_sqlite(engine, folder)
        _note_version(opened)
        return opened, lake_id
    except BaseException:
        engine.dispose()
        raise


def _note_version(engine: Engine) -> None:
    """Keep which Freshlake uses the catalog, and warn when the one before was another: both may be running."""
    with begun(engine, "read") as connection:
        before = connection.execute(select(meta.c.value).where(meta.c.key == _VERSION)).scalar()
    if before == VERSION:
        return
    if before is not None:
        _log.warning(
            "the catalog was last used by Freshlake %s, this is %s: use one version at a time", before, VERSION
        )
    with begun(engine, "write") as connection:
        _put(connection, _VERSION, VERSION, replace=True)


def _prepare(lake: Path, folder: Path, *, create: bool) -> None:
    if not create and not (folder / FILE).exists() and not (folder / MARKER).exists():
        raise LakeNotFound(f"there is no lake at {lake}", hint="check the path, or create one: freshlake.connect(path)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeNotWritable(f"the lake folder {lake} cannot be used", detail=error.strerror) from None
    for path in (folder, folder / FILE):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            raise LakeNotWritable(f"the lake folder {lake} cannot be written", detail=f"no permission for {path}")


def _check_place(lake: Path, folder: Path, *, in_postgres: bool) -> None:
    marker = read_marker(folder)
    has_file = (folder / FILE).exists() if marker is None else not marker.in_postgres
    if in_postgres and has_file:
        raise InvalidSetting(
            f"the lake in {lake} has its catalog in its folder, but setting catalog names a PostgreSQL server",
            hint="remove the setting for this lake, or give it the value sqlite; a catalog cannot be moved",
        )
    if not in_postgres and marker is not None and marker.in_postgres:
        raise InvalidSetting(
            f"the lake in {lake} has its catalog in PostgreSQL, but setting catalog does not say where",
            hint="connect(…, catalog='postgresql://…'), FRESHLAKE_CATALOG, or catalog in the lake's freshlake.toml",
        )


def _open_sqlite(engine: Engine, folder: Path) -> tuple[Engine, str]:
    place = _Place(engine, folder, str(folder / FILE))
    version, known = _current(place)
    with translated():
        use_write_ahead_log(engine)  # writes to the file, so only now that it is known to be ours
    if known is None or version < migrations.current_version():
        known = _upgrade(place, uuid4().hex)
    check_marker(folder, known)
    return engine, known


def _open_postgres(engine: Engine, folder: Path) -> tuple[Engine, str]:
    marker = read_marker(folder) or _make_in_postgres(engine, folder)
    place = _in_postgres(engine, folder, marker.lake_id)
    version, known = _current(place)
    if version < migrations.current_version():
        known = _upgrade(place, marker.lake_id)
    if known != marker.lake_id:
        raise CatalogCorrupt(f"{place.name} belongs to another lake", detail=f"it is of lake {known}")
    _settle(place, marker)
    return place.engine, known


def _make_in_postgres(engine: Engine, folder: Path) -> Marker:
    """A new lake's tables, then its marker; whoever else opens the new lake waits for its turn and finds the marker.

    A crash in between leaves a schema without data that no lake knows.
    """
    with begun(postgres.in_turn(engine), "write"):
        marker = read_marker(folder)
        if marker is None:
            marker = Marker(uuid4().hex, in_postgres=True)
            _upgrade(_in_postgres(engine, folder, marker.lake_id), marker.lake_id)
            marker.write(folder)
        return marker


def _settle(place: _Place, marker: Marker) -> None:
    """Remember the folder of a lake, and refuse a copy: two folders would move one catalog.

    What was remembered in another database came from there with a backup, and says nothing about this one.
    """
    here = place.folder.resolve()
    with begun(place.engine, "read") as connection:
        database = postgres.identity(connection)
        known = connection.execute(select(meta.c.value).where(meta.c.key == "folder")).scalar() or ""
    before, _, first = known.partition(" ")
    if (before, first) == (database, str(here)):
        return
    if before == database and read_marker(Path(first)) == marker and not here.samefile(first):
        raise InvalidSetting(
            f"{here.parent} is a copy of the lake in {Path(first).parent}, which has the same catalog",
            hint="copy the catalog as well, to another database, and name that one; or use the lake where it was",
        )
    with begun(place.engine, "write") as connection:
        _put(connection, "folder", f"{database} {here}", replace=True)


def _in_postgres(engine: Engine, folder: Path, lake_id: str) -> _Place:
    schema = postgres.schema_of(lake_id)
    return _Place(postgres.in_schema(engine, lake_id), folder, f"schema {schema} in PostgreSQL", schema)


def _current(place: _Place) -> tuple[int, str | None]:
    with begun(place.engine, "read") as connection:
        version = _version(connection, place)
        return version, _lake_id(connection) if version else None


def _upgrade(place: _Place, new_id: str) -> str:
    with begun(place.engine, "write") as connection:
        # another process may have done it while this one waited
        version = _version(connection, place)
        if place.schema is not None:
            postgres.make_schema(connection, place.schema)
        migrations.upgrade(connection, version)
        if place.schema is not None:
            postgres.widen(connection, place.schema)
        _put(connection, "schema_version", str(migrations.current_version()), replace=True)
        _put(connection, "lake_id", new_id, replace=False)
        return _lake_id(connection)


def _version(connection: Connection, place: _Place) -> int:
    marked = (place.folder / MARKER).exists()  # looked for first: a new lake gets its tables, then its marker
    tables = set(inspect(connection).get_table_names(schema=place.schema))
    lake = place.folder.parent
    if not tables and marked:
        raise CatalogCorrupt(
            f"the catalog of the lake in {lake} is missing",
            detail=f"{place.name} is empty or was removed, but {MARKER} shows that the lake is in use",
            hint=None if place.schema is None else "check that the URL names the right database, or restore the schema",
        )
    if not tables:
        return 0
    if meta.name not in tables:
        raise CatalogCorrupt(f"{place.name} holds tables, but not a Freshlake catalog")
    value = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).scalar()
    if value is None or not value.isdigit():
        raise CatalogCorrupt(f"{place.name} does not say its version", detail=f"schema_version is {value!r}")
    if int(value) > migrations.current_version():
        raise CatalogTooNew(
            f"the catalog of the lake in {lake} was written by a newer Freshlake",
            detail=f"it has version {value}; this Freshlake knows versions up to {migrations.current_version()}",
        )
    return int(value)


def _lake_id(connection: Connection) -> str:
    value = connection.execute(select(meta.c.value).where(meta.c.key == "lake_id")).scalar()
    if not value:
        raise CatalogCorrupt("the catalog has no lake id")
    return str(value)


def _put(connection: Connection, key: str, value: str, *, replace: bool) -> None:
    statement = upsert(connection, meta).values(key=key, value=value)
    if replace:
        statement = statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
    else:
        statement = statement.on_conflict_do_nothing()
    connection.execute(statement)
