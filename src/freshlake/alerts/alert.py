"""An alert: one event at one moment, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from freshlake.alerts.events import Event
from freshlake.catalog.records import AlertRecord


@dataclass(frozen=True)
class Alert:
    """`event` is an Event, or the plain word of one that a later version stored."""

    event: str
    at: datetime
    table: str | None
    """Name of the stream table, without the default schema; None when it is about none."""
    payload: Mapping[str, Any]
    id: int | None = None
    """Its place in the catalog; None when it could not be stored."""

    @classmethod
    def of(cls, record: AlertRecord) -> Alert:
        event = Event(record.event) if record.event in set(Event) else record.event
        return cls(event, record.at, record.stream_table, record.payload, record.id)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {"id": self.id, "event": self.event, "at": self.at, "table": self.table, "payload": self.payload}
        return {name: plain(value) for name, value in found.items()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


def plain(value: Any) -> Any:
    """A value in terms of what JSON has; what it has no word for becomes text."""
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    return str(value)
