"""Alerts in the catalog: kept, listed newest first, forgotten in time, and told to those who listen to PostgreSQL."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from freshlake.catalog import AlertRecord, Catalog
from freshlake.catalog.alerts import CHANNEL, NOTIFY_BYTES, notification
from freshlake.clock import ManualClock
from tests.unit.catalog_cases import added

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path, clock=clock)
    yield opened
    opened.close()


def ids(found: tuple[AlertRecord, ...]) -> list[int]:
    return [alert.id for alert in found]


def test_an_alert_is_found_as_it_was_added(catalog: Catalog) -> None:
    payload = {"error": "ä\n\x00", "rows": 3, "names": ["a", "b"], "detail": None}
    record = catalog.add_alert("refresh_failed", "revenue", payload)
    assert catalog.alerts() == (record,)
    assert (record.at, record.payload) == (NOW, payload)


def test_alerts_are_listed_newest_first_by_event_by_table_and_after_an_id(catalog: Catalog) -> None:
    cases = [("stale_data", "a"), ("stale_data", "b"), ("resumed", "a"), ("daemon_took_over", None)]
    first, second, third, fourth = [catalog.add_alert(event, table, {}).id for event, table in cases]
    assert ids(catalog.alerts()) == [fourth, third, second, first]
    assert ids(catalog.alerts(2)) == [fourth, third]
    assert ids(catalog.alerts(event="stale_data")) == [second, first]
    assert ids(catalog.alerts(table="a")) == [third, first]
    assert ids(catalog.alerts(event="stale_data", table="a")) == [first]
    assert ids(catalog.alerts(None, since_id=second)) == [fourth, third]


def test_alerts_of_a_dropped_table_stay(catalog: Catalog) -> None:
    table = added(catalog)
    catalog.add_alert("resumed", "revenue", {})
    catalog.delete(table.id)
    assert len(catalog.alerts(table="revenue")) == 1


def test_old_alerts_are_forgotten_and_ids_are_not_given_out_again(catalog: Catalog, clock: ManualClock) -> None:
    for _ in range(3):
        catalog.add_alert("resumed", "a", {})
        clock.advance(86_400)
    assert catalog.prune_alerts(NOW) == 0
    assert catalog.prune_alerts(NOW + timedelta(days=1, seconds=1)) == 2
    assert ids(catalog.alerts()) == [3]
    assert catalog.prune_alerts(NOW + timedelta(days=30)) == 1
    assert catalog.prune_alerts(NOW + timedelta(days=30)) == 0
    assert catalog.add_alert("resumed", "a", {}).id == 4


def test_only_the_newest_are_kept_however_young(catalog: Catalog) -> None:
    for _ in range(5):
        catalog.add_alert("resumed", "a", {})
    assert catalog.prune_alerts(NOW - timedelta(days=1), most=2) == 3
    assert ids(catalog.alerts()) == [5, 4]


def test_an_alert_is_part_of_the_transaction_around_it(catalog: Catalog) -> None:
    with contextlib.suppress(RuntimeError), catalog.transaction():
        catalog.add_alert("resumed", "a", {})
        raise RuntimeError
    assert catalog.alerts() == ()


def test_a_notification_is_the_alert_as_json(catalog: Catalog) -> None:
    told = json.loads(notification(AlertRecord(7, NOW, "resumed", "a", {"by": "request"})))
    assert told == {"id": 7, "event": "resumed", "at": NOW.isoformat(), "table": "a", "payload": {"by": "request"}}


@pytest.mark.parametrize("letter", ["x", "é", "\x00"])
def test_a_notification_that_is_too_long_says_that_its_payload_was_cut(letter: str) -> None:
    long = AlertRecord(7, NOW, "refresh_failed", "a", {"error": letter * 8_000})
    text = notification(long)
    assert len(text.encode()) <= NOTIFY_BYTES
    assert json.loads(text) == {
        "id": 7,
        "event": "refresh_failed",
        "at": NOW.isoformat(),
        "table": "a",
        "payload": None,
        "cut": True,
    }


def test_a_notification_uses_what_postgresql_allows() -> None:
    empty = len(notification(AlertRecord(7, NOW, "resumed", "a", {"by": ""})))
    fits = AlertRecord(7, NOW, "resumed", "a", {"by": "x" * (NOTIFY_BYTES - empty)})
    assert len(notification(fits)) == NOTIFY_BYTES
    assert "cut" not in notification(fits)


def test_only_postgresql_is_notified(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same transaction, with the statement that PostgreSQL runs."""
    told: list[tuple[str, ...]] = []
    known = Connection.execute

    def execute(self: Connection, statement: Any, *arguments: Any, **options: Any) -> Any:
        if "pg_notify" in str(statement):
            told.append(tuple(statement.compile().params.values()))
            assert self.in_transaction()
            return None
        return known(self, statement, *arguments, **options)

    monkeypatch.setattr(Connection, "execute", execute)
    catalog.add_alert("resumed", "a", {})
    assert told == []
    monkeypatch.setattr(catalog._engine.dialect, "name", "postgresql")
    record = catalog.add_alert("resumed", "a", {})
    assert told == [(CHANNEL, notification(record))]
