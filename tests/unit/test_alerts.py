"""Alerts: stored, logged and told to callbacks; whatever fails on the way, the work they are about goes on."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from freshlake.alerts import EVENTS, Alert, Alerts, Event
from freshlake.alerts.alert import plain
from freshlake.catalog import AlertRecord, Catalog
from freshlake.clock import ManualClock
from freshlake.errors import CatalogUnavailable, InvalidArgument

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
def alerts(catalog: Catalog, clock: ManualClock) -> Alerts:
    return Alerts(catalog, clock)


class Broken:
    """A catalog that does not answer."""

    def add_alert(self, *_: Any) -> AlertRecord:
        raise CatalogUnavailable("the catalog did not answer")

    def prune_alerts(self, *_: Any) -> int:
        raise CatalogUnavailable("the catalog did not answer")


def test_every_event_is_described() -> None:
    assert set(EVENTS) == set(Event)
    levels = (logging.INFO, logging.WARNING, logging.ERROR)
    for event, described in EVENTS.items():
        assert event == event.name.lower()
        assert described.when
        assert described.payload
        assert described.level in levels


def test_an_alert_is_stored_then_told(alerts: Alerts, catalog: Catalog) -> None:
    seen: list[Alert] = []
    stored: list[tuple[AlertRecord, ...]] = []
    alerts.subscribe(seen.append)
    alerts.subscribe(lambda _: stored.append(catalog.alerts()))
    alerts.emit(Event.RESUMED, "revenue", previous_status="ERROR", by="request")
    (alert,) = seen
    assert alert == Alert(Event.RESUMED, NOW, "revenue", {"previous_status": "ERROR", "by": "request"}, 1)
    assert [Alert.of(record) for record in stored[0]] == [alert]


def test_an_alert_turns_into_json() -> None:
    alert = Alert(Event.RESUMED, NOW, "revenue", {"by": "request"}, 4)
    assert json.loads(alert.to_json()) == {
        "id": 4,
        "event": "resumed",
        "at": "2026-05-01T00:00:00+00:00",
        "table": "revenue",
        "payload": {"by": "request"},
    }


def test_an_event_of_a_later_version_is_shown_as_it_is_stored() -> None:
    alert = Alert.of(AlertRecord(1, NOW, "moon_rose", None, {}))
    assert alert.event == "moon_rose"
    assert json.loads(alert.to_json())["event"] == "moon_rose"


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Colour.RED, "red"),
        (NOW, "2026-05-01T00:00:00+00:00"),
        ({1: {2}}, {"1": [2]}),
        (("a", ["b"]), ["a", ["b"]]),
        (b"x", "b'x'"),
        (timedelta(1), "1 day, 0:00:00"),
    ],
)
def test_a_payload_has_only_what_json_has(value: object, expected: object) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_payload_fields_may_have_any_name(alerts: Alerts, catalog: Catalog) -> None:
    alerts.emit(Event.RESUMED, "a", event=1, table=2, payload=3, self=4)
    assert catalog.alerts()[0].payload == {"event": 1, "table": 2, "payload": 3, "self": 4}


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (Event.REFRESH_COMPLETED, logging.INFO),
        (Event.REFRESH_FAILED, logging.WARNING),
        (Event.AUTO_SUSPENDED, logging.ERROR),
    ],
)
def test_the_log_has_one_line_per_alert_at_the_level_of_the_event(
    alerts: Alerts, caplog: pytest.LogCaptureFixture, event: Event, level: int
) -> None:
    caplog.set_level(logging.DEBUG, "freshlake.alerts")
    alerts.emit(event, "revenue", error="two\nlines")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("freshlake.alerts", level)
    assert record.getMessage() == event + ' revenue {"error": "two\\nlines"}'


def test_a_callback_is_told_of_the_events_it_asked_for_until_it_is_removed(alerts: Alerts) -> None:
    all_, some, one = [], [], []
    handles = [
        alerts.subscribe(lambda a: all_.append(a.event)),
        alerts.subscribe(lambda a: some.append(a.event), ["RESUMED", Event.FUSE_BLOWN]),
        alerts.subscribe(lambda a: one.append(a.event), "stale_data"),
    ]
    for event in (Event.RESUMED, Event.STALE_DATA, Event.FUSE_BLOWN):
        alerts.emit(event, "a")
    assert (all_, some, one) == (["resumed", "stale_data", "fuse_blown"], ["resumed", "fuse_blown"], ["stale_data"])
    for handle in (*handles, handles[0]):
        handle.remove()
    alerts.emit(Event.RESUMED, "a")
    assert len(all_) == 3


def test_an_unknown_event_is_refused_with_the_known_ones(alerts: Alerts) -> None:
    with pytest.raises(InvalidArgument, match="moon_rose") as caught:
        alerts.subscribe(print, ["moon_rose"])
    assert "stale_data" in (caught.value.hint or "")


def test_a_callback_that_fails_keeps_the_alert_from_nobody(
    alerts: Alerts, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: Alert) -> None:
        raise ZeroDivisionError("oh")

    seen: list[Alert] = []
    alerts.subscribe(fails)
    alerts.subscribe(seen.append)
    for _ in range(3):
        alerts.emit(Event.RESUMED, "a")
    assert len(seen) == 3
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "fails failed: ZeroDivisionError: oh" in said
    caplog.clear()
    clock.advance(60)
    alerts.emit(Event.RESUMED, "a")
    assert "(and 2 times before)" in caplog.text


def test_a_callback_may_remove_itself_and_send_an_alert(alerts: Alerts) -> None:
    seen: list[str] = []

    def once(alert: Alert) -> None:
        handle.remove()
        seen.append(alert.event)
        alerts.emit(Event.FUSE_BLOWN, "b")

    handle = alerts.subscribe(once)
    alerts.emit(Event.RESUMED, "a")
    assert seen == ["resumed"]


def test_without_a_catalog_alerts_are_told_all_the_same(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    alerts = Alerts(Broken(), clock)
    seen: list[Alert] = []
    alerts.subscribe(seen.append)
    for _ in range(2):
        alerts.emit(Event.FUSE_BLOWN, "a", changed_rows=1)
    assert [(alert.id, alert.payload) for alert in seen] == [(None, {"changed_rows": 1})] * 2
    assert caplog.text.count("storing alerts in the catalog failed: the catalog did not answer") == 1


def test_what_cannot_be_told_is_logged_and_not_raised(alerts: Alerts, caplog: pytest.LogCaptureFixture) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise ValueError("no words")

    alerts.emit(Event.RESUMED, "a", what=Unspeakable())
    alerts.emit("moon_rose", "a")  # type: ignore[arg-type]
    assert "no words" in caplog.text
    assert "alert moon_rose failed" in caplog.text


def test_a_condition_is_sent_once_until_it_has_ended(alerts: Alerts, catalog: Catalog) -> None:
    assert alerts.raise_condition(Event.STALE_DATA, "a", {"staleness_seconds": 100})
    assert not alerts.raise_condition(Event.STALE_DATA, "a", {"staleness_seconds": 200})
    assert alerts.raise_condition(Event.FALLING_BEHIND, "a", {})
    assert alerts.raise_condition(Event.STALE_DATA, "b", {})
    assert alerts.clear_condition(Event.STALE_DATA, "a")
    assert not alerts.clear_condition(Event.STALE_DATA, "a")
    assert not alerts.raise_condition(Event.STALE_DATA, "b", {})
    assert alerts.raise_condition(Event.STALE_DATA, "a", {"staleness_seconds": 300})
    told = [(a.event, a.stream_table) for a in reversed(catalog.alerts())]
    assert told == [("stale_data", "a"), ("falling_behind", "a"), ("stale_data", "b"), ("stale_data", "a")]


def test_the_conditions_of_a_dropped_table_have_ended(alerts: Alerts) -> None:
    for table in ("a", "b"):
        alerts.raise_condition(Event.STALE_DATA, table, {})
    alerts.forget("a")
    assert alerts.raise_condition(Event.STALE_DATA, "a", {})
    assert not alerts.raise_condition(Event.STALE_DATA, "b", {})


def test_alerts_are_pruned_along_the_way(catalog: Catalog, clock: ManualClock) -> None:
    alerts = Alerts(catalog, clock, retention_days=2)
    alerts.emit(Event.RESUMED, "a")
    clock.advance(3 * 86_400)
    alerts.emit(Event.RESUMED, "b")
    assert [a.stream_table for a in catalog.alerts()] == ["b"]
