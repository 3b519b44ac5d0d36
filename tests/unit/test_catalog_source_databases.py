"""Source databases in the catalog: positions are numbered in the order in which they were taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshlake.catalog import Catalog
from freshlake.errors import AlreadyExists, NotFound
from tests.unit.catalog_cases import added


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str) -> Catalog:
    return Catalog.open(tmp_path, url=catalog_url)


def test_a_database_is_found_again_as_it_was_added(catalog: Catalog) -> None:
    made = catalog.insert_database("shop", "env:SHOP", schemas=("public",), cdc_mode="trigger")
    assert catalog.database("shop") == made == catalog.databases()[0]
    assert (made.source_key, made.schemas, made.tables, made.version, made.position) == (
        *("pg:shop", ("public",), None, 0, None),
    )
    with pytest.raises(AlreadyExists):
        catalog.insert_database("shop", "env:OTHER")
    catalog.delete_database("shop")
    assert catalog.find_database("shop") is None
    with pytest.raises(NotFound):
        catalog.database("shop")


def test_a_position_is_pinned_only_by_who_saw_the_one_before(catalog: Catalog) -> None:
    seen = catalog.insert_database("shop", "env:SHOP")
    first = catalog.pin_position(seen, {"snapshot": "1:1:"})
    assert first is not None
    assert (first.version, first.position) == (1, {"snapshot": "1:1:"})
    assert catalog.pin_position(seen, {"snapshot": "2:2:"}) is None, "another one came in between"
    assert catalog.database("shop") == first


def test_a_captured_table_goes_with_its_mirror(catalog: Catalog) -> None:
    catalog.insert_database("shop", "env:SHOP")
    mirror = added(catalog, "shop.public.orders")
    made = catalog.put_captured(mirror.id, database="shop", table="public.Orders", captured={"a": 1}, mode="trigger")
    again = catalog.put_captured(mirror.id, database="shop", table="public.Orders", captured={"a": 2}, mode="wal")
    assert (made.created_at, made.captured, again.captured) == (again.created_at, {"a": 1}, {"a": 2})
    assert catalog.captured_tables("shop") == catalog.captured_tables() == (again,)
    catalog.delete(mirror.id)
    assert catalog.captured_tables() == ()


def test_what_is_to_be_removed_is_remembered_until_it_is_done(catalog: Catalog) -> None:
    first = catalog.add_removal("shop", "env:SHOP", {"oid": 1})
    second = catalog.add_removal("shop", "env:SHOP", {"oid": 2})
    catalog.removal_failed(first, "no route")
    catalog.removal_failed(first, "refused")
    left = catalog.removals()
    assert [(r.id, r.attempts, r.error) for r in left] == [(first.id, 2, "refused"), (second.id, 0, None)]
    assert left[0].tried_at is not None
    catalog.removal_done(first)
    assert catalog.removals() == (second,)
