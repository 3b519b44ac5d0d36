"""A lake to try mistakes on, and the proof that a refused call changed nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError
from freshlake.lake import Freshlake
from tests.bags import canonical

NO_RULE = (
    "WITH RECURSIVE p(id, n) AS (SELECT id, 1 FROM orders UNION ALL "
    "SELECT x.id, x.n + 1 FROM p AS x JOIN p AS y ON x.id = y.id WHERE x.n < 3) SELECT id, n FROM p"
)
"""A query over orders that is always computed as a whole: a recursion that joins its reference with itself."""

# Tests change large parts of tiny tables; the share of changed rows must not decide for them.
ANY_SHARE = {"differential_max_change_ratio": 0.0}

# Column mapping, so that columns can be renamed and dropped.
BY_NAME = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"


def orders(fl: Freshlake, name: str = "orders") -> None:
    """Duplicates and NULLs included."""
    fl.sql(f"CREATE TABLE {name} (id BIGINT, region STRING, amount INT) USING delta")
    fl.sql(f"INSERT INTO {name} VALUES (1, 'north', 10), (2, 'north', 5), (3, NULL, 1), (3, NULL, 1), (4, 'south', 7)")


def rows(fl: Freshlake, query: str) -> Counter[Any]:
    """The result of a query, or of a table by name, as a bag."""
    text = query if " " in query else f"SELECT * FROM {query}"
    return bag(tuple(row) for row in fl.sql(text).collect())


def bag(values: Any) -> Counter[Any]:
    return Counter(canonical(value) for value in values)


def picture(fl: Freshlake) -> dict[str, Any]:
    """Everything a user or another process can see of a lake, except its history and the clock."""
    moving = {
        "next_due",
        "is_stale",
        "staleness_seconds",
        "last_refresh",
        "last_action",
        "last_reason",
        "data_timestamp",
        "consecutive_errors",
    }
    streams = fl.path / "_freshlake" / "streams"
    return {
        "status": [{k: v for k, v in asdict(s).items() if k not in moving} for s in fl.status()],
        "definitions": [(t.full_name, t.original_query, _sources(t)) for t in fl._engine.catalog.stream_tables()],
        "dependencies": fl._engine.catalog.all_dependencies(),
        "contents": {s.name: rows(fl, s.name) for s in fl.status() if s.is_populated},
        "folders": sorted(str(p.relative_to(streams)) for p in streams.glob("*/*")) if streams.exists() else [],
        "tables": sorted(str(t.name) for t in fl._engine.catalog.tables()),
        "spark": sorted((t.database, t.name) for t in fl.spark.catalog.listTables() if not t.isTemporary),
        "temporary": sorted(t.name for t in fl.spark.catalog.listTables() if t.isTemporary),
        "leases": [fl._engine.catalog.lease(t.id) for t in fl._engine.catalog.stream_tables()],
    }


def _sources(table: StreamTable) -> Any:
    return (table.frontier or {}).get("sources")


@contextmanager
def refused(
    fl: Freshlake, kind: type[FreshlakeError], *words: str, code: str | None = None, status: str | None = None
) -> Iterator[pytest.ExceptionInfo[FreshlakeError]]:
    """The block fails with this error, which says what to do, and leaves everything as it was.

    `status` names a table whose state may have changed to ERROR, the one visible trace a lost source leaves.
    """
    before = picture(fl)
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    if code or not kind.__subclasses__():
        assert error.code == (code or kind.code)
    assert error.hint
    for word in words:
        assert word in str(error)
    assert "at org.apache" not in str(error)
    after = picture(fl)
    for shown in (before, after):
        for table in shown["status"]:
            if table["name"] == status:
                table["status"] = "any"
    assert after == before


def folder_of(fl: Freshlake, name: str) -> Path:
    """Where a plain table's files are."""
    location = fl.sql(f"DESCRIBE DETAIL {name}").first()
    assert location is not None
    return Path(location["location"].removeprefix("file:"))
