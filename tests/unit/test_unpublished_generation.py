"""A rebuilt table that waits for its group: what readers of the old generation need stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Action, Catalog, StreamTable
from freshlake.clock import ManualClock
from freshlake.refresh import folding, vacuuming
from freshlake.refresh.inputs import StoredNode
from freshlake.sources.stream_table import StreamTableSource
from freshlake.storage.layout import FoldPoint, Pending
from tests.unit.catalog_cases import added, committed, frontier

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ROOTS = {
    **frontier(orders=1),
    "roots": {"delta:/lake/orders": {"table_id": "orders", "version": 1, "fingerprint": "f"}},
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=ManualClock(NOW))
    yield opened
    opened.close()


@pytest.fixture
def rebuilt(catalog: Catalog) -> StreamTable:
    """Readers see version 57 of the first generation, folded up to 50; the second one is at version 3."""
    table = added(catalog)
    first = {"action": Action.FULL, "fold_base_version": 1, "folded_version": 1, "frontier": ROOTS}
    table = committed(catalog, table, 1, NOW, **{**first, "generation": 1})
    table = committed(catalog, table, 50, NOW, frontier=ROOTS)
    lease = catalog.acquire_lease(table.id, 60)
    catalog.add_fold(table.id, lease.epoch, generation=1, folded_version=50, base_version=7)
    catalog.release_lease(lease)
    table = committed(catalog, table, 57, NOW, frontier=ROOTS)
    second = {**first, "generation": 9, "publish": False, "action": Action.REINITIALIZE}
    table = committed(catalog, table, 1, NOW, **second)
    table = committed(catalog, table, 3, NOW, publish=False, frontier=ROOTS)
    assert (table.generation, table.version) == (9, 3)
    assert (table.published_generation, table.published_version) == (1, 57)
    return table


def engine(catalog: Catalog) -> Any:
    return SimpleNamespace(
        catalog=catalog,
        clock=ManualClock(NOW),
        settings=SimpleNamespace(reader_min_age_seconds=0),
        layout=SimpleNamespace(generations=lambda storage_id: []),
        compiled=lambda table: None,
        reached=lambda place: None,
        worker=SimpleNamespace(size_for=lambda small: None, running=None),
    )


def test_a_fold_goes_up_to_what_readers_will_see(
    catalog: Catalog, rebuilt: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = SimpleNamespace(
        pending=lambda point, upto: Pending(upto - point.folded_version, 1, 1),
        fold=lambda spark, upto, point, epoch: FoldPoint(2, upto),
    )
    stored = {"": StoredNode(cast(Any, storage), 3, FoldPoint(1, 1))}
    monkeypatch.setattr(folding, "stored_nodes", lambda *_: stored)
    lease = catalog.acquire_lease(rebuilt.id, 60)
    assert folding._fold_nodes(engine(catalog), rebuilt, lease) == (2, 1)
    assert catalog.get_by_id(rebuilt.id).folded_version == 3
    assert folding.oldest_fold(engine(catalog), rebuilt) == 3


def test_a_vacuum_leaves_what_readers_know_of_their_generation(
    catalog: Catalog, rebuilt: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = catalog.points(rebuilt.id)
    storage = SimpleNamespace(vacuum=lambda kept, age: 0)
    stored = {"": StoredNode(cast(Any, storage), 3, FoldPoint(1, 1))}
    monkeypatch.setattr(vacuuming, "stored_nodes", lambda *_: stored)
    vacuuming.vacuum(engine(catalog), rebuilt)
    assert before
    assert catalog.points(rebuilt.id) == before


def test_plain_spark_sees_the_last_fold_of_what_is_published(catalog: Catalog, rebuilt: StreamTable) -> None:
    source = StreamTableSource(catalog, rebuilt.id, cast(Any, None))
    catalog.prune_folds(rebuilt.id, generation=1, oldest_read=57)
    assert source.seen_by_spark(source.head()).version == 50
