"""Complaints: a channel that fails is logged, but does not fill the log."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta

from freshlake.clock import Clock

_log = logging.getLogger("freshlake")
PAUSE = timedelta(minutes=1)


class Complaints:
    """One warning per minute and channel at most; the next one says how many were left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, datetime] = {}
        self._silent: dict[str, int] = {}

    def say(self, channel: str, why: object) -> None:
        now = self._clock.now()
        with self._lock:
            last = self._last.get(channel)
            # a clock that was set back must not silence a channel for long
            if last is not None and timedelta(0) <= now - last < PAUSE:
                self._silent[channel] = self._silent.get(channel, 0) + 1
                return
            self._last[channel] = now
            silent = self._silent.pop(channel, 0)
        more = f" (and {silent} times before)" if silent else ""
        _log.warning("%s failed: %s%s", channel, str(why) or type(why).__name__, more)
