"""Small catalogs for the catalog tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

from freshlake.catalog import Action, Catalog, Commit, Dependency, NewStreamTable, SourceType, StreamTable, TableName


def new(name: str = "revenue", **columns: Any) -> NewStreamTable:
    """A definition with the given columns."""
    query = columns.pop("query", "SELECT 1")
    return NewStreamTable(TableName.parse(name), uuid4().hex, query, query, **columns)


def added(catalog: Catalog, name: str = "revenue", **columns: Any) -> StreamTable:
    """A stream table in the catalog."""
    return catalog.insert_stream_table(new(name, **columns))


def reads(*tables: str) -> list[Dependency]:
    """Dependencies on plain tables."""
    return [Dependency(f"delta:/lake/{name}", SourceType.TABLE, name, f"/lake/{name}") for name in tables]


def reads_stream_table(table: StreamTable) -> Dependency:
    """A dependency on a stream table."""
    return Dependency(table.source_key, SourceType.STREAM_TABLE, str(table.full_name))


def frontier(**versions: int) -> dict[str, Any]:
    """A frontier over plain tables."""
    return {
        "sources": {
            f"delta:/lake/{name}": {"table_id": name, "version": version, "fingerprint": "f"}
            for name, version in versions.items()
        }
    }


def committed(catalog: Catalog, table: StreamTable, version: int, at: datetime, **columns: Any) -> StreamTable:
    """The table after one whole refresh to a version."""
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    columns = {"action": Action.DIFFERENTIAL, "generation": table.generation, "frontier": frontier(), **columns}
    after = catalog.commit_refresh(
        table.id, lease.epoch, Commit(refresh.refresh_id, version=version, data_timestamp=at, **columns)
    )
    catalog.release_lease(lease)
    return after
