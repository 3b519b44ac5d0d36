"""Callbacks: Python functions that are told of alerts, in the thread that the event happened in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from freshlake.alerts.alert import Alert
from freshlake.alerts.complaints import Complaints
from freshlake.alerts.events import Event

Callback = Callable[[Alert], object]


class Subscription:
    """A callback that is told of alerts until it is removed."""

    def __init__(
        self, callback: Callback, events: frozenset[str] | None, leave: Callable[[Subscription], None]
    ) -> None:
        self._callback, self._events, self._leave = callback, events, leave

    def remove(self) -> None:
        """Tell the callback nothing more; removing it twice is no mistake."""
        self._leave(self)

    def tell(self, alert: Alert) -> None:
        if self._events is None or alert.event in self._events:
            self._callback(alert)


class Callbacks:
    """All callbacks of one connection; one that fails does not keep the alert from the next."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()

    def add(self, callback: Callback, events: Iterable[str] | str | None) -> Subscription:
        """Raises InvalidArgument when one of the events does not exist."""
        words = [events] if isinstance(events, str) else events
        wanted = None if words is None else frozenset(Event.parse(word) for word in words)
        added = Subscription(callback, wanted, self._remove)
        with self._lock:
            self._subscriptions = (*self._subscriptions, added)
        return added

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)

    def send(self, alert: Alert) -> None:
        for subscription in self._subscriptions:
            try:
                subscription.tell(alert)
            except Exception as error:
                name = getattr(subscription._callback, "__qualname__", repr(subscription._callback))
                self._complaints.say(f"callback {name}", f"{type(error).__name__}: {error}")
