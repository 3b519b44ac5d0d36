"""Webhooks against real servers on loopback: well, slow, failing and gone; who sends an alert never waits for them."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from freshlake.alerts import Alert, Alerts, Event
from freshlake.alerts.complaints import Complaints
from freshlake.alerts.webhook import Refused, Webhooks, origin, post_json
from freshlake.catalog import Catalog
from freshlake.clock import ManualClock

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LONG = 30.0


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


class Receiver:
    """Answers with the given codes in turn, the last one for ever; what it was sent is in `got`."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.go = threading.Event()
        self.go.set()
        self.arrived = threading.Semaphore(0)
        self.url = ""

    def code(self) -> int:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]


@contextlib.contextmanager
def receiver(*codes: int) -> Iterator[Receiver]:
    found = Receiver(*codes)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append(json.loads(body))
            found.headers.append(dict(self.headers))
            found.arrived.release()
            found.go.wait(LONG)
            self.send_response(found.code())
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            raise AssertionError("a redirect was followed")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/hook?secret=1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            found.go.set()
            server.shutdown()
            thread.join()


def nobody() -> str:
    """An address at which nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/hook?secret=2"


def hooks(*urls: str, **options: Any) -> Webhooks:
    return Webhooks(urls, Complaints(ManualClock(NOW)), **{"pauses": (0.0, 0.0), **options})


def alert(number: int = 1) -> Alert:
    return Alert(Event.RESUMED, NOW, "revenue", {"by": "request"}, number)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_an_alert_is_posted_as_json_to_every_address() -> None:
    with receiver(200) as one, receiver(204) as two:
        sender = hooks(one.url, two.url)
        sender.send(alert())
        sender.close(LONG)
        assert one.got == two.got == [alert().to_dict()]
        assert one.headers[0]["Content-Type"] == "application/json"
        assert one.headers[0]["User-Agent"].startswith("freshlake/")


def test_alerts_arrive_in_order_also_after_it_was_closed() -> None:
    with receiver(200) as there:
        sender = hooks(there.url)
        for number in range(20):
            sender.send(alert(number))
        sender.close(LONG)
        sender.send(alert(20))
        sender.close(LONG)
        assert [got["id"] for got in there.got] == list(range(21))


def test_a_failing_receiver_is_tried_three_times() -> None:
    with receiver(500, 503, 200) as there:
        sender = hooks(there.url)
        sender.send(alert())
        assert all(there.arrived.acquire(timeout=LONG) for _ in range(3))
        sender.close(LONG)
        assert there.got == [alert().to_dict()] * 3
        assert sender._down == set()


def test_closing_does_not_wait_for_another_attempt() -> None:
    with receiver(500) as there:
        sender = hooks(there.url, pauses=(LONG * 100, LONG * 100))
        sender.send(alert())
        assert there.arrived.acquire(timeout=LONG)
        sender.close(LONG)
        assert sender._thread is None
        assert len(there.got) == 1


def test_attempts_end_with_the_first_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with receiver(500, 429, 200, 200) as there:
        sender = hooks(there.url)
        sender._deliver(there.url, b"{}")
        assert len(there.got) == 3
        sender._deliver(there.url, b"{}")
        assert len(there.got) == 4
    assert warnings(caplog) == []


def test_a_receiver_that_is_down_gets_one_attempt_per_alert_until_it_answers() -> None:
    with receiver(500, 500, 500, 500, 200, 500, 500, 500) as there:
        sender = hooks(there.url)
        counts = []
        for _ in range(4):
            with contextlib.suppress(OSError):
                sender._deliver(there.url, b"{}")
            counts.append(len(there.got))
        assert counts == [3, 4, 5, 8]


@pytest.mark.parametrize("code", [400, 404, 410, 301, 302, 307])
def test_what_a_receiver_refuses_is_not_tried_again_and_not_sent_elsewhere(code: int) -> None:
    with receiver(code) as there:
        with pytest.raises(Refused, match=str(code)):
            hooks(there.url)._deliver(there.url, b"{}")
        assert len(there.got) == 1


def test_a_slow_receiver_holds_up_its_thread_only(caplog: pytest.LogCaptureFixture) -> None:
    with receiver(200) as slow:
        slow.go.clear()
        sender = hooks(slow.url, capacity=2)
        for number in range(5):
            sender.send(alert(number))
            if number == 0:
                assert slow.arrived.acquire(timeout=LONG)
        assert sender.dropped == 2  # 1 and 2: the first is under way, and two have room
        slow.go.set()
        sender.close(LONG)
        assert [got["id"] for got in slow.got] == [0, 3, 4]
    (said,) = warnings(caplog)
    assert "queue of webhooks failed: it is full; alerts dropped so far: 1" in said


def test_a_receiver_that_does_not_answer_in_time_has_failed() -> None:
    with receiver(200) as slow:
        slow.go.clear()
        with pytest.raises(OSError, match="timed out"):
            post_json(slow.url, b"{}", timeout=0.05)


def test_closing_waits_no_longer_than_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with receiver(200) as slow:
        slow.go.clear()
        sender = hooks(slow.url)
        for number in range(3):
            sender.send(alert(number))
        assert slow.arrived.acquire(timeout=LONG)
        sender.close(0.05)
        assert sender.dropped == 2
    assert "2 alerts were not sent" in warnings(caplog)[0]


def test_a_receiver_that_is_gone_keeps_no_alert_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    gone = nobody()
    with receiver(200) as there:
        sender = hooks(gone, there.url)
        for number in range(3):
            sender.send(alert(number))
        sender.close(LONG)
        assert [got["id"] for got in there.got] == [0, 1, 2]
    (said,) = warnings(caplog)
    assert f"webhook {origin(gone)} failed: " in said
    assert "secret" not in said


def test_without_addresses_there_is_no_thread() -> None:
    sender = hooks()
    sender.send(alert())
    assert sender._thread is None
    sender.close(LONG)


def test_a_failing_webhook_is_no_matter_to_the_work(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    with receiver(500) as failing:
        alerts = Alerts(catalog, ManualClock(NOW), webhooks=[failing.url, nobody()])
        alerts.emit(Event.RESUMED, "revenue", by="request")
        alerts.close(LONG)
        assert failing.got[0] == Alert.of(catalog.alerts()[0]).to_dict()
    catalog.close()
