"""Stream tables, what they read, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from freshlake.catalog import (
    Catalog,
    DefinitionKind,
    Dependency,
    FoldPolicy,
    NodeState,
    RefreshMode,
    SourceType,
    Status,
    TableKind,
    TableName,
)
from freshlake.clock import ManualClock
from freshlake.errors import (
    AlreadyExists,
    CatalogCorrupt,
    CatalogError,
    InternalError,
    InvalidArgument,
    LeaseLost,
    NotFound,
)
from tests.unit.catalog_cases import added, committed, frontier, new, reads, reads_stream_table

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url, clock=clock)
    yield opened
    opened.close()


def test_tables_are_found_by_words(catalog: Catalog) -> None:
    one, other, _ = added(catalog, "revenue"), added(catalog, "sales.revenue"), added(catalog, "revenues")
    names = [TableName("default", "revenue"), TableName("default", "revenues"), TableName("sales", "revenue")]
    assert list(catalog.stream_table_names()) == names
    assert catalog.stream_tables_among({"revenue", "sales"}) == (one, other)
    assert not catalog.stream_tables_among({"sales"})


def test_a_new_table_starts_empty(catalog: Catalog) -> None:
    table = added(catalog, "Sales.Revenue", query="SELECT a FROM t")
    assert table == catalog.get("sales.revenue") == catalog.find("SALES.REVENUE") == catalog.get_by_id(table.id)
    assert table.full_name == TableName("sales", "revenue")
    assert table.original_query == "SELECT a FROM t"
    assert (table.status, table.is_populated, table.needs_reinit) == (Status.INITIALIZING, False, False)
    assert (table.generation, table.version, table.published_version) == (0, -1, -1)
    assert (table.frontier, table.data_timestamp, table.row_count) == (None, None, None)
    assert (table.refresh_mode, table.fold_policy) == (RefreshMode.AUTO, FoldPolicy.AUTO)
    assert table.created_at == table.updated_at == NOW


def test_every_column_comes_back_as_it_went_in(catalog: Catalog) -> None:
    definition = new(
        "t",
        query="SELECT '日本', \"ü\" -- 'x'",
        definition_kind=DefinitionKind.FUNCTION,
        definition_reference="shop.views:revenue",
        fingerprint="abc",
        schedule="5m",
        effective_schedule="5m",
        refresh_mode=RefreshMode.DIFFERENTIAL,
        fold_policy=FoldPolicy.MANUAL,
        append_only=True,
        partition_by=("day", "Länge"),
        session_settings={"spark.sql.ansi.enabled": "true"},
        output_schema={"type": "struct", "fields": [{"name": "a", "nullable": True}]},
        reasons=({"code": "no-rule", "operator": "Window"},),
        topk_limit=10,
        tier="hot",
    )
    table = catalog.insert_stream_table(definition)
    stored = catalog.get("t")
    assert stored == table
    for name in vars(definition):
        if name != "name":
            assert getattr(stored, name) == getattr(definition, name), name


def test_a_name_is_given_once_in_any_case(catalog: Catalog) -> None:
    added(catalog, "revenue")
    with pytest.raises(AlreadyExists, match="a stream table revenue already exists"):
        added(catalog, "REVENUE")
    assert added(catalog, "sales.revenue").schema == "sales"


def test_tables_views_and_stream_tables_share_their_names(catalog: Catalog) -> None:
    catalog.register_table(TableName.parse("orders"), provider="delta", location="/lake/orders")
    with pytest.raises(AlreadyExists, match="table or view orders"):
        added(catalog, "orders")
    added(catalog, "revenue")
    with pytest.raises(AlreadyExists, match="stream table revenue"):
        catalog.register_table(TableName.parse("revenue"), kind=TableKind.VIEW, view_text="SELECT 1")


def test_missing_tables_are_not_found(catalog: Catalog) -> None:
    assert catalog.find("nothing") is None
    with pytest.raises(NotFound, match=r"there is no stream table sales\.nothing"):
        catalog.get("Sales.Nothing")
    with pytest.raises(NotFound):
        catalog.get_by_id(7)
    with pytest.raises(NotFound):
        catalog.update(7, schedule="1m")
    with pytest.raises(NotFound):
        catalog.delete(7)
    with pytest.raises(NotFound):
        catalog.replace_dependencies(7, reads("orders"))
    with pytest.raises(NotFound):
        catalog.acquire_lease(7, 60)


def test_tables_are_listed_by_name_and_status(catalog: Catalog) -> None:
    first, second = added(catalog, "b"), added(catalog, "a.z")
    catalog.update(first.id, status=Status.ACTIVE)
    assert [str(table.full_name) for table in catalog.stream_tables()] == ["a.z", "default.b"]
    assert [table.id for table in catalog.stream_tables(Status.ACTIVE)] == [first.id]
    assert [table.id for table in catalog.stream_tables(Status.INITIALIZING)] == [second.id]
    assert catalog.stream_tables(Status.ERROR) == ()


def test_updates_change_only_what_they_name(catalog: Catalog, clock: ManualClock) -> None:
    table = added(catalog)
    clock.advance(5)
    nodes = {"n1": NodeState("gen-0/n1", 4, 2, 3), "n2": NodeState("gen-0/n2", 0)}
    changed = catalog.update(
        table.id, schedule="1h", nodes=nodes, frontier=frontier(orders=3), reasons=({"code": "x"},)
    )
    assert changed == replace(
        table,
        schedule="1h",
        nodes=nodes,
        frontier=frontier(orders=3),
        reasons=({"code": "x"},),
        updated_at=clock.now(),
    )
    assert catalog.update(table.id, schedule=None).schedule is None


@pytest.mark.parametrize("column", ["id", "created_at", "colour"])
def test_what_is_no_changeable_column_is_refused(catalog: Catalog, column: str) -> None:
    table = added(catalog)
    with pytest.raises(InternalError, match=column):
        catalog.update(table.id, **{column: 1})


def test_an_unknown_status_is_not_storable(catalog: Catalog) -> None:
    table = added(catalog)
    with pytest.raises(CatalogError):
        catalog.update(table.id, status="PAUSED")
    with pytest.raises(CatalogError), catalog._write() as connection:
        connection.exec_driver_sql("UPDATE fl_stream_tables SET status = 'PAUSED'")
    assert catalog.get_by_id(table.id).status is Status.INITIALIZING


def test_a_damaged_value_is_reported_as_such(catalog: Catalog) -> None:
    added(catalog)
    with catalog._write() as connection:
        connection.exec_driver_sql("UPDATE fl_stream_tables SET refresh_mode = 'SOMETIMES'")
    with pytest.raises(CatalogCorrupt):
        catalog.get("revenue")


def test_dependencies_are_replaced_as_a_whole(catalog: Catalog) -> None:
    table = added(catalog)
    catalog.replace_dependencies(table.id, reads("orders", "customers"))
    assert [edge.source_name for edge in catalog.dependencies(table.id)] == ["customers", "orders"]
    edge = Dependency("delta:/x", SourceType.TABLE, "x", "/x", columns_used=("a", "b"), cdc_mode="DELTA_LOG")
    catalog.replace_dependencies(table.id, [edge])
    assert catalog.dependencies(table.id) == (edge,)
    assert catalog.all_dependencies() == {table.id: (edge,)}


def test_dependencies_that_were_taken_back_are_not_remembered(catalog: Catalog) -> None:
    """The number of a change that was taken back is given to the next one."""
    table = added(catalog)
    catalog.replace_dependencies(table.id, reads("orders"))
    with suppress(RuntimeError), catalog.transaction():
        catalog.replace_dependencies(table.id, reads("customers"))
        assert [edge.source_name for edge in catalog.dependencies(table.id)] == ["customers"]
        raise RuntimeError
    catalog.replace_dependencies(table.id, reads("products"))
    assert [edge.source_name for edge in catalog.dependencies(table.id)] == ["products"]


def test_dependencies_that_another_process_changed_are_seen(catalog: Catalog, tmp_path: Path, catalog_url: str) -> None:
    table = added(catalog)
    catalog.replace_dependencies(table.id, reads("orders"))
    assert len(catalog.dependencies(table.id)) == 1
    with closing(Catalog.open(tmp_path, url=catalog_url)) as other:
        other.replace_dependencies(table.id, reads("orders", "customers"))
    assert len(catalog.dependencies(table.id)) == 2


def test_the_whole_graph_is_read_at_once_with_tables_that_read_nothing(catalog: Catalog) -> None:
    upstream, downstream, alone = added(catalog, "a"), added(catalog, "b"), added(catalog, "c")
    catalog.replace_dependencies(upstream.id, reads("orders"))
    catalog.replace_dependencies(downstream.id, [reads_stream_table(upstream)])
    graph = catalog.all_dependencies()
    assert graph[upstream.id] == tuple(reads("orders"))
    assert [edge.stream_table_id for edge in graph[downstream.id]] == [upstream.id]
    assert graph[alone.id] == ()


def test_readers_of_a_source_are_found(catalog: Catalog) -> None:
    upstream, first, second = added(catalog, "up"), added(catalog, "b"), added(catalog, "a")
    for table in (first, second):
        catalog.replace_dependencies(table.id, [reads_stream_table(upstream), *reads("orders")])
    assert [table.name for table in catalog.dependents(upstream.source_key)] == ["a", "b"]
    assert [table.name for table in catalog.dependents("delta:/lake/orders")] == ["a", "b"]
    assert catalog.dependents("delta:/lake/nothing") == ()


def test_sources_are_tracked_while_they_are_read(catalog: Catalog) -> None:
    first, second = added(catalog, "a"), added(catalog, "b")
    view = Dependency("view:default.v", SourceType.VIEW, "v")
    catalog.replace_dependencies(first.id, [*reads("orders", "customers"), view])
    catalog.replace_dependencies(second.id, reads("orders"))
    committed(catalog, second, 1, NOW, frontier=frontier(orders=9))
    customers, orders = catalog.tracked_sources()
    assert (customers.source_name, orders.source_name) == ("customers", "orders")
    assert [(str(c.name), c.position and c.position["version"]) for c in orders.consumers] == [
        ("default.a", None),
        ("default.b", 9),
    ]
    catalog.replace_dependencies(first.id, [])
    assert [source.source_name for source in catalog.tracked_sources()] == ["orders"]
    catalog.delete(second.id)
    assert catalog.tracked_sources() == ()


def test_the_slowest_consumer_of_a_generation_is_known(catalog: Catalog) -> None:
    upstream = added(catalog, "up")
    readers = [added(catalog, f"r{number}") for number in range(4)]
    positions = [("0", 7), ("0", 4), ("1", 2), None]
    for reader, position in zip(readers, positions, strict=True):
        catalog.replace_dependencies(reader.id, [reads_stream_table(upstream)])
        if position:
            at = {"table_id": f"st:{upstream.id}:{position[0]}", "version": position[1], "fingerprint": ""}
            committed(catalog, reader, 1, NOW, frontier={"sources": {upstream.source_key: at}})
    assert catalog.minimum_consumer_version(upstream.id, 0) == 4
    assert catalog.minimum_consumer_version(upstream.id, 1) == 2
    assert catalog.minimum_consumer_version(upstream.id, 2) is None
    catalog.delete(readers[1].id)
    assert catalog.minimum_consumer_version(upstream.id, 0) == 7


def test_a_dropped_table_leaves_nothing_and_its_id_is_not_used_again(catalog: Catalog) -> None:
    table = committed(catalog, added(catalog), 1, NOW, fold_base_version=0, folded_version=1)
    catalog.replace_dependencies(table.id, reads("orders"))
    catalog.insert_group("g", [table.id])
    catalog.acquire_lease(table.id, 60)
    catalog.delete(table.id)
    with catalog._read() as connection:
        for name in ("stream_tables", "dependencies", "refresh_history", "leases", "folds", "refresh_group_members"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM fl_{name}").scalar() == 0, name
    assert added(catalog).id > table.id


def test_published_versions_move_together(catalog: Catalog) -> None:
    first = committed(catalog, added(catalog, "a"), 3, NOW, publish=False)
    second = committed(catalog, added(catalog, "b"), 5, NOW, generation=2, publish=False)
    assert (first.published_version, second.published_version) == (-1, -1)
    held = [catalog.acquire_lease(table.id, 60) for table in (first, second)]
    catalog.publish(held)
    assert catalog.get("a").published_version == 3
    assert (catalog.get("b").published_generation, catalog.get("b").published_version) == (2, 5)


def test_nothing_is_published_when_one_lease_is_lost(catalog: Catalog) -> None:
    first = committed(catalog, added(catalog, "a"), 3, NOW, publish=False)
    second = committed(catalog, added(catalog, "b"), 5, NOW, publish=False)
    held = [catalog.acquire_lease(table.id, 60) for table in (first, second)]
    catalog.release_lease(held[1])
    catalog.acquire_lease(second.id, 60)
    with pytest.raises(LeaseLost, match="b was lost"):
        catalog.publish(held)
    assert [catalog.get(name).published_version for name in ("a", "b")] == [-1, -1]


def test_a_transaction_keeps_all_or_nothing(catalog: Catalog) -> None:
    table = added(catalog)

    def replace_definition() -> None:
        with catalog.transaction():
            catalog.update(table.id, schedule="1h")
            catalog.replace_dependencies(table.id, reads("orders"))
            assert catalog.get("revenue").schedule == "1h"
            added(catalog, "revenue")

    with pytest.raises(AlreadyExists):
        replace_definition()
    assert catalog.get("revenue").schedule is None
    assert catalog.dependencies(table.id) == ()
    with catalog.transaction(), catalog.transaction():
        catalog.update(table.id, schedule="2h")
    assert catalog.get("revenue").schedule == "2h"


def test_modes_and_policies_are_read_in_any_case() -> None:
    assert RefreshMode.parse(" auto ") is RefreshMode.AUTO
    assert RefreshMode.parse("Incremental") is RefreshMode.DIFFERENTIAL
    assert FoldPolicy.parse("ALWAYS") is FoldPolicy.ALWAYS
    for parse in (RefreshMode.parse, FoldPolicy.parse):
        with pytest.raises(InvalidArgument, match="sometimes"):
            parse("sometimes")
    assert RefreshMode.parse("immediate") is RefreshMode.IMMEDIATE


def test_a_fresh_catalog_has_no_groups_and_a_group_name_is_given_once(catalog: Catalog) -> None:
    assert catalog.groups() == ()
    first, second = added(catalog, "a"), added(catalog, "b")
    group = catalog.insert_group("night", [second.id, first.id, first.id])
    assert catalog.groups() == (group,)
    assert [name.name for name in group.members] == ["a", "b"]
    with pytest.raises(AlreadyExists, match="night"):
        catalog.insert_group("night", [])
    with pytest.raises(NotFound):
        catalog.insert_group("day", [99])
    assert [group.name for group in catalog.groups()] == ["night"]
    assert catalog.remove_group("night")
    assert not catalog.remove_group("night")
    assert catalog.find("a") is not None
