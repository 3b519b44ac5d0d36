"""What is found about a stream table, from values alone: no Spark, no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from freshlake.catalog import Catalog, FoldPolicy, Owner, RefreshMode, Status, StreamTable
from freshlake.clock import ManualClock
from freshlake.config import Settings
from freshlake.errors import DataError, FreshlakeError, RefreshFailed
from freshlake.service.health import Seen, check
from freshlake.service.report import Finding
from tests.unit.catalog_cases import added, committed

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
REASON = {"code": "not-differentiable", "message": "LIMIT has no differential rule yet", "hint": None}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=ManualClock(NOW))
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    """Loaded, folded and ACTIVE."""
    return committed(catalog, added(catalog), 1, NOW, generation=1, folded_version=1, fold_base_version=0)


def found(table: StreamTable, **facts: Any) -> list[tuple[str, str]]:
    return [(str(f.severity), f.code) for f in check(Seen(table, Settings(), NOW, **facts))]


def only(table: StreamTable, **facts: Any) -> Finding:
    (finding,) = check(Seen(table, Settings(), NOW, **facts))
    return finding


def fail(catalog: Catalog, table: StreamTable, error: FreshlakeError) -> StreamTable:
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    after = catalog.fail_refresh(refresh.refresh_id, error, max_consecutive_errors=3)
    catalog.release_lease(lease)
    return after


def test_nothing_is_found_about_a_healthy_table(table: StreamTable) -> None:
    assert found(table) == []


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"status": Status.SUSPENDED}, ("WARNING", "stream-table-suspended")),
        ({"is_populated": False}, ("WARNING", "stream-table-not-populated")),
        ({"needs_reinit": True}, ("WARNING", "reinitialize-needed")),
        ({"reasons": (REASON,)}, ("WARNING", "not-differentiable")),
        ({"status": Status.ERROR}, ("ERROR", "refresh-failed")),
        ({"quarantined_at": NOW}, ("ERROR", "stream-table-quarantined")),
        ({"status": Status.INITIALIZING, "consecutive_errors": 3}, ("ERROR", "refresh-failed")),
        ({"consecutive_errors": 2}, ("WARNING", "refresh-failed")),
    ],
)
def test_a_state_is_found(table: StreamTable, columns: dict[str, Any], expected: tuple[str, str]) -> None:
    assert found(replace(table, **columns)) == [expected]


def test_full_on_purpose_is_no_finding(table: StreamTable) -> None:
    assert found(replace(table, reasons=(REASON,), refresh_mode=RefreshMode.FULL)) == []
    assert "LIMIT has no differential rule yet" in only(replace(table, reasons=(REASON,))).message


@pytest.mark.parametrize(
    ("policy", "unfolded", "expected"),
    [
        (FoldPolicy.MANUAL, 30, []),
        (FoldPolicy.MANUAL, 31, ["log-not-folded"]),
        (FoldPolicy.AUTO, 30, []),
        (FoldPolicy.AUTO, 31, ["log-not-folded"]),
        (FoldPolicy.ALWAYS, 1, []),
        (FoldPolicy.ALWAYS, 2, ["log-not-folded"]),
    ],
)
def test_a_log_is_found_when_it_is_longer_than_its_policy_wants(
    table: StreamTable, policy: FoldPolicy, unfolded: int, expected: list[str]
) -> None:
    grown = replace(table, fold_policy=policy, version=1 + unfolded)
    assert [code for _, code in found(grown)] == expected


@pytest.mark.parametrize(
    ("schedule", "minutes", "expected"),
    [
        ("5m", 10, []),
        ("5m", 11, ["stale-data"]),
        ("@hourly", 119, []),
        ("@hourly", 121, ["stale-data"]),
        (None, 100_000, []),
    ],
)
def test_data_is_stale_after_two_missed_refreshes(
    table: StreamTable, schedule: str | None, minutes: int, expected: list[str]
) -> None:
    old = replace(table, schedule=schedule, data_timestamp=NOW - timedelta(minutes=minutes))
    assert [code for _, code in found(old)] == expected


def test_only_an_active_table_is_expected_to_be_fresh(table: StreamTable) -> None:
    old = replace(table, schedule="5m", data_timestamp=NOW - timedelta(days=1), status=Status.SUSPENDED)
    assert [code for _, code in found(old)] == ["stream-table-suspended"]


def test_a_failure_is_told_in_the_words_of_its_error(catalog: Catalog, table: StreamTable) -> None:
    fail(catalog, table, RefreshFailed("Spark could not run the query", detail="no space\nleft", hint="free space"))
    failing = catalog.get_by_id(table.id)
    finding = only(failing, failed=catalog.last_failure(table.id))
    assert (finding.code, finding.hint) == ("refresh-failed", "free space")
    assert finding.message == "the last refresh failed: Spark could not run the query: no space"


def test_the_last_failure_is_the_newest_one_of_the_table(catalog: Catalog, table: StreamTable) -> None:
    other = added(catalog, "other")
    assert catalog.last_failure(table.id) is None
    fail(catalog, table, RefreshFailed("first"))
    fail(catalog, table, DataError("second"))
    fail(catalog, other, RefreshFailed("of another table"))
    catalog.skip_refresh(table.id, "data-error")
    finding = only(catalog.get_by_id(table.id), failed=catalog.last_failure(table.id))
    assert (finding.code, finding.message) == ("data-error", "the last 2 refreshes failed: second")


def test_a_lease_that_ran_out_is_told_with_its_holder(catalog: Catalog, table: StreamTable) -> None:
    elsewhere = str(replace(Owner.new(), host="far", pid=7, machine="elsewhere"))
    catalog.acquire_lease(table.id, 60, owner=elsewhere)
    finding = only(table, left=catalog.lease(table.id))
    assert finding.code == "stale-lease"
    assert "process 7 on far was last heard of at 2026-05-01 12:00:00 UTC" in finding.message
