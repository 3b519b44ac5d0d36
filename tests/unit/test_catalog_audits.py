"""Audits in the catalog: whose turn it is, what is kept, and a quarantine that begins and ends with its record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from freshlake.catalog import AuditOutcome, Catalog, NewAudit, StreamTable
from freshlake.catalog.audits import KEPT
from freshlake.clock import ManualClock
from freshlake.errors import LeaseLost
from tests.unit.catalog_cases import added, committed

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    return committed(catalog, added(catalog), 1, NOW, generation=1)


def new(table: StreamTable, outcome: str = "EQUAL", **columns: Any) -> NewAudit:
    return NewAudit(table.id, NOW, AuditOutcome(outcome), "request", 1, table.version, **columns)


def test_an_audit_is_found_as_it_was_added(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    clock.advance(3)
    found = {"checks": ({"subject": "root", "rows": 3},), "missing": 2, "evidence": {"rows": {"root": [{"a": None}]}}}
    audit = catalog.add_audit(new(table, "MISMATCH", detail="a\0b", **found))
    assert catalog.audits(table.id) == (audit,)
    assert (audit.started_at, audit.ended_at, audit.detail) == (NOW, NOW + timedelta(seconds=3), "a\\0b")
    assert (audit.checks, audit.missing, audit.evidence) == (found["checks"], 2, found["evidence"])
    clock.advance(1)
    ended = catalog.end_audit(audit.id, AuditOutcome.REPAIRED, refresh_id="r")
    assert (ended.outcome, ended.refresh_id, ended.detail) == (AuditOutcome.REPAIRED, "r", audit.detail)
    assert ended.ended_at == NOW + timedelta(seconds=4)


def test_audits_are_listed_newest_first_and_the_last_one_of_every_table(catalog: Catalog, table: StreamTable) -> None:
    other = added(catalog, "other")
    first, second, third = (catalog.add_audit(new(t)).id for t in (table, other, table))
    assert [a.id for a in catalog.audits()] == [third, second, first]
    assert [a.id for a in catalog.audits(table.id, 1)] == [third]
    assert {of: a.id for of, a in catalog.last_audits().items()} == {table.id: third, other.id: second}
    catalog.delete(table.id)
    assert [a.id for a in catalog.audits()] == [second]


def test_what_found_nothing_is_forgotten_in_time_and_what_found_something_is_not(
    catalog: Catalog, table: StreamTable
) -> None:
    wrong = catalog.add_audit(new(table, "MISMATCH"))
    for _ in range(KEPT + 5):
        catalog.add_audit(new(table))
    kept = catalog.audits(table.id, None)
    assert len(kept) == KEPT + 1
    assert kept[-1] == wrong


def test_one_process_at_a_time_has_its_turn(catalog: Catalog, clock: ManualClock, tmp_path: Path) -> None:
    other = Catalog.open(tmp_path, clock=clock)
    assert not catalog.claim_audit(60), "the first turn comes after the first interval"
    clock.advance(59)
    assert not other.claim_audit(60)
    clock.advance(1)
    assert other.claim_audit(60)
    assert not catalog.claim_audit(60)
    assert not catalog.claim_audit(1)
    clock.advance(1)
    assert catalog.claim_audit(1)
    other.close()


def test_a_quarantine_begins_and_ends_under_the_lease(catalog: Catalog, table: StreamTable) -> None:
    reader = added(catalog, "reader")
    lease = catalog.acquire_lease(table.id, 60)
    audit = catalog.begin_quarantine(lease.epoch, new(table, "MISMATCH"))
    wrong = catalog.get_by_id(table.id)
    assert (wrong.quarantined_at, str(wrong.status), str(wrong.shown_status)) == (NOW, "ACTIVE", "QUARANTINED")
    assert [row.quarantined_at for row in catalog.look() if row.id == table.id] == [NOW]
    for epoch in (lease.epoch - 1, lease.epoch + 1):
        with pytest.raises(LeaseLost):
            catalog.begin_quarantine(epoch, new(table, "MISMATCH"))
        with pytest.raises(LeaseLost):
            catalog.end_quarantine(table.id, epoch)
    assert catalog.audits() == (audit,)
    catalog.end_quarantine(table.id, lease.epoch, [reader.id])
    assert not catalog.get_by_id(table.id).is_quarantined
    assert catalog.get_by_id(reader.id).needs_reinit


def test_a_refresh_does_not_end_a_quarantine(catalog: Catalog, table: StreamTable) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    catalog.begin_quarantine(lease.epoch, new(table, "MISMATCH"))
    catalog.release_lease(lease)
    assert committed(catalog, catalog.get_by_id(table.id), 2, NOW).is_quarantined
