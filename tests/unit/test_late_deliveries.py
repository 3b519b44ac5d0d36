"""Deliveries that are tried again: one that has ended meanwhile does not end the others, and is not begun anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog
from freshlake.catalog.deliveries import Delivery
from freshlake.refresh.engine import Engine
from freshlake.service.deliveries import Deliveries
from tests.unit.catalog_cases import added


@pytest.mark.parametrize("what", ["table", "delivery"])
def test_what_ends_while_others_are_brought_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    catalog, brought = Catalog.open(tmp_path), []
    catalog.insert_database("shop", "env:SHOP")
    known = [catalog.insert_delivery(added(catalog, name).id, "shop", f"public.{name}") for name in "abc"]
    deliveries = Deliveries(cast(Engine, SimpleNamespace(catalog=catalog)), cast(Any, None), cast(Any, None))

    def bring(delivery: Delivery) -> None:
        brought.append(delivery.target)
        if delivery == known[0]:
            catalog.delete_delivery(known[1])
            if what == "table":
                catalog.delete(known[1].stream_table_id)

    monkeypatch.setattr(deliveries, "_bring", bring)
    monkeypatch.setattr(catalog, "late_deliveries", lambda: tuple(known))
    deliveries.bring_late()
    assert brought == ["public.a", "public.c"]
    catalog.close()
