"""What the catalog keeps of earlier states: as much as can be read and is young, and not more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from freshlake.catalog import Catalog, NodeState, StreamTable
from freshlake.clock import ManualClock
from freshlake.refresh.forgetting import forget_states
from tests.unit.catalog_cases import added, committed, frontier, reads_stream_table

NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = 3_600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    return added(catalog)


def refresh(catalog: Catalog, clock: ManualClock, table: StreamTable, version: int, **columns: Any) -> StreamTable:
    """An hour passes, and the sources have moved by one."""
    clock.advance(HOUR)
    roots = {"orders": {"table_id": "orders", "version": int(clock.now().timestamp()), "fingerprint": "f"}}
    moved = {"frontier": {**frontier(), "roots": roots}, "generation": table.generation or 1, **columns}
    return committed(catalog, catalog.get_by_id(table.id), version, clock.now(), **moved)


def load(catalog: Catalog, clock: ManualClock, table: StreamTable, generation: int = 1) -> StreamTable:
    nodes = {"n1": NodeState("n1", 1, 1, 1)}
    moved = {"generation": generation, "fold_base_version": 1, "folded_version": 1, "nodes": nodes}
    return refresh(catalog, clock, table, 1, **moved)


def fold(catalog: Catalog, table: StreamTable, upto: int, node: str = "") -> None:
    lease = catalog.acquire_lease(table.id, 60)
    table = catalog.get_by_id(table.id)
    place = {"generation": table.generation, "folded_version": upto, "base_version": upto}
    catalog.add_fold(table.id, lease.epoch, node=node, **place)
    catalog.release_lease(lease)


def forget(catalog: Catalog, clock: ManualClock, table: StreamTable, hours: float) -> int:
    engine: Any = SimpleNamespace(catalog=catalog, clock=clock, settings=SimpleNamespace(log_retention_hours=hours))
    return forget_states(engine, catalog.get_by_id(table.id))


def versions(catalog: Catalog, table: StreamTable) -> list[int]:
    return [point.version for point in reversed(catalog.points(table.id))]


def folded(catalog: Catalog, table: StreamTable) -> list[tuple[int, str, int]]:
    return sorted((f.generation, f.node, f.folded_version) for f in catalog.folds(table.id))


def test_states_that_are_old_and_folded_away_are_forgotten(
    catalog: Catalog, clock: ManualClock, table: StreamTable
) -> None:
    load(catalog, clock, table)
    for version in range(2, 11):
        refresh(catalog, clock, table, version)
        if version % 3 == 0:
            fold(catalog, table, version)
            fold(catalog, table, version, "n1")
    assert folded(catalog, table) == [(1, n, v) for n in ("", "n1") for v in (1, 3, 6, 9) if (n, v) != ("n1", 1)]
    assert forget(catalog, clock, table, hours=100) == 0
    # the state of four and a half hours ago is version 5, which is read from the fold of version 3
    assert forget(catalog, clock, table, hours=4.5) == 3
    assert versions(catalog, table) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert folded(catalog, table) == [(1, n, v) for n in ("", "n1") for v in (3, 6, 9)]
    assert forget(catalog, clock, table, hours=4.5) == 0


def test_of_an_old_state_that_stayed_the_first_and_the_last_point_are_kept(
    catalog: Catalog, clock: ManualClock, table: StreamTable
) -> None:
    load(catalog, clock, table)
    for _ in range(5):
        refresh(catalog, clock, table, 1)
    for _ in range(3):
        refresh(catalog, clock, table, 2)
    began = [point.at for point in reversed(catalog.points(table.id))]
    assert forget(catalog, clock, table, hours=0.5) == 4
    assert versions(catalog, table) == [1, 1, 2, 2, 2]
    kept = [point.at for point in reversed(catalog.points(table.id))]
    assert kept == [began[0], *began[5:]]


def test_a_state_at_which_a_reader_stands_is_kept(catalog: Catalog, clock: ManualClock, table: StreamTable) -> None:
    load(catalog, clock, table)
    refresh(catalog, clock, table, 2)
    fold(catalog, table, 2)
    reader = added(catalog, "reader")
    at = {"table_id": f"{table.source_key}:1", "version": 2, "fingerprint": ""}
    catalog.replace_dependencies(reader.id, [reads_stream_table(table)])
    refresh(catalog, clock, reader, 1, frontier={"sources": {table.source_key: at}})
    for version in (3, 4, 5):
        refresh(catalog, clock, table, version)
        fold(catalog, table, version)
    assert forget(catalog, clock, table, hours=0) == 2
    assert versions(catalog, table) == [2, 3, 4, 5]
    assert [v for _, node, v in folded(catalog, table) if not node] == [2, 3, 4, 5]
    load(catalog, clock, table, generation=9)
    assert forget(catalog, clock, table, hours=0) == 0, "it stands in the generation before"


def test_a_generation_that_was_left_keeps_one_fold(catalog: Catalog, clock: ManualClock, table: StreamTable) -> None:
    """Its folder is still there: without any fold it would be taken for a load that failed."""
    load(catalog, clock, table)
    refresh(catalog, clock, table, 2)
    fold(catalog, table, 2)
    load(catalog, clock, table, generation=9)
    assert forget(catalog, clock, table, hours=2) == 0
    clock.advance(3 * HOUR)
    assert forget(catalog, clock, table, hours=2) == 3
    assert folded(catalog, table) == [(1, "", 2), (9, "", 1)]
    assert versions(catalog, table) == [1]


def test_points_are_read_newest_first_and_no_more_than_needed(
    catalog: Catalog, clock: ManualClock, table: StreamTable
) -> None:
    load(catalog, clock, table)
    for version in (2, 3, 4):
        refresh(catalog, clock, table, version)
    found = catalog.published_points(table.id, 1, 3, limit=2)
    assert [point.version for point in found] == [3, 2]
    moment = found[1].at
    assert [p.version for p in catalog.published_points(table.id, 1, 4, until=moment, limit=1)] == [2]
    assert catalog.published_points(table.id, 2, 9) == ()
