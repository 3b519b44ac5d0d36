"""Which alerts refreshes, alterations and verifications send; the engine is played by a double over a real catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from freshlake.alerts import EVENTS, Alerts, Event
from freshlake.catalog import Action, Catalog, Commit, Status, StreamTable
from freshlake.clock import ManualClock
from freshlake.errors import (
    DataError,
    FreshlakeError,
    FullRefused,
    FuseBlown,
    InternalError,
    NotDifferentiable,
    RefreshInProgress,
    SourceDropped,
    SourceSchemaChanged,
)
from freshlake.refresh.engine import Engine
from freshlake.refresh.result import RefreshResult, Verification
from freshlake.service.announce import Announcer
from tests.unit.catalog_cases import added, committed, frontier

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Double:
    """An engine that does what the test says, and leaves in the catalog what a refresh leaves there."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.act: Callable[[StreamTable], RefreshResult] = lambda _: no_data()

    def refresh(self, table: StreamTable, *_: Any) -> RefreshResult:
        return self.act(table)

    def commits(self, action: Action, reason: str | None = None, **columns: Any) -> None:
        def act(table: StreamTable) -> RefreshResult:
            lease = self.catalog.acquire_lease(table.id, 60)
            refresh_id = self.catalog.begin_refresh(lease).refresh_id
            whole = {"generation": table.generation, "version": table.version + 1, "row_count": 9, **columns}
            commit = Commit(
                refresh_id,
                action,
                frontier=frontier(),
                data_timestamp=NOW,
                rows_inserted=3,
                rows_deleted=2,
                rows_updated=1,
                fallback_reason=reason,
                **whole,
            )
            self.catalog.commit_refresh(table.id, lease.epoch, commit)
            self.catalog.release_lease(lease)
            return RefreshResult("default.revenue", action, reason, 3, 2, 5.0, {}, 2, refresh_id=refresh_id)

        self.act = act

    def fails(self, error: FreshlakeError, *, before_it_begins: bool = False, **how: Any) -> None:
        def act(table: StreamTable) -> RefreshResult:
            if not before_it_begins:
                lease = self.catalog.acquire_lease(table.id, 60)
                refresh_id = self.catalog.begin_refresh(lease).refresh_id
                self.catalog.fail_refresh(refresh_id, error, max_consecutive_errors=3, **how)
                self.catalog.release_lease(lease)
            raise error

        self.act = act


def no_data() -> RefreshResult:
    return RefreshResult("default.revenue", Action.NO_DATA, None, 0, 0, 1.0, {}, 1)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=ManualClock(NOW))
    yield opened
    opened.close()


@pytest.fixture
def engine(catalog: Catalog) -> Double:
    return Double(catalog)


@pytest.fixture
def announcer(engine: Double, catalog: Catalog) -> Announcer:
    return Announcer(cast(Engine, engine), Alerts(catalog, ManualClock(NOW)))


@pytest.fixture
def table(catalog: Catalog) -> StreamTable:
    """Loaded and ACTIVE."""
    return committed(catalog, added(catalog), 1, NOW, generation=1)


def told(catalog: Catalog) -> list[str]:
    """The events so far, oldest first; each carries what it is said to carry, about the table."""
    found = catalog.alerts()
    for alert in found:
        assert set(alert.payload) == set(EVENTS[Event(alert.event)].payload)
        assert alert.stream_table == "revenue"
    return [alert.event for alert in reversed(found)]


def refresh(announcer: Announcer, table: StreamTable) -> RefreshResult:
    return announcer.refresh(announcer.engine.catalog.get_by_id(table.id), {})


def failing(announcer: Announcer, table: StreamTable, kind: type[FreshlakeError]) -> None:
    with pytest.raises(kind):
        refresh(announcer, table)


