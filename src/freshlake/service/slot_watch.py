"""Slots that are gone or keep much log: told when it begins, whether or not anybody asks for the health of the lake."""

from __future__ import annotations

from dataclasses import dataclass, field

from freshlake.alerts import Alerts, Event
from freshlake.service.capture_report import CaptureReport, SlotInfo
from freshlake.sources.postgres.wal.slot import Alert

_EVENTS: dict[str | None, Event] = {
    Alert.MISSING: Event.REPLICATION_SLOT_MISSING,
    Alert.LAG: Event.SLOT_LAG_EXCEEDS_THRESHOLD,
}


@dataclass
class SlotWatch:
    report: CaptureReport
    alerts: Alerts
    _told: dict[str, tuple[Event, str]] = field(default_factory=dict)

    def consider(self) -> None:
        """Look at all slots; what was told is told again only when it is worse, or has ended in between."""
        slots = self.report.slots()
        for slot in slots:
            # a database that does not answer says nothing about its slot
            if slot.alert is None or slot.alert in _EVENTS:
                self._consider(slot)
        for gone in self._told.keys() - {slot.source for slot in slots}:
            del self._told[gone]

    def _consider(self, slot: SlotInfo) -> None:
        event = _EVENTS.get(slot.alert)
        if event is None:
            self._told.pop(slot.source, None)
        elif self._told.get(slot.source) != (event, slot.level):
            self._told[slot.source] = event, slot.level
            figures = {"level": slot.level, "retained_bytes": slot.retained_bytes, "lag_bytes": slot.lag_bytes}
            self.alerts.emit(event, None, source=slot.source, slot_name=slot.slot_name, detail=slot.detail, **figures)
