"""Opening a lake's catalog: find or make the file, bring it to the current version, refuse what is not ours."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection, Engine, inspect, select
from sqlalchemy.dialects.sqlite import insert

from freshlake.catalog import migrations
from freshlake.catalog.database import sqlite_engine, translated, use_write_ahead_log
from freshlake.catalog.tables import meta
from freshlake.errors import CatalogCorrupt, CatalogTooNew, LakeNotFound, LakeNotWritable

FOLDER = "_freshlake"
FILE = "catalog.db"
# Beside the file: tells a lake that lost its catalog from a new one, which must not start empty in silence.
MARKER = "lake-id"


def open_engine(lake: Path, *, create: bool, busy_seconds: float) -> tuple[Engine, str]:
    """The engine of a lake's catalog at the current version, and the lake's id."""
    folder = lake / FOLDER
    _prepare(lake, folder, create=create)
    engine = sqlite_engine(folder / FILE, busy_seconds)
    try:
        return engine, _prepare_schema(engine, folder)
    except BaseException:
        engine.dispose()
        raise


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


def _prepare_schema(engine: Engine, folder: Path) -> str:
    with translated(), engine.connect() as connection, connection.begin():
        version = _version(connection, folder)
        known = _lake_id(connection) if version else None
    use_write_ahead_log(engine)  # writes to the file, so only now that it is known to be ours
    if known is None or version < migrations.current_version():
        known = _upgrade(engine, folder)
    _check_marker(folder, known)
    return known


def _upgrade(engine: Engine, folder: Path) -> str:
    with translated(), engine.connect() as connection:
        connection.execution_options(freshlake_begin="BEGIN IMMEDIATE")
        with connection.begin():
            # another process may have done it while this one waited
            version = _version(connection, folder)
            migrations.upgrade(connection, version)
            _put(connection, "schema_version", str(migrations.current_version()), replace=True)
            _put(connection, "lake_id", uuid4().hex, replace=False)
            return _lake_id(connection)


def _version(connection: Connection, folder: Path) -> int:
    marked = (folder / MARKER).exists()  # looked for first: a new lake gets its tables, then its marker
    tables = set(inspect(connection).get_table_names())
    if not tables and marked:
        raise CatalogCorrupt(
            f"the catalog of the lake in {folder.parent} is missing",
            detail=f"{FILE} is empty or was removed, but {MARKER} shows that the lake is in use",
        )
    if not tables:
        return 0
    if meta.name not in tables:
        raise CatalogCorrupt(f"{folder / FILE} is a database, but not a Freshlake catalog")
    value = connection.execute(select(meta.c.value).where(meta.c.key == "schema_version")).scalar()
    if value is None or not value.isdigit():
        raise CatalogCorrupt(f"{folder / FILE} does not say its version", detail=f"schema_version is {value!r}")
    if int(value) > migrations.current_version():
        raise CatalogTooNew(
            f"the catalog of the lake in {folder.parent} was written by a newer Freshlake",
            detail=f"it has version {value}; this Freshlake knows versions up to {migrations.current_version()}",
        )
    return int(value)


def _lake_id(connection: Connection) -> str:
    value = connection.execute(select(meta.c.value).where(meta.c.key == "lake_id")).scalar()
    if not value:
        raise CatalogCorrupt("the catalog has no lake id")
    return str(value)


def _put(connection: Connection, key: str, value: str, *, replace: bool) -> None:
    statement = insert(meta).values(key=key, value=value)
    if replace:
        statement = statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
    else:
        statement = statement.on_conflict_do_nothing()
    connection.execute(statement)


def _check_marker(folder: Path, lake_id: str) -> None:
    marker = folder / MARKER
    try:
        written = marker.read_text(encoding="utf-8").strip() if marker.exists() else None
        if written is None:
            aside = folder / f"{MARKER}.{uuid4().hex}"
            aside.write_text(lake_id + "\n", encoding="utf-8")
            aside.replace(marker)
            return
    except OSError as error:
        raise LakeNotWritable(f"{marker} cannot be written", detail=error.strerror) from None
    if written != lake_id:
        raise CatalogCorrupt(
            f"the catalog in {folder} belongs to another lake",
            detail=f"the lake is {written}, the catalog is of lake {lake_id}",
        )
