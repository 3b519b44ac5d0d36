"""The calls of a lake that are about alerts."""

from __future__ import annotations

from collections.abc import Iterable

from freshlake.alerts import Alert, Alerts, Callback, Event, Subscription
from freshlake.service.calls import Calls


class AlertCalls(Calls):
    """What users call; a lake has them among its own."""

    _alerts: Alerts

    def alerts(self, limit: int = 50, event: str | None = None, table: str | None = None) -> list[Alert]:
        """Alerts that were sent, newest first."""
        word = Event.parse(event) if event else None
        name = self._name(table).short if table else None
        return [Alert.of(record) for record in self._engine.catalog.alerts(limit, event=word, table=name)]

    def on_alert(self, callback: Callback, events: Iterable[str] | str | None = None) -> Subscription:
        """Call a function with every alert, or with those of some events, until the handle's `remove()`."""
        return self._alerts.subscribe(callback, events)
