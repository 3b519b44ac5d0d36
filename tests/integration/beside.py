"""A call beside another one, as far as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

LONGEST = 60.0
"""Seconds after which a test gives up; none is waited for when all is well."""


class Watched:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self, waited_for: threading.Event) -> None:
        self._lock, self._waited_for = threading.RLock(), waited_for

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waited_for.set()
            self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.release()


class Beside(threading.Thread):
    """A call in another thread; `result` is what it returned, or the error it raised."""

    def __init__(self, call: Callable[[], Any], ended: threading.Event | None = None) -> None:
        super().__init__(daemon=True)
        self._call, self._ended, self.result = call, ended or threading.Event(), None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:
            self.result = error
        finally:
            self._ended.set()

    def returned(self) -> Any:
        self.join(LONGEST)
        assert not self.is_alive()
        return self.result
