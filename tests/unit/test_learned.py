"""What refreshes took is read from the history once and then followed, whoever did them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog, StreamTable
from freshlake.catalog.enums import Action
from freshlake.catalog.records import Commit
from freshlake.compiler import plan as p
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.complexity import Complexity, complexity
from freshlake.refresh.cost import Way
from freshlake.refresh.inputs import SourceSpan
from freshlake.refresh.learned import Learned
from freshlake.refresh.situation import SourceChange
from freshlake.sources.protocol import ChangeKind, Triage
from tests.unit.catalog_cases import added

SCAN = p.Scan((p.Column("a"),), "orders", ("a",))


@dataclass(frozen=True)
class Span:
    rows: int | None


def compiled(fingerprint: str = "f" * 40) -> CompiledQuery:
    return CompiledQuery(SCAN, (), (), (), (), fingerprint)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def sources(changed: int | None, kind: ChangeKind = ChangeKind.MUTATING) -> dict[str, Any]:
    return {"orders": {"change": str(kind), "changed_rows": changed}}


def spans(rows: int | None = 1_000) -> dict[str, SourceSpan]:
    return {"orders": cast(SourceSpan, Span(rows))}


def pending(changed: int | None, rows: int | None = 1_000) -> dict[str, SourceChange]:
    return {"orders": SourceChange("orders", Triage(ChangeKind.MUTATING, changed, 10), rows)}


def refreshed(
    catalog: Catalog, learned: Learned, table: StreamTable, action: Action, changed: int | None, **other: Any
) -> StreamTable:
    """One refresh, measured and committed."""
    query = other.get("query", compiled())
    decision = learned.measured(table, query, action, sources(changed), spans(), 100, other.get("ms", 50.0))
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    generation = max(1, table.generation)
    commit = Commit(
        refresh_id=refresh.refresh_id,
        action=action,
        generation=generation,
        version=max(0, table.version) + 1,
        frontier={"sources": {}},
        data_timestamp=refresh.start_time,
        row_count=100,
        decision=decision,
    )
    after = catalog.commit_refresh(table.id, lease.epoch, commit)
    catalog.release_lease(lease)
    learned.add(table, after, query, decision)
    return after


def test_the_history_gives_what_the_process_remembers(catalog: Catalog) -> None:
    learned = Learned(catalog)
    table = refreshed(catalog, learned, added(catalog), Action.FULL, None)
    for changed in (10, 20, None, 30):
        first = learned.costs(table, compiled(), pending(25))
        table = refreshed(catalog, learned, table, Action.DIFFERENTIAL, changed)
        assert first is not None
    known, again = (each.costs(table, compiled(), pending(25)) for each in (learned, Learned(catalog)))
    assert known == again
    assert known is not None
    assert (known.refreshes, known.differential.samples, known.full.samples) == (4, 3, 1)


def test_refreshes_of_another_process_are_noticed(catalog: Catalog) -> None:
    mine, other = Learned(catalog), Learned(catalog)
    table = refreshed(catalog, mine, added(catalog), Action.FULL, None)
    assert mine.costs(table, compiled(), pending(1)) is not None
    table = refreshed(catalog, other, table, Action.DIFFERENTIAL, 10)
    found = mine.costs(table, compiled(), pending(1))
    assert found is not None
    assert found.refreshes == 2


def test_another_query_begins_anew(catalog: Catalog) -> None:
    learned = Learned(catalog)
    table = refreshed(catalog, learned, added(catalog), Action.FULL, None)
    table = refreshed(catalog, learned, table, Action.DIFFERENTIAL, 10)
    assert learned.costs(table, compiled("0" * 40), pending(1)) is None
    found = learned.costs(table, compiled(), pending(1))
    assert found is not None
    assert found.refreshes == 2


@pytest.mark.parametrize(
    ("changed", "rows"), [(None, 1_000), (5, None)], ids=["the change is not known", "a source is not known"]
)
def test_what_is_not_known_is_not_guessed(catalog: Catalog, changed: int | None, rows: int | None) -> None:
    learned = Learned(catalog)
    table = refreshed(catalog, learned, added(catalog), Action.FULL, None)
    assert learned.costs(table, compiled(), pending(changed, rows)) is None
    assert learned.measured(table, compiled(), Action.DIFFERENTIAL, sources(changed), spans(rows), 1, 1.0) == {}


def test_a_full_is_estimated_also_where_the_change_or_the_query_is_new(catalog: Catalog) -> None:
    learned = Learned(catalog)
    assert learned.full_ms(added(catalog, "other"), compiled(), pending(5)) is None
    table = refreshed(catalog, learned, added(catalog), Action.FULL, None, ms=800.0)
    for query, changed in ((compiled(), 5), (compiled(), None), (compiled("0" * 40), None)):
        found = learned.full_ms(table, query, pending(changed))
        assert found is not None
        assert found >= 800
    assert learned.full_ms(table, compiled(), pending(5, None)) is None, "a source is not known"
    assert learned.full_ms(table, compiled(), {"orders": SourceChange("o", Triage(ChangeKind.NONE, 0, 0), 9)})


def test_a_load_is_told_from_a_full_and_the_first_of_a_process_from_others(catalog: Catalog) -> None:
    learned, table = Learned(catalog), added(catalog)
    loaded = replace(table, is_populated=True)

    def way(of: StreamTable, action: Action) -> tuple[str, bool]:
        found = learned.measured(of, compiled(), action, sources(5), spans(), 1, 1.0)["measured"]
        return found["way"], found.get("cold", False)

    assert [way(table, Action.FULL), way(loaded, Action.REINITIALIZE)] == [(Way.LOAD, True), (Way.LOAD, False)]
    assert [way(loaded, Action.FULL) for _ in range(2)] == [(Way.FULL, True), (Way.FULL, False)]
    assert [way(loaded, Action.DIFFERENTIAL) for _ in range(2)] == [(Way.DIFFERENTIAL, True), (Way.DIFFERENTIAL, False)]


def test_a_query_belongs_to_the_class_of_its_costliest_operators() -> None:
    filtered = p.Filter(SCAN.columns, SCAN, ())
    join = p.InnerJoin(SCAN.columns, (filtered, SCAN), ())
    grouped = p.Aggregate(SCAN.columns, filtered, (), ())
    found = [complexity(plan) for plan in (SCAN, filtered, grouped, join, p.Aggregate(SCAN.columns, join, (), ()))]
    assert found == list(Complexity)