def test_a_refresh_that_changed_something(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    engine.commits(Action.DIFFERENTIAL)
    result = refresh(announcer, table)
    assert told(catalog) == ["refresh_completed"]
    assert catalog.alerts()[0].payload == {
        "refresh_id": result.refresh_id,
        "action": "DIFFERENTIAL",
        "reason": None,
        "rows_inserted": 3,
        "rows_deleted": 2,
        "rows_updated": 1,
        "duration_ms": 0,
        "version": 2,
        "data_timestamp": NOW.isoformat(),
    }


def test_a_refresh_that_found_nothing_is_no_alert(announcer: Announcer, table: StreamTable, catalog: Catalog) -> None:
    assert refresh(announcer, table) == no_data()
    assert told(catalog) == []


@pytest.mark.parametrize("action", [Action.FULL, Action.REINITIALIZE])
def test_contents_that_were_computed_anew(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog, action: Action
) -> None:
    engine.commits(action, "requested")
    result = refresh(announcer, table)
    assert told(catalog) == ["refresh_completed", "full_refresh_replaced"]
    assert catalog.alerts()[0].payload == {
        "refresh_id": result.refresh_id,
        "action": str(action),
        "reason": "requested",
        "rows_inserted": 3,
        "rows_deleted": 2,
        "rows": 9,
    }


def test_a_first_load_replaces_nothing(announcer: Announcer, engine: Double, catalog: Catalog) -> None:
    engine.commits(Action.FULL, "first-load")
    refresh(announcer, added(catalog))
    assert told(catalog) == ["refresh_completed"]


def test_failures_until_the_table_is_in_error_and_its_return(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    engine.fails(DataError("division by zero", detail="amount / 0", hint="use try_divide"))
    for _ in range(4):
        failing(announcer, table, DataError)
    assert told(catalog) == ["refresh_failed"] * 3 + ["auto_suspended", "refresh_failed"]
    by_event = {alert.event: alert.payload for alert in catalog.alerts()}
    what = {"error_code": "data-error", "error": "division by zero"}
    assert by_event["auto_suspended"] == {**what, "consecutive_errors": 3}
    assert catalog.alerts()[0].payload == {
        **what,
        "detail": "amount / 0",
        "hint": "use try_divide",
        "consecutive_errors": 4,
    }
    engine.commits(Action.DIFFERENTIAL)
    refresh(announcer, table)
    assert told(catalog)[5:] == ["refresh_completed", "resumed"]
    assert catalog.alerts()[0].payload == {"previous_status": "ERROR", "by": "refresh"}


def test_a_refresh_that_finds_nothing_ends_an_error_too(
    announcer: Announcer, table: StreamTable, catalog: Catalog
) -> None:
    catalog.update(table.id, status=Status.ERROR)
    refresh(announcer, table)
    assert told(catalog) == ["resumed"]


def test_a_source_that_is_gone(announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog) -> None:
    engine.fails(SourceDropped("orders is gone"), fatal=True)
    failing(announcer, table, SourceDropped)
    assert told(catalog) == ["refresh_failed", "auto_suspended"]


@pytest.mark.parametrize("kind", [RefreshInProgress, NotDifferentiable])
def test_a_refresh_that_does_not_begin_is_no_alert(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog, kind: type[FreshlakeError]
) -> None:
    engine.fails(kind("not now"), before_it_begins=True)
    failing(announcer, table, kind)
    assert told(catalog) == []


def test_a_failure_that_is_not_counted_is_no_alert(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    engine.fails(DataError("oh"), counted=False)
    failing(announcer, table, DataError)
    assert told(catalog) == []


def test_a_rebuild_that_is_needed_is_told_once_until_it_is_done(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    engine.fails(DataError("oh"), action=Action.REINITIALIZE, fallback_reason="definition-changed")
    for _ in range(2):
        failing(announcer, table, DataError)
    assert told(catalog) == ["refresh_failed", "reinitialize_needed", "refresh_failed"]
    assert catalog.alerts()[1].payload == {"reason": "definition-changed", "error_code": "data-error", "error": "oh"}
    engine.commits(Action.REINITIALIZE, "definition-changed")
    refresh(announcer, table)
    assert told(catalog)[3:] == ["refresh_completed", "full_refresh_replaced"]
    engine.fails(SourceSchemaChanged("amount is gone"))
    failing(announcer, table, SourceSchemaChanged)
    assert told(catalog)[5:] == ["refresh_failed", "reinitialize_needed"]
    assert catalog.alerts()[0].payload["reason"] == "schema-changed"


def test_a_fuse_that_has_blown_is_told_once(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    table = catalog.update(table.id, fuse_rows=3)
    sources = {"a": {"changed_rows": 2, "rows": 90}, "b": {"changed_rows": None, "rows": 7}}
    engine.fails(FuseBlown("blown"), fatal=True, decision={"sources": sources})
    failing(announcer, table, FuseBlown)
    assert told(catalog) == ["refresh_failed", "fuse_blown", "auto_suspended"]
    assert catalog.alerts(event="fuse_blown")[0].payload == {"changed_rows": 7, "fuse_rows": 3}
    catalog.update(table.id, fuse_state="blown")
    failing(announcer, table, FuseBlown)
    assert told(catalog)[3:] == ["refresh_failed"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"never_full": True}, {"bound": "never_full", "rows": None, "seconds": None, "limit": None}),
        ({"max_full_rows": 50}, {"bound": "max_full_rows", "rows": 97, "seconds": None, "limit": 50}),
        (
            {"max_full_rows": 100, "max_full_seconds": 3},
            {"bound": "max_full_seconds", "rows": 97, "seconds": 4.5, "limit": 3},
        ),
    ],
)
def test_a_recompute_that_is_forbidden(
    announcer: Announcer,
    engine: Double,
    table: StreamTable,
    catalog: Catalog,
    options: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    table = catalog.update(table.id, **options)
    sources = {"a": {"changed_rows": 2, "rows": 90}, "b": {"changed_rows": None, "rows": 7}}
    engine.fails(FullRefused("no"), decision={"sources": sources, "full_ms": 4_500.0}, fallback_reason="history-lost")
    failing(announcer, table, FullRefused)
    assert told(catalog) == ["refresh_failed", "full_refused"]
    assert catalog.alerts()[0].payload == {"reason": "history-lost", **expected}


def test_a_mark_for_a_rebuild_counts_as_one(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    catalog.update(table.id, needs_reinit=True)
    engine.fails(InternalError("oh"))
    failing(announcer, table, InternalError)
    assert catalog.alerts()[0].payload["reason"] == "reinitialize"


@pytest.mark.parametrize("status", [Status.SUSPENDED, Status.ERROR])
def test_a_table_that_is_resumed(announcer: Announcer, table: StreamTable, catalog: Catalog, status: Status) -> None:
    stopped = catalog.update(table.id, status=status)
    announcer.altered(table, stopped)
    assert told(catalog) == []
    announcer.altered(stopped, catalog.update(table.id, status=Status.ACTIVE))
    assert told(catalog) == ["resumed"]
    assert catalog.alerts()[0].payload == {"previous_status": str(status), "by": "request"}


def test_an_altered_query(announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog) -> None:
    engine.commits(Action.REINITIALIZE, "query-altered", generation=2, version=1)
    engine.act(table)
    after = catalog.get_by_id(table.id)
    engine.commits(Action.DIFFERENTIAL)
    engine.act(after)  # by somebody else, before the alteration is told
    announcer.altered(table, after)
    assert told(catalog) == ["refresh_completed", "full_refresh_replaced"]
    assert {alert.payload["reason"] for alert in catalog.alerts()} == {"query-altered"}


def test_a_verification_that_fails_tells_counts_and_no_rows(
    announcer: Announcer, table: StreamTable, catalog: Catalog
) -> None:
    announcer.verified(table, Verification("default.revenue", True, 0, 0, 9, (), (), {}))
    assert told(catalog) == []
    announcer.verified(table, Verification("default.revenue", False, 1, 2, 9, ({"customer": "ann"},), (), {}))
    assert told(catalog) == ["verification_failed"]
    assert catalog.alerts()[0].payload == {"missing": 1, "unexpected": 2, "compared_rows": 9}


def test_conditions_of_a_dropped_table_are_forgotten(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog
) -> None:
    engine.fails(SourceSchemaChanged("amount is gone"))
    for _ in range(2):
        failing(announcer, table, SourceSchemaChanged)
        announcer.dropped(table)
    assert told(catalog) == ["refresh_failed", "reinitialize_needed"] * 2


def test_an_error_stays_what_it_is_when_it_cannot_be_told(
    announcer: Announcer, engine: Double, table: StreamTable, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def gone(dropped: StreamTable) -> RefreshResult:
        catalog.delete(dropped.id)
        raise DataError("division by zero")

    engine.act = gone
    failing(announcer, table, DataError)
    assert "an alert could not be made" in caplog.text


def test_a_group_that_is_not_published_is_told_once_until_those_that_failed_have_come(
    announcer: Announcer, catalog: Catalog
) -> None:
    left, right, joined = (added(catalog, name) for name in ("left", "right", "revenue"))
    group, failed = [left, right, joined], DataError("oh")

    def after(tables: list[StreamTable], *missing: StreamTable, error: FreshlakeError = failed) -> int:
        announcer.together(tables, {str(table.full_name): error for table in missing})
        return len(catalog.alerts(event="diamond_partial_failure"))

    assert after(group, left, error=RefreshInProgress("not now")) == 0
    assert after([joined], joined) == 0, "a table alone says so itself"
    assert after(group, left, joined) == 1
    assert catalog.alerts()[0].payload == {"members": ["left", "right", "revenue"], "failed": ["left", "revenue"]}
    assert after([right]) == 1
    assert after(group, left, joined) == 1, "the same at its retry"
    assert after([left]) == 1
    assert after(group, joined) == 1
    assert after(group) == 1
    assert after(group, left) == 2, "it had ended"
    announcer.dropped(left)
    assert after(group, right) == 3
    assert set(told(catalog)) == {"diamond_partial_failure"}
