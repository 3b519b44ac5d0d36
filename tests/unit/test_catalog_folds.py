"""Folds, and the registry of plain tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from freshlake.catalog import Catalog, Lease, NodeState, StreamTable, TableKind, TableName
from freshlake.clock import ManualClock
from freshlake.errors import InvariantViolated
from tests.unit.catalog_cases import added, committed

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url, clock=ManualClock(NOW))
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    return committed(catalog, added(catalog), 20, NOW, nodes={"n1": NodeState("n1", 9)})


@pytest.fixture
def lease(catalog: Catalog, table: StreamTable) -> Lease:
    return catalog.acquire_lease(table.id, 60)


def fold(catalog: Catalog, lease: Lease, folded: int, base: int, node: str = "", generation: int = 0) -> None:
    catalog.add_fold(
        lease.stream_table_id,
        lease.epoch,
        generation=generation,
        folded_version=folded,
        base_version=base,
        node=node,
    )


def newest(catalog: Catalog, table: StreamTable, upto: int, node: str = "") -> int | None:
    found = catalog.newest_fold(table.id, generation=0, upto=upto, node=node)
    return found.base_version if found else None


def test_a_version_is_read_from_the_newest_base_that_is_not_ahead_of_it(
    catalog: Catalog, table: StreamTable, lease: Lease
) -> None:
    for folded, base in ((0, 0), (5, 3), (12, 4)):
        fold(catalog, lease, folded, base)
    assert [newest(catalog, table, upto) for upto in (-1, 0, 4, 5, 11, 12, 99)] == [None, 0, 0, 3, 3, 4, 4]
    current = catalog.get("revenue")
    assert (current.fold_base_version, current.folded_version) == (4, 12)


def test_folds_of_nodes_and_generations_are_kept_apart(catalog: Catalog, table: StreamTable, lease: Lease) -> None:
    fold(catalog, lease, 3, 1)
    fold(catalog, lease, 4, 2, node="n1")
    assert newest(catalog, table, 9) == 1
    assert newest(catalog, table, 9, node="n1") == 2
    assert catalog.newest_fold(table.id, generation=1, upto=9) is None
    current = catalog.get("revenue")
    assert current.nodes == {"n1": NodeState("n1", 9, base_version=2, folded_version=4)}
    assert (current.fold_base_version, current.folded_version) == (1, 3)
    assert [(f.node, f.folded_version) for f in catalog.folds(table.id)] == [("", 3), ("n1", 4)]


def test_a_repeated_fold_replaces_the_first(catalog: Catalog, table: StreamTable, lease: Lease) -> None:
    fold(catalog, lease, 3, 1)
    fold(catalog, lease, 3, 2)
    assert newest(catalog, table, 3) == 2
    assert len(catalog.folds(table.id)) == 1


def test_nothing_is_folded_past_what_readers_see(catalog: Catalog, table: StreamTable, lease: Lease) -> None:
    catalog.release_lease(lease)
    committed(catalog, table, 25, NOW, publish=False)
    lease = catalog.acquire_lease(table.id, 60)
    with pytest.raises(InvariantViolated, match="version 21"):
        fold(catalog, lease, 21, 1)
    with pytest.raises(InvariantViolated, match="n9"):
        fold(catalog, lease, 1, 1, node="n9")
    assert catalog.folds(table.id) == ()


def test_a_new_generation_may_be_folded_before_it_is_published(
    catalog: Catalog, table: StreamTable, lease: Lease
) -> None:
    catalog.release_lease(lease)
    committed(catalog, table, 3, NOW, generation=1, publish=False)
    lease = catalog.acquire_lease(table.id, 60)
    fold(catalog, lease, 3, 7, generation=1)
    assert catalog.get("revenue").fold_base_version == 7
    fold(catalog, lease, 20, 5, generation=0)
    assert catalog.get("revenue").fold_base_version == 7


def test_pruning_keeps_what_the_oldest_reader_needs(catalog: Catalog, table: StreamTable, lease: Lease) -> None:
    for folded, base in ((0, 0), (5, 3), (12, 4)):
        fold(catalog, lease, folded, base)
    fold(catalog, lease, 0, 0, node="n1")
    assert catalog.prune_folds(table.id, generation=0, oldest_read=-1) == 0
    assert catalog.prune_folds(table.id, generation=0, oldest_read=11) == 1
    assert [f.folded_version for f in catalog.folds(table.id)] == [5, 12, 0]
    assert catalog.prune_folds(table.id, generation=0, oldest_read=20) == 1
    assert newest(catalog, table, 20) == 4
    assert newest(catalog, table, 20, node="n1") == 0


def test_old_generations_are_forgotten(catalog: Catalog, table: StreamTable, lease: Lease) -> None:
    fold(catalog, lease, 3, 1)
    catalog.release_lease(lease)
    committed(catalog, table, 0, NOW, generation=1, fold_base_version=0, folded_version=0)
    assert catalog.forget_generations(table.id, before=1) == 1
    assert [f.generation for f in catalog.folds(table.id)] == [1]


def test_plain_tables_and_views_are_found_again(tmp_path: Path, catalog_url: str) -> None:
    clock = ManualClock(NOW)
    first = Catalog.open(tmp_path, url=catalog_url, clock=clock)
    orders = first.register_table(TableName.parse("orders"), provider="delta", location="/lake/orders")
    clock.advance(1)
    view = first.register_table(TableName.parse("a.big"), kind=TableKind.VIEW, view_text="SELECT * FROM orders")
    first.close()
    again = Catalog.open(tmp_path, url=catalog_url)
    assert again.tables() == (orders, view)
    assert again.find_table(TableName.parse("ORDERS")) == orders
    assert again.find_table(TableName.parse("nothing")) is None
    moved = again.register_table(TableName.parse("orders"), provider="delta", location="/elsewhere")
    assert again.find_table(TableName.parse("orders")) == moved
    assert again.tables() == (moved, view)
    assert again.remove_table(TableName.parse("orders"))
    assert not again.remove_table(TableName.parse("orders"))
    assert again.tables() == (view,)
    again.close()


def test_schemas_are_found_again_and_take_their_tables_with_them(catalog: Catalog) -> None:
    schema = catalog.register_schema("Sales", location="/lake/sales")
    catalog.register_table(TableName.parse("sales.orders"), provider="delta", location="/lake/sales/orders")
    assert catalog.schemas() == (schema,)
    assert catalog.register_schema("sales", location="/x").location == "/x"
    assert [s.location for s in catalog.schemas()] == ["/x"]
    assert catalog.remove_schema("SALES")
    assert not catalog.remove_schema("sales")
    assert catalog.tables() == ()
