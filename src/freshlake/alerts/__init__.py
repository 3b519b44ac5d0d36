"""Alerts: what happens in a lake that somebody may want to know at once."""

from freshlake.alerts.alert import Alert
from freshlake.alerts.callbacks import Callback, Subscription
from freshlake.alerts.dispatch import Alerts
from freshlake.alerts.events import EVENTS, Event

__all__ = ["EVENTS", "Alert", "Alerts", "Callback", "Event", "Subscription"]
