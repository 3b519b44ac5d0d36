"""Alerts of real refreshes in one lake, seen through every face: callback, Python, SQL, command, log and webhook."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.alerts import EVENTS, Alert
from freshlake.cli import main
from freshlake.errors import DataError, InvalidArgument, SourceDropped, SourceSchemaChanged
from freshlake.lake import Freshlake
from tests.integration.lakes import ANY_SHARE, BY_NAME, orders

TOTALS = "SELECT region, sum(amount) AS total FROM orders GROUP BY region"
RATES = "SELECT id, 100 / rate AS share FROM rates"


@pytest.fixture(scope="module")
def posted() -> Iterator[list[dict[str, Any]]]:
    """What the webhook got; its address is the first entry until then."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        got.append({"url": f"http://127.0.0.1:{server.server_port}/"})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield got
        server.shutdown()


@pytest.fixture(scope="module")
def fl(
    spark: SparkSession, posted: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Freshlake]:
    webhooks = f"{posted.pop()['url']}, http://127.0.0.1:9/nobody"
    settings = {**ANY_SHARE, "max_consecutive_errors": 2, "alert_webhooks": webhooks}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        with freshlake.connect(tmp_path_factory.mktemp("lake"), settings=settings) as opened:
            orders(opened)
            opened.sql(f"CREATE TABLE rates (id INT, rate INT) USING delta TBLPROPERTIES ({BY_NAME})")
            opened.sql("INSERT INTO rates VALUES (1, 5)")
            yield opened


@pytest.fixture
def heard(fl: Freshlake) -> Iterator[list[Alert]]:
    found: list[Alert] = []
    handle = fl.on_alert(found.append)
    yield found
    handle.remove()


def events(heard: list[Alert]) -> list[tuple[str, str | None]]:
    """What was heard since the last look, in order; each with the payload that its event is said to have."""
    for alert in heard:
        assert set(alert.payload) == set(EVENTS[alert.event].payload)  # type: ignore[index]
    found = [(str(alert.event), alert.table) for alert in heard]
    heard.clear()
    return found


def test_the_life_of_a_table(fl: Freshlake, heard: list[Alert]) -> None:
    fl.create_stream_table("totals", TOTALS)
    assert events(heard) == [("refresh_completed", "totals")]
    fl.sql("CREATE STREAM TABLE top AS SELECT region FROM totals WHERE total > 8")
    assert events(heard) == [("refresh_completed", "top")]
    fl.refresh_all()
    fl.refresh("top")
    assert events(heard) == []
    fl.sql("INSERT INTO orders VALUES (5, 'south', 7)")
    result = fl.refresh("top")
    assert [a.payload["action"] for a in heard] == ["DIFFERENTIAL"] * 2
    assert heard[1].payload["refresh_id"] == result.refresh_id
    assert events(heard) == [("refresh_completed", "totals"), ("refresh_completed", "top")]
    fl.sql("REFRESH STREAM TABLE totals FULL")
    assert (heard[1].payload["reason"], heard[1].payload["rows"]) == ("requested", 3)
    assert events(heard) == [("refresh_completed", "totals"), ("full_refresh_replaced", "totals")]
    fl.sql("ALTER STREAM TABLE top SET QUERY AS SELECT region, total FROM totals WHERE total > 8")
    assert {alert.payload["reason"] for alert in heard} == {"query-altered"}
    assert events(heard) == [("refresh_completed", "top"), ("full_refresh_replaced", "top")]
    fl.sql("ALTER STREAM TABLE top SUSPEND")
    fl.refresh_all()
    fl.resume("top")
    assert events(heard) == [("resumed", "top")]
    fl.sql("DROP STREAM TABLE top")
    assert len(fl.alerts(table="top")) == 5


def test_failures_and_recovery(fl: Freshlake, heard: list[Alert], caplog: pytest.LogCaptureFixture) -> None:
    fl.create_stream_table("shares", RATES)
    events(heard)
    fl.sql("INSERT INTO rates VALUES (2, 0)")
    with pytest.raises(DataError):
        fl.refresh("shares")
    (failed,) = fl.history("shares", limit=1)
    assert (heard[0].payload["error_code"], heard[0].payload["consecutive_errors"]) == (failed.error_code, 1)
    assert events(heard) == [("refresh_failed", "shares")]
    fl.refresh_all()
    assert ("auto_suspended", "shares") in events(heard)
    assert [r.levelno for r in caplog.records if r.getMessage().startswith("auto_suspended")] == [logging.ERROR]
    fl.sql("DELETE FROM rates WHERE rate = 0")
    fl.refresh("shares")
    assert events(heard)[-1] == ("resumed", "shares")
    assert heard == []
    fl.sql("ALTER TABLE rates RENAME COLUMN rate TO price")
    for _ in range(2):
        with pytest.raises(SourceSchemaChanged):
            fl.refresh("shares")
    assert events(heard) == [
        ("refresh_failed", "shares"),
        ("reinitialize_needed", "shares"),
        ("refresh_failed", "shares"),
        ("auto_suspended", "shares"),
    ]
    fl.sql("ALTER TABLE rates RENAME COLUMN price TO rate")
    fl.refresh("shares")
    assert fl._engine.catalog.get("shares").status == "ACTIVE"
    assert events(heard)[-1] == ("resumed", "shares")
    fl.sql("DROP TABLE rates")
    with pytest.raises(SourceDropped):
        fl.refresh("shares")
    assert events(heard) == [("refresh_failed", "shares"), ("auto_suspended", "shares")]
    fl.drop_stream_table("shares")


def test_what_fails_at_creation_is_no_alert(fl: Freshlake, heard: list[Alert]) -> None:
    with pytest.raises(DataError):
        fl.create_stream_table("broken", "SELECT 1 / (amount - amount) AS x FROM orders")
    assert events(heard) == []


def test_a_callback_that_fails_fails_no_refresh(fl: Freshlake) -> None:
    handle = fl.on_alert(lambda alert: alert.payload["no such field"], events="refresh_completed")
    fl.refresh("totals", mode="FULL")
    handle.remove()


def test_every_face_shows_the_same(fl: Freshlake, capsys: pytest.CaptureFixture[str]) -> None:
    listed = fl.alerts()
    assert [a.id for a in listed] == sorted((a.id or 0 for a in listed), reverse=True)
    frame = fl.sql("SHOW STREAM TABLE ALERTS").collect()
    assert [(r["id"], r["event"], r["table"]) for r in frame] == [(a.id, a.event, a.table) for a in listed]
    assert [json.loads(r["payload"]) for r in frame] == [a.payload for a in listed]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["--lake", str(fl.path), "--json", "alerts", "--event", "RESUMED", "--table", "Shares", "--limit", "2"])
    assert not ended.value.code
    shown = json.loads(capsys.readouterr().out)
    assert [a["id"] for a in shown] == [a.id for a in fl.alerts(2, "resumed", "default.shares")]
    assert {(a["event"], a["table"]) for a in shown} == {("resumed", "shares")}
    with pytest.raises(InvalidArgument, match="moon_rose"):
        fl.alerts(event="moon_rose")


def test_the_webhook_got_what_is_stored(fl: Freshlake, posted: list[dict[str, Any]]) -> None:
    fl.close()
    stored = fl._engine.catalog.alerts(None)
    assert posted == [Alert.of(record).to_dict() for record in reversed(stored)]
