"""Readers of a repaired table that others work on, or that go meanwhile. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from freshlake.catalog import StreamTable
from freshlake.refresh import recover
from freshlake.refresh.engine import Engine
from freshlake.service import readers
from freshlake.service.readers import not_taken_over
from tests.unit.catalog_cases import added, reads_stream_table
from tests.unit.lake_cases import Lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """`bad` reads `good`, and would follow it."""
    monkeypatch.setattr(recover, "adopt", lambda engine, table, lease: table)
    monkeypatch.setattr(readers, "_follows", lambda *_: True)
    opened = Lake(tmp_path)
    opened.catalog.replace_dependencies(opened.table("bad").id, [reads_stream_table(opened.table("good"))])
    yield opened
    opened.catalog.close()


def found(lake: Lake) -> list[str]:
    return [table.name for table in not_taken_over(lake.engine, lake.table("good"))]


def test_all_together_are_waited_for_less_long_than_who_holds_one_waits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may wait for the repaired table, which is held here."""
    other = added(lake.catalog, "other")
    lake.catalog.replace_dependencies(other.id, [reads_stream_table(lake.table("good"))])
    passed, waits = [0.0], []

    @contextmanager
    def slow(engine: Engine, table_id: int, seconds: float) -> Iterator[tuple[None, StreamTable]]:
        waits.append(seconds)
        passed[0] += seconds
        yield None, lake.catalog.get_by_id(table_id)

    monkeypatch.setattr(readers, "held", slow)
    monkeypatch.setattr(readers, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    assert found(lake) == []
    assert len(waits) == 2
    assert sum(waits) < lake.engine.settings.immediate_wait_seconds


def test_one_that_was_dropped_is_left_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table, bad = lake.table("good"), lake.table("bad")

    def dropped_meanwhile(key: str) -> tuple[StreamTable, ...]:
        lake.catalog.delete(bad.id)
        return (bad,)

    monkeypatch.setattr(lake.catalog, "dependents", dropped_meanwhile)
    assert found(lake) == []
    lease = lake.catalog.acquire_lease(table.id, 600)
    lake.catalog.update(table.id, quarantined_at=lake.clock.now())
    lake.catalog.end_quarantine(table.id, lease.epoch, [bad.id])
    assert not lake.table("good").is_quarantined
