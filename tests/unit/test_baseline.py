"""A change is applied only to what was loaded and says from where the change leads; otherwise nothing is begun."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Action, Catalog, StreamTable
from freshlake.clock import ManualClock
from freshlake.errors import FreshlakeError, SourceHistoryLost, StreamTableNotPopulated
from freshlake.refresh.choose import Decision
from freshlake.refresh.commit import Work
from freshlake.refresh.inputs import spans_of
from freshlake.sources.protocol import Position, Source
from tests.unit.catalog_cases import added, committed, frontier

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ORDERS = "delta:/lake/orders"
SOURCES = {ORDERS: cast(Source, SimpleNamespace(name="orders"))}
HEADS = {ORDERS: Position("orders", 5, "f")}


class Untouched:
    """Whatever is asked of it is work that must not begin."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was used before the refresh was refused")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=ManualClock(NOW))
    yield opened
    opened.close()


def perform(table: StreamTable) -> None:
    untouched: Any = Untouched()
    known = spans_of(table, SOURCES, HEADS)
    parts = (untouched, table, untouched, "r", Decision(Action.DIFFERENTIAL), known, untouched, untouched)
    Work(*parts, mark=untouched).perform()


def refused(table: StreamTable, error: type[FreshlakeError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        perform(table)
    assert 'mode="FULL"' in str(caught.value.hint)


def test_a_table_that_was_never_loaded_takes_no_change(catalog: Catalog) -> None:
    refused(added(catalog), StreamTableNotPopulated, "has no rows")


@pytest.mark.parametrize("known", [{}, {"sources": {}}, frontier(other=1)])
def test_a_table_whose_frontier_lacks_a_source_takes_no_change(catalog: Catalog, known: dict[str, Any]) -> None:
    table = committed(catalog, added(catalog), 1, NOW, generation=1, frontier=known)
    refused(table, SourceHistoryLost, "up to where it has read orders")


def test_a_table_that_says_where_it_stands_goes_on_to_work(catalog: Catalog) -> None:
    loaded = {"generation": 1, "folded_version": 1, "fold_base_version": 0}
    table = committed(catalog, added(catalog), 1, NOW, frontier=frontier(orders=4), **loaded)
    with pytest.raises(AssertionError, match="was used before"):
        perform(table)
