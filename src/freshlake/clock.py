"""Time as a parameter: whoever needs the time is given a clock, so tests never wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Protocol


class Clock(Protocol):
    """Tells the current time, always aware and in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = _as_utc(start or datetime(2026, 1, 1, tzinfo=UTC))
        self._lock = Lock()

    def now(self) -> datetime:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> datetime:
        """Move forward and return the new time."""
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._lock:
            self._now += timedelta(seconds=seconds)
            return self._now

    def set(self, moment: datetime) -> None:
        """Jump to a moment, also to an earlier one, as a badly set machine clock does."""
        with self._lock:
            self._now = _as_utc(moment)


def _as_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    return moment.astimezone(UTC)
