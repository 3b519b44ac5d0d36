"""What the catalog sends to PostgreSQL, run by a real one: a listener gets the alert, and its limit is ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import ClauseElement, Connection
from sqlalchemy.dialects import postgresql

from freshlake.catalog import AlertRecord
from freshlake.catalog.alerts import CHANNEL, NOTIFY_BYTES, _notify, notification
from tests.integration.postgres_server import Server, server

NOW = datetime(2026, 5, 1, tzinfo=UTC)
HEARD = re.compile(rf'Asynchronous notification "{CHANNEL}" with payload "(.*)" received')


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


class Written(Connection):
    """Writes down the statement that it is given, as PostgreSQL gets it."""

    # not with the style of a driver, in which % is written twice
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[assignment]

    def __init__(self) -> None:
        self.text = ""

    def execute(self, statement: ClauseElement) -> None:  # type: ignore[override]
        self.text = str(statement.compile(dialect=self.dialect, compile_kwargs={"literal_binds": True}))


def heard(postgres: Server, alert: AlertRecord) -> str:
    written = Written()
    _notify(written, alert)
    (payload,) = HEARD.findall(postgres.run(f"LISTEN {CHANNEL};\n{written.text};"))
    return str(payload)


def test_who_listens_is_told_the_alert(postgres: Server) -> None:
    alert = AlertRecord(7, NOW, "refresh_failed", "revenue", {"error": 'it\'s "x"\n\x00 100% \\ é', "rows": None})
    assert json.loads(heard(postgres, alert)) == {
        "id": 7,
        "event": "refresh_failed",
        "at": NOW.isoformat(),
        "table": "revenue",
        "payload": alert.payload,
    }


def test_the_longest_alert_that_is_sent_whole_is_taken(postgres: Server) -> None:
    empty = len(notification(AlertRecord(7, NOW, "resumed", "a", {"by": ""})))
    longest = AlertRecord(7, NOW, "resumed", "a", {"by": "x" * (NOTIFY_BYTES - empty)})
    assert json.loads(heard(postgres, longest))["payload"] == longest.payload
    longer = AlertRecord(7, NOW, "resumed", "a", {"by": "x" * (NOTIFY_BYTES - empty + 1)})
    assert json.loads(heard(postgres, longer))["cut"] is True
    with pytest.raises(AssertionError, match="payload string too long"):
        postgres.run(f"SELECT pg_notify('{CHANNEL}', repeat('x', {NOTIFY_BYTES + 1}));")
