"""Which state a reader gets: one that is overtaken by a fold looks again, and every published one is found by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog, Fold, StreamTable
from freshlake.clock import ManualClock
from freshlake.errors import StorageMissing, VersionNotKept
from freshlake.service.reading import Reading
from freshlake.storage.layout import FoldPoint
from tests.unit.catalog_cases import added, committed, frontier

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Overtaken(Reading):
    """Folds that the catalog knows, one look after the other, and those whose log is still there."""

    def __init__(self, looks: list[int], readable: set[int]) -> None:
        self.looks, self.readable = looks, readable
        catalog = SimpleNamespace(newest_fold=self.newest)
        storage = SimpleNamespace(read=self.read)
        layout = SimpleNamespace(root=lambda table, generation: storage, is_there=lambda *_: True)
        super().__init__(cast(Any, SimpleNamespace(catalog=catalog, layout=layout, spark=None)))

    def newest(self, *_: Any, **__: Any) -> Any:
        folded = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return cast(Fold, SimpleNamespace(base_version=folded, folded_version=folded))

    def read(self, spark: Any, version: int, point: FoldPoint, columns: list[str]) -> Any:
        if point.folded_version not in self.readable:
            raise StorageMissing(f"the changes after version {point.folded_version} are no longer in the log")
        return point.folded_version

    def _visible(self, table: StreamTable, generation: int | None = None) -> list[str]:
        return []


STATE = {"id": 1, "storage_id": "s", "published_generation": 1, "published_version": 8}
TABLE = cast(StreamTable, SimpleNamespace(**STATE, full_name=SimpleNamespace(short="revenue")))


def test_a_fold_and_a_clean_up_in_between_lose_nothing() -> None:
    assert cast(Any, Overtaken([3, 5], {5}).state_at(TABLE, 1, 7)) == 5


def test_what_is_gone_is_gone() -> None:
    with pytest.raises(VersionNotKept, match="version 7 of stream table revenue") as caught:
        Overtaken([3], set()).state_at(TABLE, 1, 7)
    assert "after version 3" in str(caught.value.detail)


def test_a_state_whose_roots_disagree_is_found_by_its_time(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    catalog = Catalog.open(tmp_path, clock=clock)
    table = added(catalog)
    agreed = {**frontier(orders=1), "roots": {}}
    first = {"generation": 1, "fold_base_version": 1, "folded_version": 1, "frontier": agreed}
    table = committed(catalog, table, 1, NOW, **first)
    later = NOW + timedelta(seconds=10)
    table = committed(catalog, table, 2, later, frontier={**agreed, "mixed": {"orders": []}})
    last = NOW + timedelta(seconds=20)
    table = committed(catalog, table, 3, last, publish=False)
    reading = Reading(cast(Any, SimpleNamespace(catalog=catalog)))
    found = [reading._version_at(table, moment) for moment in (NOW - timedelta(seconds=1), NOW, later, last)]
    catalog.close()
    assert found == [None, 1, 2, 2], "the newest that readers see, and none that they do not see yet"
