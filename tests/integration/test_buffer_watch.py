"""Changes that pile up in the buffers of a database are counted there, and told once until they are landed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.alerts import Alerts
from freshlake.clock import ManualClock
from freshlake.service import buffer_watch
from freshlake.service.buffer_watch import BufferWatch
from freshlake.service.captures import Captures
from tests.integration.capture_database import Database
from tests.integration.capture_shop import NOW, Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int, a text); CREATE TABLE u (id int)")
    with opened(database, tmp_path / "lake", ("public.t", "public.u")) as made:
        yield made


def told(shop: Shop) -> list[Any]:
    return [(alert.event, alert.stream_table, alert.payload) for alert in reversed(shop.catalog.alerts())]


def test_a_long_buffer_is_told_once_until_it_has_ended(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_watch, "MOST_PENDING", 200)
    captures = SimpleNamespace(database=lambda name: shop.shop, engine=SimpleNamespace(catalog=shop.catalog))
    watch = BufferWatch(cast(Captures, captures), Alerts(shop.catalog, ManualClock(NOW)))
    monkeypatch.setattr(shop.shop.batches, "_read", None)
    insert = "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 200) i; INSERT INTO u VALUES (1)"
    shop.database.run(insert)
    watch.consider()
    assert told(shop) == [], "as many as may wait"
    shop.database.run(insert)
    alert = ("buffer_growth_warning", "shop.public.t", {"source": "shop", "pending_rows": 400, "limit": 200})
    for _ in range(2):
        watch.consider()
        assert told(shop) == [alert]
    end = shop.shop.head()
    for name in shop.mirrors:
        shop.moves(name, end)
    shop.shop.release()
    watch.consider()
    shop.database.run(f"{insert}; {insert}")
    watch.consider()
    assert told(shop) == [alert, alert], "it had ended"
