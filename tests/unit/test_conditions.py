"""Conditions that a scheduler tells of: once when they begin, again when they have ended and begin anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from freshlake.alerts import Alerts
from freshlake.catalog import Catalog, Dependency
from freshlake.catalog.enums import SourceType
from freshlake.clock import ManualClock
from freshlake.errors import SourceUnreadable
from freshlake.refresh.engine import Engine
from freshlake.schedule.state import Late, Tick
from freshlake.service.conditions import Conditions
from freshlake.service.known import Known
from freshlake.sources.protocol import ChangeKind, Position, Triage
from tests.unit.catalog_cases import added, committed, frontier, reads

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MILLION = 1_000_000


class Sources:
    """An engine with sources whose every version changes so many rows."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.heads = {"delta:/lake/orders": 0, "delta:/lake/other": 0}
        self.rows = MILLION
        self.counted: list[tuple[int, int]] = []
        self.broken: Exception | None = None

    def pinned(self, edges: Iterable[Dependency], _: object) -> dict[str, Position]:
        return {e.source_key: Position(e.source_name, self.heads[e.source_key], "f") for e in edges}

    def source(self, edge: Dependency) -> Sources:
        return self

    def triage(self, start: Position, end: Position) -> Triage:
        if self.broken is not None:
            raise self.broken
        self.counted.append((start.version, end.version))
        return Triage(ChangeKind.MUTATING, self.rows * (end.version - start.version), 0)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=ManualClock(NOW))
    yield opened
    opened.close()


@pytest.fixture
def sources(catalog: Catalog) -> Sources:
    return Sources(catalog)


@pytest.fixture
def conditions(catalog: Catalog, sources: Sources) -> Conditions:
    return Conditions(cast(Engine, sources), Alerts(catalog, ManualClock(NOW)))


def told(catalog: Catalog) -> list[tuple[str, Any]]:
    return [(alert.event, alert.payload) for alert in reversed(catalog.alerts())]


def test_lateness_is_told_once_until_it_has_ended(conditions: Conditions, catalog: Catalog) -> None:
    late = Tick(stale=(Late("default.a", 130.0, 60.0),), falling_behind=(Late("default.a", 130.0, 60.0),))
    for decided in (late, late, Tick(), late):
        conditions.tell(decided, {"default.a": 70.0})
    stale, behind = {"staleness_seconds": 130.0}, {"duration_ms": 70_000.0}
    expected = [("stale_data", stale), ("falling_behind", behind)] * 2
    assert told(catalog) == [(event, {**payload, "schedule_seconds": 60.0}) for event, payload in expected]


def test_changes_that_pile_up(conditions: Conditions, catalog: Catalog, sources: Sources) -> None:
    table = added(catalog)
    catalog.replace_dependencies(table.id, reads("orders", "other"))
    table = committed(catalog, table, 1, NOW, generation=1, frontier=frontier(orders=0, other=0))
    dag = Known(catalog).current()
    clock = ManualClock(NOW)

    def look() -> list[tuple[str, Any]]:
        conditions.watch_pending(dag, clock.advance(61))
        return told(catalog)

    sources.heads["delta:/lake/orders"] = 1
    assert look() == [], "a million is not more than a million"
    sources.heads["delta:/lake/orders"] = 2
    expected = ("buffer_growth_warning", {"source": "orders", "pending_rows": 2 * MILLION, "limit": MILLION})
    assert look() == [expected]
    assert sources.counted == [(0, 1), (1, 2)], "what was counted is not counted again"
    sources.heads["delta:/lake/orders"] = 3
    assert look() == [expected], "told once"
    committed(catalog, table, 2, NOW, generation=1, frontier=frontier(orders=3, other=0))
    assert look() == [expected]
    sources.heads["delta:/lake/orders"] = 9
    for error in (SourceUnreadable("no"), OSError("not foreseen")):
        sources.broken = error
        assert look() == [expected], "what cannot be counted is no alert"
    sources.broken = None
    assert [event for event, _ in look()] == ["buffer_growth_warning"] * 2, "it had ended"


def test_changes_of_a_database_are_not_read_to_be_counted(
    conditions: Conditions, catalog: Catalog, sources: Sources
) -> None:
    table = added(catalog)
    edge = Dependency("pg:shop", SourceType.POSTGRES, "shop")
    catalog.replace_dependencies(table.id, [edge])
    at = {"table_id": "shop", "version": 0, "fingerprint": "f"}
    committed(catalog, table, 1, NOW, generation=1, frontier={"sources": {"pg:shop": at}})
    # asked for its head, it fails
    conditions.watch_pending(Known(catalog).current(), NOW)
    assert (sources.counted, told(catalog)) == ([], [])


def test_waiting_changes_are_looked_at_once_a_minute(
    conditions: Conditions, catalog: Catalog, sources: Sources
) -> None:
    table = added(catalog)
    catalog.replace_dependencies(table.id, reads("orders"))
    committed(catalog, table, 1, NOW, generation=1, frontier=frontier(orders=0))
    dag, clock = Known(catalog).current(), ManualClock(NOW)
    for version in range(1, 31):
        sources.heads["delta:/lake/orders"] = version
        conditions.watch_pending(dag, clock.advance(10))
    assert len(sources.counted) == 5
