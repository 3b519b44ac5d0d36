"""The dispatcher: an alert is stored first, then told to the log, to callbacks and to webhooks.

Law: nothing that goes wrong with an alert reaches the work it is about.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from freshlake.alerts.alert import Alert, plain
from freshlake.alerts.callbacks import Callback, Callbacks, Subscription
from freshlake.alerts.complaints import Complaints
from freshlake.alerts.events import EVENTS, Event
from freshlake.alerts.webhook import Post, Webhooks
from freshlake.catalog.records import AlertRecord, Json
from freshlake.clock import Clock

_log = logging.getLogger("freshlake.alerts")
CLOSING_SECONDS = 5.0
_PRUNE_EVERY = timedelta(hours=1)


class Store(Protocol):
    """Where alerts are kept: the catalog."""

    def add_alert(self, event: str, table: str | None, payload: Json, at: datetime) -> AlertRecord: ...

    def prune_alerts(self, before: datetime) -> int: ...


class Alerts:
    """Sends alerts; one per connection, for any number of threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        webhooks: Sequence[str] = (),
        retention_days: int = 30,
        post: Post | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self._retention = timedelta(days=retention_days)
        self._complaints = Complaints(clock)
        self._callbacks = Callbacks(self._complaints)
        self._webhooks = Webhooks(webhooks, self._complaints, post=post)
        self._lock = threading.Lock()
        self._conditions: set[tuple[Event, str | None]] = set()
        self._pruned_at: datetime | None = None

    def configure(self, webhooks: Sequence[str], retention_days: int) -> None:
        """Send to these receivers from now on, and keep alerts for so long."""
        self._webhooks.send_to(webhooks)
        self._retention = timedelta(days=retention_days)

    def emit(self, event: Event, table: str | None = None, /, **payload: Any) -> None:
        """Send one alert; never raises, and waits for nothing but the catalog.

        Not inside a catalog transaction: what is told to others cannot be rolled back.
        """
        try:
            self._tell(self._stored(Alert(Event(event), self._clock.now(), table, plain(payload))))
            self._prune()
        except Exception as error:
            self._complaints.say(f"alert {event}", f"{type(error).__name__}: {error}")

    def raise_condition(self, event: Event, table: str | None, payload: Mapping[str, Any]) -> bool:
        """Send an alert about something that lasts, once until it is cleared; whether it was sent.

        What has begun is known to this connection only: another process, or this one after a restart, sends it again.
        """
        with self._lock:
            if (event, table) in self._conditions:
                return False
            self._conditions.add((event, table))
        self.emit(event, table, **payload)
        return True

    def clear_condition(self, event: Event, table: str | None) -> bool:
        """Say that a condition has ended, so that it is sent when it begins again; whether it lasted."""
        with self._lock:
            lasted = (event, table) in self._conditions
            self._conditions.discard((event, table))
            return lasted

    def forget(self, table: str) -> None:
        """End all conditions of a table, which was dropped."""
        with self._lock:
            self._conditions = {(event, name) for event, name in self._conditions if name != table}

    def subscribe(self, callback: Callback, events: Iterable[str] | str | None = None) -> Subscription:
        """Tell a function of all alerts, or of some events."""
        return self._callbacks.add(callback, events)

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Wait for webhooks, but no longer than this."""
        self._webhooks.close(seconds)

    def _stored(self, alert: Alert) -> Alert:
        try:
            record = self._store.add_alert(str(alert.event), alert.table, alert.payload, alert.at)
        except Exception as error:
            self._complaints.say("storing alerts in the catalog", error)
            return alert
        return replace(alert, id=record.id)

    def _tell(self, alert: Alert) -> None:
        # as JSON: one alert is one line, also when an error message has several
        level, payload = EVENTS[Event(alert.event)].level, json.dumps(alert.payload)
        _log.log(level, "%s %s %s", alert.event, alert.table or "-", payload)
        self._webhooks.send(alert)
        self._callbacks.send(alert)

    def _prune(self) -> None:
        now = self._clock.now()
        with self._lock:
            if self._pruned_at is not None and timedelta(0) <= now - self._pruned_at < _PRUNE_EVERY:
                return
            self._pruned_at = now
        self._store.prune_alerts(now - self._retention)
