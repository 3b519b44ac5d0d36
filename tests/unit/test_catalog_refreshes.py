"""Leases, refreshes and their history, in one process with a clock that is told the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from freshlake.catalog import (
    Action,
    Catalog,
    Commit,
    NodeState,
    Owner,
    RefreshStatus,
    Status,
    StreamTable,
    new_refresh_id,
    retention,
)
from freshlake.clock import ManualClock
from freshlake.errors import (
    DataError,
    InternalError,
    InvariantViolated,
    LeaseLost,
    NotFound,
    RefreshInProgress,
    SourceDropped,
)
from tests.unit.catalog_cases import added, committed, frontier

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, catalog_url: str, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, url=catalog_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    return added(catalog)


def dead_owner() -> str:
    """The owner of a process that has ended."""
    code = "from freshlake.catalog import Owner; print(Owner.new())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def commit(refresh_id: str, version: int = 1, **columns: object) -> Commit:
    values = {"action": Action.FULL, "generation": 0, "frontier": frontier(orders=version), "data_timestamp": NOW}
    return Commit(refresh_id, version=version, **{**values, **columns})  # type: ignore[arg-type]


# leases


def test_only_one_worker_holds_a_lease(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    assert (lease.epoch, lease.expires_at) == (1, NOW + timedelta(seconds=60))
    assert catalog.lease(table.id) == lease
    clock.advance(10)
    with pytest.raises(RefreshInProgress) as caught:
        catalog.acquire_lease(table.id, 60)
    assert (
        caught.value.message
        == f"stream table revenue is being refreshed by process {os.getpid()} on "
        + (Owner.parse(lease.owner) or Owner.new()).host
    )
    assert caught.value.detail == "since 2026-05-01 12:00:00 UTC"


def test_every_acquire_raises_the_epoch(catalog: Catalog, table: StreamTable) -> None:
    for epoch in (1, 2, 3):
        lease = catalog.acquire_lease(table.id, 60)
        assert (lease.epoch, lease.taken_from) == (epoch, None)
        catalog.release_lease(lease)
        assert catalog.lease(table.id) is None


def test_leases_of_different_tables_are_independent(catalog: Catalog, table: StreamTable) -> None:
    catalog.acquire_lease(table.id, 60)
    assert catalog.acquire_lease(added(catalog, "other").id, 60).epoch == 1


def test_a_heartbeat_keeps_the_lease(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    clock.advance(50)
    kept = catalog.heartbeat_lease(lease, 60)
    assert (kept.epoch, kept.acquired_at, kept.heartbeat_at) == (1, NOW, clock.now())
    clock.advance(50)
    with pytest.raises(RefreshInProgress):
        catalog.acquire_lease(table.id, 60)


def test_a_lease_that_ran_out_is_taken_over_and_its_worker_is_fenced(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    old = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(old)
    clock.advance(60)
    taken = catalog.acquire_lease(table.id, 60, owner="somebody")
    assert (taken.epoch, taken.taken_from) == (2, old.owner)
    for attempt in (
        lambda: catalog.heartbeat_lease(old, 60),
        lambda: catalog.publish([old]),
        lambda: catalog.begin_refresh(old),
        lambda: catalog.commit_refresh(table.id, old.epoch, commit(refresh.refresh_id)),
        lambda: catalog.add_fold(table.id, old.epoch, generation=0, folded_version=0, base_version=1),
        lambda: catalog.record_no_data(table, frontier={}, data_timestamp=NOW, epoch=old.epoch),
    ):
        with pytest.raises(LeaseLost, match="revenue") as caught:
            attempt()
        assert caught.value.detail == "somebody holds it now"
    catalog.release_lease(old)
    assert catalog.lease(table.id) == taken
    assert catalog.get_by_id(table.id) == table


def test_a_lease_that_ran_out_is_still_good_while_nobody_took_it(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    clock.advance(1_000)
    assert catalog.heartbeat_lease(lease, 60).epoch == 1
    assert catalog.commit_refresh(table.id, lease.epoch, commit(refresh.refresh_id)).version == 1


def test_a_released_lease_is_lost(catalog: Catalog, table: StreamTable) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    catalog.release_lease(lease)
    with pytest.raises(LeaseLost) as caught:
        catalog.heartbeat_lease(lease, 60)
    assert caught.value.detail == "nobody holds it"


def test_the_lease_of_a_dead_process_is_taken_over_at_once(catalog: Catalog, table: StreamTable) -> None:
    catalog.acquire_lease(table.id, 3_600, owner=dead_owner())
    assert catalog.acquire_lease(table.id, 60).epoch == 2


def test_owners_are_only_called_dead_when_that_is_certain() -> None:
    me = Owner.new()
    assert Owner.parse(str(me)) == me
    assert not me.is_dead()
    assert replace(me, started="1").is_dead()
    assert not replace(me, pid=2**22 + 1, machine="elsewhere").is_dead()
    assert not replace(me, pid=1, started="").is_dead()
    assert Owner.parse("somebody") is None


# commits


def test_a_commit_moves_everything_together(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease, refresh_id="r1")
    assert (refresh.status, refresh.action, refresh.epoch) == (RefreshStatus.RUNNING, None, 1)
    assert catalog.history(table.id) == (refresh,)
    clock.advance(1.5)
    nodes = {"n1": NodeState("gen-0/n1", 1, 0, 1)}
    after = catalog.commit_refresh(
        table.id,
        lease.epoch,
        commit(
            "r1",
            rows_inserted=5,
            rows_deleted=2,
            row_count=3,
            nodes=nodes,
            fold_base_version=0,
            folded_version=1,
            source_changes=7,
            fallback_reason="first load",
            decision={"ratio": 0.5},
        ),
    )
    assert after == catalog.get("revenue")
    assert (after.status, after.is_populated, after.version, after.published_version) == (Status.ACTIVE, True, 1, 1)
    assert (after.frontier, after.data_timestamp, after.row_count) == (frontier(orders=1), NOW, 3)
    assert (after.nodes, after.fold_base_version, after.folded_version) == (nodes, 0, 1)
    assert after.last_refresh_at == clock.now()
    done = catalog.find_refresh("r1")
    assert done == replace(
        refresh,
        status=RefreshStatus.COMPLETED,
        action=Action.FULL,
        data_timestamp=NOW,
        end_time=clock.now(),
        rows_inserted=5,
        rows_deleted=2,
        duration_ms=1_500,
        source_changes=7,
        fallback_reason="first load",
        decision={"ratio": 0.5},
        generation=0,
        version=1,
    )
    fold = catalog.newest_fold(table.id, generation=0, upto=1)
    assert fold is not None
    assert (fold.base_version, fold.folded_version) == (0, 1)


def test_a_commit_may_carry_a_new_definition_and_generation(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 4, NOW, fold_base_version=2, folded_version=4)
    table = catalog.update(table.id, needs_reinit=True)
    after = committed(
        catalog, table, 0, NOW, action=Action.REINITIALIZE, generation=1, changes={"defining_query": "SELECT 2"}
    )
    assert (after.generation, after.version, after.published_generation) == (1, 0, 1)
    assert (after.needs_reinit, after.defining_query) == (False, "SELECT 2")
    assert (after.fold_base_version, after.folded_version) == (None, None)


def test_an_unpublished_commit_leaves_readers_where_they_are(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 1, NOW)
    after = committed(catalog, table, 2, NOW, publish=False)
    assert (after.version, after.published_version) == (2, 1)


def test_a_commit_keeps_nodes_and_fold_unless_told_otherwise(catalog: Catalog, table: StreamTable) -> None:
    nodes = {"n1": NodeState("n1", 1)}
    table = committed(catalog, table, 1, NOW, nodes=nodes, fold_base_version=0, folded_version=1)
    after = committed(catalog, table, 2, NOW)
    assert (after.nodes, after.folded_version) == (nodes, 1)
    assert committed(catalog, after, 3, NOW, nodes={}).nodes == {}


def test_versions_never_go_back(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 5, NOW, generation=1)
    with pytest.raises(InvariantViolated, match="back in time"):
        committed(catalog, table, 4, NOW, generation=1)
    lease = catalog.lease(table.id)
    assert lease is not None
    with pytest.raises(InvariantViolated):
        catalog.commit_refresh(table.id, lease.epoch, commit("x", 9, generation=0))
    assert catalog.get("revenue").version == 5
    assert catalog.find_refresh("x") is None


def test_a_failed_commit_changes_nothing(catalog: Catalog, table: StreamTable) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    with pytest.raises(InternalError, match="colour"):
        catalog.commit_refresh(table.id, lease.epoch, commit(refresh.refresh_id, changes={"colour": 1}))
    assert catalog.get("revenue") == table
    assert catalog.history(table.id) == (refresh,)


def test_a_success_ends_errors_but_not_a_suspension(catalog: Catalog, table: StreamTable) -> None:
    catalog.update(table.id, status=Status.ERROR, consecutive_errors=3)
    after = committed(catalog, table, 1, NOW)
    assert (after.status, after.consecutive_errors) == (Status.ACTIVE, 0)
    catalog.update(table.id, status=Status.SUSPENDED)
    assert committed(catalog, after, 2, NOW).status is Status.SUSPENDED


# nothing changed


def test_no_data_moves_only_the_frontier_and_the_time(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    seen = catalog.update(committed(catalog, table, 1, NOW).id, consecutive_errors=1)
    later = clock.advance(60)
    done = catalog.record_no_data(
        seen, frontier=frontier(orders=2), data_timestamp=later, started_at=later - timedelta(milliseconds=3)
    )
    assert done is not None
    assert (done.status, done.action, done.duration_ms) == (RefreshStatus.COMPLETED, Action.NO_DATA, 3)
    assert catalog.history(table.id)[0] == done == catalog.find_refresh(done.refresh_id)
    assert catalog.get("revenue") == replace(
        seen, frontier=frontier(orders=2), data_timestamp=later, last_refresh_at=later, consecutive_errors=0
    )
    assert catalog.lease(table.id) is None


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"frontier": {"sources": {}}}, {"needs_reinit": True}, {"fingerprint": "new"}]
)
def test_no_data_is_not_recorded_when_the_table_moved_meanwhile(
    catalog: Catalog, table: StreamTable, change: dict[str, object]
) -> None:
    seen = committed(catalog, table, 1, NOW, frontier=frontier(orders=1))
    moved = catalog.update(seen.id, **change)
    assert catalog.record_no_data(seen, frontier=frontier(orders=2), data_timestamp=NOW) is None
    assert catalog.get("revenue") == moved
    assert len(catalog.history(table.id)) == 1


@pytest.mark.parametrize(("status", "after"), [(Status.ERROR, Status.ACTIVE), (Status.SUSPENDED, Status.SUSPENDED)])
def test_no_data_ends_an_error_but_no_suspension(
    catalog: Catalog, table: StreamTable, status: Status, after: Status
) -> None:
    seen = catalog.update(table.id, status=status, consecutive_errors=3)
    assert catalog.record_no_data(seen, frontier={}, data_timestamp=NOW) is not None
    assert (catalog.get("revenue").status, catalog.get("revenue").consecutive_errors) == (after, 0)


def test_no_data_waits_for_a_running_refresh(catalog: Catalog, table: StreamTable, clock: ManualClock) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    with pytest.raises(RefreshInProgress):
        catalog.record_no_data(table, frontier={}, data_timestamp=NOW)
    assert catalog.record_no_data(table, frontier={"a": 1}, data_timestamp=NOW, epoch=lease.epoch) is not None
    catalog.release_lease(lease)
    assert catalog.record_no_data(catalog.get("revenue"), frontier={}, data_timestamp=NOW) is not None


def test_no_data_is_not_recorded_over_a_lease_that_was_not_given_back(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    """Its holder may only be late: whoever takes the lease shuts it out first."""
    lease = catalog.acquire_lease(table.id, 60)
    clock.advance(60)
    assert catalog.record_no_data(table, frontier={}, data_timestamp=NOW) is None
    assert catalog.lease(table.id) == lease
    assert catalog.get("revenue") == table


def test_no_data_of_a_dropped_table_is_not_found(catalog: Catalog, table: StreamTable) -> None:
    catalog.delete(table.id)
    with pytest.raises(NotFound, match="revenue"):
        catalog.record_no_data(table, frontier={}, data_timestamp=NOW)


# failures


def test_failures_are_counted_up_to_the_limit(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 1, NOW)
    for errors, status in ((1, Status.ACTIVE), (2, Status.ACTIVE), (3, Status.ERROR)):
        lease = catalog.acquire_lease(table.id, 60)
        refresh = catalog.begin_refresh(lease)
        after = catalog.fail_refresh(
            refresh.refresh_id,
            DataError("division by zero", detail="in x / y"),
            max_consecutive_errors=3,
            action=Action.DIFFERENTIAL,
            decision={"ratio": 1},
        )
        catalog.release_lease(lease)
        assert (after.consecutive_errors, after.status) == (errors, status)
        assert (after.version, after.frontier, after.data_timestamp) == (1, table.frontier, table.data_timestamp)
    failed = catalog.history(table.id)[0]
    assert (failed.status, failed.action, failed.error_code) == (
        RefreshStatus.FAILED,
        Action.DIFFERENTIAL,
        "data-error",
    )
    assert (failed.error_message or "").startswith("division by zero\ndetail: in x / y")
    assert failed.decision == {"ratio": 1}


def test_a_fatal_failure_stops_the_table_at_once(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 1, NOW)
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    after = catalog.fail_refresh(refresh.refresh_id, SourceDropped("x"), max_consecutive_errors=3, fatal=True)
    assert after.status is Status.ERROR


def test_a_failed_first_load_stays_initializing(catalog: Catalog, table: StreamTable) -> None:
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    after = catalog.fail_refresh(refresh.refresh_id, DataError("x"), max_consecutive_errors=1)
    assert (after.status, after.consecutive_errors) == (Status.INITIALIZING, 1)


def test_a_new_definition_that_was_not_taken_does_not_count(catalog: Catalog, table: StreamTable) -> None:
    table = committed(catalog, table, 1, NOW)
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    after = catalog.fail_refresh(refresh.refresh_id, DataError("x"), max_consecutive_errors=1, counted=False)
    assert (after.status, after.consecutive_errors) == (Status.ACTIVE, 0)
    assert catalog.history(table.id)[0].status is RefreshStatus.FAILED


def test_a_worker_that_lost_its_lease_does_not_count_as_a_failure(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    clock.advance(61)
    catalog.acquire_lease(table.id, 60)
    after = catalog.fail_refresh(refresh.refresh_id, LeaseLost("x"), max_consecutive_errors=1)
    assert after.consecutive_errors == 0
    assert catalog.history(table.id)[0].status is RefreshStatus.FAILED


def test_a_refresh_that_another_one_finished_stays_completed(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    """It was in the log when its worker was stopped; whoever took over recorded it, and the worker fails afterwards."""
    refresh = catalog.begin_refresh(catalog.acquire_lease(table.id, 60))
    clock.advance(61)
    lease = catalog.acquire_lease(table.id, 60)
    catalog.commit_refresh(table.id, lease.epoch, commit(refresh.refresh_id))
    catalog.fail_refresh(refresh.refresh_id, LeaseLost("x"), max_consecutive_errors=1)
    (row,) = catalog.history(table.id)
    assert (row.status, row.version, row.error_code) == (RefreshStatus.COMPLETED, 1, None)


def test_skipped_refreshes_are_recorded_with_their_reason(catalog: Catalog, table: StreamTable) -> None:
    skipped = catalog.skip_refresh(table.id, "still running")
    assert catalog.history(table.id) == (skipped,)
    assert (skipped.status, skipped.action) == (RefreshStatus.SKIPPED, Action.SKIPPED)
    assert skipped.fallback_reason == "still running"
    assert catalog.get("revenue") == table


def test_ending_an_unknown_refresh_is_a_defect(catalog: Catalog) -> None:
    with pytest.raises(InternalError, match="no refresh"):
        catalog.fail_refresh("nothing", DataError("x"), max_consecutive_errors=3)


# interrupted


def test_refreshes_of_dead_workers_become_failed_and_their_leases_wait_for_the_next(
    catalog: Catalog, clock: ManualClock
) -> None:
    running = {}
    for name, owner, seconds in (("live", None, 600), ("late", None, 30), ("dead", dead_owner(), 600)):
        lease = catalog.acquire_lease(added(catalog, name).id, seconds, owner=owner)
        running[name] = catalog.begin_refresh(lease)
    overtaken = catalog.acquire_lease(added(catalog, "overtaken").id, 10)
    running["overtaken"] = catalog.begin_refresh(overtaken)
    released = catalog.acquire_lease(added(catalog, "released").id, 600)
    running["released"] = catalog.begin_refresh(released)
    catalog.release_lease(released)
    clock.advance(40)
    taken = catalog.acquire_lease(overtaken.stream_table_id, 60)
    failed = catalog.fail_interrupted()
    assert {row.refresh_id for row in failed} == {
        running[name].refresh_id for name in ("late", "dead", "overtaken", "released")
    }
    for row in failed:
        assert (row.status, row.end_time, row.duration_ms) == (RefreshStatus.FAILED, clock.now(), 40_000)
        assert (row.error_message or "").startswith("interrupted")
        assert catalog.get_by_id(row.stream_table_id).consecutive_errors == 0
    assert catalog.find_refresh(running["live"].refresh_id) == running["live"]
    assert catalog.lease(overtaken.stream_table_id) == taken
    left = catalog.lease(running["dead"].stream_table_id)
    assert left is not None
    assert catalog.acquire_lease(left.stream_table_id, 60).taken_from == left.owner
    assert catalog.fail_interrupted() == ()


def test_interrupted_refreshes_can_be_looked_for_in_one_table(catalog: Catalog, clock: ManualClock) -> None:
    first = catalog.begin_refresh(catalog.acquire_lease(added(catalog, "a").id, 10))
    second = catalog.begin_refresh(catalog.acquire_lease(added(catalog, "b").id, 10))
    clock.advance(11)
    assert [row.refresh_id for row in catalog.fail_interrupted(first.stream_table_id)] == [first.refresh_id]
    assert catalog.find_refresh(second.refresh_id) == second


def test_what_a_dead_worker_had_committed_to_the_lake_is_finished_by_the_next(
    catalog: Catalog, table: StreamTable
) -> None:
    dead = catalog.begin_refresh(catalog.acquire_lease(table.id, 600, owner=dead_owner()))
    catalog.fail_interrupted()
    lease = catalog.acquire_lease(table.id, 60)
    after = catalog.commit_refresh(table.id, lease.epoch, commit(dead.refresh_id, rows_inserted=4))
    assert after.version == 1
    (row,) = catalog.history(table.id)
    assert (row.status, row.error_message, row.rows_inserted) == (RefreshStatus.COMPLETED, None, 4)


def test_a_refresh_that_the_history_does_not_know_is_added(catalog: Catalog, table: StreamTable) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    refresh_id = new_refresh_id()
    catalog.commit_refresh(table.id, lease.epoch, commit(refresh_id))
    catalog.commit_refresh(table.id, lease.epoch, commit(refresh_id))
    (row,) = catalog.history(table.id)
    assert (row.refresh_id, row.status) == (refresh_id, RefreshStatus.COMPLETED)


def test_history_is_newest_first_and_limited(catalog: Catalog, table: StreamTable) -> None:
    other = added(catalog, "other")
    ids = [catalog.skip_refresh(table.id, str(number)).refresh_id for number in range(25)]
    last = catalog.skip_refresh(other.id, "x").refresh_id
    assert [row.refresh_id for row in catalog.history(table.id, 3)] == ids[:-4:-1]
    assert len(catalog.history(table.id)) == 20
    assert len(catalog.history(table.id, None)) == 25
    assert catalog.history(limit=1)[0].refresh_id == last


def test_a_clock_that_was_set_back_gives_no_negative_duration(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    lease = catalog.acquire_lease(table.id, 60)
    refresh = catalog.begin_refresh(lease)
    clock.set(NOW - timedelta(hours=1))
    catalog.commit_refresh(table.id, lease.epoch, commit(refresh.refresh_id))
    assert catalog.history(table.id)[0].duration_ms == 0


# retention


def days_of_refreshes(catalog: Catalog, clock: ManualClock, table: StreamTable, actions: str) -> None:
    """One a day, the oldest first: f for FULL, d for DIFFERENTIAL."""
    for version, letter in enumerate(actions, start=1):
        action = Action.FULL if letter == "f" else Action.DIFFERENTIAL
        committed(catalog, catalog.get_by_id(table.id), version, clock.now(), action=action)
        clock.advance(86_400)


def versions(catalog: Catalog, table: StreamTable) -> list[int | None]:
    return [refresh.version for refresh in reversed(catalog.history(table.id, None))]


def test_old_refreshes_are_forgotten_but_the_newest_old_one_and_full_ones_stay(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    days_of_refreshes(catalog, clock, table, "dfdddd")
    limit = clock.now() - timedelta(days=2)
    assert catalog.prune_history(limit) == 2
    assert versions(catalog, table) == [2, 4, 5, 6]
    assert catalog.newest_version_before(table.id, 0, limit) == 4, "what it says of the log stays true"
    assert catalog.prune_history(limit) == 0


def test_of_full_refreshes_the_newest_stay(
    catalog: Catalog, table: StreamTable, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECOMPUTES", 2)
    other = added(catalog, "other")
    days_of_refreshes(catalog, clock, table, "fffd")
    days_of_refreshes(catalog, clock, other, "f")
    assert catalog.prune_history(clock.now()) == 1
    assert (versions(catalog, table), versions(catalog, other)) == ([2, 3, 4], [1])


def test_the_history_is_pruned_in_portions_and_a_running_refresh_stays(
    catalog: Catalog, table: StreamTable, clock: ManualClock
) -> None:
    lease = catalog.acquire_lease(added(catalog, "slow").id, 60)
    running = catalog.begin_refresh(lease)
    days_of_refreshes(catalog, clock, table, "dddd")
    assert [catalog.prune_history(clock.now(), portion=2) for _ in range(3)] == [2, 1, 0]
    assert versions(catalog, table) == [4]
    assert catalog.find_refresh(running.refresh_id) == running
