"""Readers of a repaired table that others work on, or that go meanwhile. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshlake.catalog import StreamTable
from freshlake.refresh import recover
from freshlake.service import readers
from freshlake.service.readers import not_taken_over
from tests.unit.catalog_cases import reads_stream_table
from tests.unit.lake_cases import Lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """`bad` reads `good`, and would follow it."""
    monkeypatch.setattr(recover, "adopt", lambda engine, table, lease: table)
    monkeypatch.setattr(readers, "_follows", lambda *_: True)
    monkeypatch.setattr(readers, "_WAIT_SECONDS", 0.0)
    opened = Lake(tmp_path)
    opened.catalog.replace_dependencies(opened.table("bad").id, [reads_stream_table(opened.table("good"))])
    yield opened
    opened.catalog.close()


def found(lake: Lake) -> list[str]:
    return [table.name for table in not_taken_over(lake.engine, lake.table("good"))]


def test_one_that_somebody_works_on_is_rebuilt_instead_of_waited_for(lake: Lake) -> None:
    """He may hold it while he waits for the repaired table, which is held here."""
    assert found(lake) == []
    lake.catalog.acquire_lease(lake.table("bad").id, 600)
    assert found(lake) == ["bad"]


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
