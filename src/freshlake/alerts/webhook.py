"""Webhooks: alerts posted as JSON, by one thread of their own, so that no refresh waits for a receiver."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from freshlake.alerts.alert import Alert
from freshlake.alerts.complaints import Complaints
from freshlake.version import VERSION

TIMEOUT_SECONDS = 5.0
CAPACITY = 1_000
PAUSES = (0.5, 2.0)
"""Seconds before the second and the third attempt."""
_AGAIN = (408, 425, 429)

Post = Callable[[str, bytes], None]


class Refused(Exception):
    """The receiver answered that it does not want the alert: trying again would not help."""


class Webhooks:
    """A bounded queue and its thread, which runs while there is something to send.

    When the queue is full the oldest alert is dropped: what happened last says more. A receiver that did not take an
    alert after all attempts gets one attempt per alert until it answers, so that it does not hold up the others.
    """

    def __init__(
        self,
        urls: Sequence[str],
        complaints: Complaints,
        *,
        post: Post | None = None,
        capacity: int = CAPACITY,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._urls = tuple(urls)
        self._complaints = complaints
        self._post = post or post_json
        self._capacity, self._pauses = capacity, tuple(pauses)
        self._waiting: deque[Alert] = deque()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._down: set[str] = set()
        self.dropped = 0
        """Alerts that were never sent: the queue was full, or it was closed before their turn."""

    def send_to(self, urls: Sequence[str]) -> None:
        """Other receivers from now on; what waits goes to them."""
        with self._changed:
            self._urls = tuple(urls)

    def send(self, alert: Alert) -> None:
        """Put an alert into the queue; returns at once."""
        if not self._urls:
            return
        with self._changed:
            full = len(self._waiting) >= self._capacity
            if full:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(alert)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="freshlake-webhooks", daemon=True)
                self._thread.start()
        if full:
            self._complaints.say("queue of webhooks", f"it is full; alerts dropped so far: {self.dropped}")

    def close(self, seconds: float) -> None:
        """Send what waits, but for no longer than this; what is left then is dropped and said."""
        self._hurry.set()
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, timeout=max(0.0, deadline - time.monotonic()))
            left = len(self._waiting)
            self._waiting.clear()
            self.dropped += left
        self._hurry.clear()
        if left:
            self._complaints.say("closing webhooks", f"{left} alerts were not sent in {seconds:g} seconds")

    def _work(self) -> None:
        while (alert := self._next()) is not None:
            body = alert.to_json().encode()
            for url in self._urls:
                try:
                    self._deliver(url, body)
                except Exception as error:
                    self._complaints.say(f"webhook {origin(url)}", error)

    def _next(self) -> Alert | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            # said under the lock, so that an alert that comes now starts a new thread
            self._thread = None
            self._changed.notify_all()
            return None

    def _deliver(self, url: str, body: bytes) -> None:
        pauses: Sequence[float] = () if url in self._down else self._pauses
        for pause in (*pauses, None):
            try:
                self._post(url, body)
            except Refused:
                self._down.discard(url)
                raise
            except Exception:
                if pause is None or self._hurry.wait(pause):
                    self._down.add(url)
                    raise
            else:
                self._down.discard(url)
                return


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the alert, and could lead to what is no http address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post_json(url: str, body: bytes, timeout: float = TIMEOUT_SECONDS) -> None:
    """Raises Refused, or another error after which it may be tried again."""
    headers = {"Content-Type": "application/json", "User-Agent": f"freshlake/{VERSION}"}
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        # made anew each time: it reads the proxies of the environment when it is made
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500 and error.code not in _AGAIN:
            raise Refused(f"it answered {error.code} {error.reason}") from None
        raise OSError(f"it answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None


def origin(url: str) -> str:
    """A URL without path and query, which are often a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
