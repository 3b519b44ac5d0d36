"""Two sources may lead to one database: what is delivered under one name is not read under the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog.names import TableName
from freshlake.errors import CaptureUnsupported, DeliveryUnsupported
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.deliveries import Deliveries
from tests.integration.capture_database import Database
from tests.integration.capture_shop import Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    monkeypatch.setenv("AGAIN", database.server.url(database.name))
    monkeypatch.setenv("AWAY", "postgresql://nobody@127.0.0.1:1/none")
    with opened(database, tmp_path, ("public.t",)) as made:
        for name in ("again", "away"):
            made.catalog.insert_database(name, f"env:{name.upper()}")
        yield made


@pytest.fixture
def captures(shop: Shop, tmp_path: Path) -> Iterator[Captures]:
    engine = SimpleNamespace(catalog=shop.catalog, spark=None, layout=SimpleNamespace(staging=tmp_path / "staging"))
    made = Captures(cast(Engine, engine), cast(Any, None))
    yield made
    made.close()


def test_what_is_delivered_under_one_name_is_not_read_under_another(shop: Shop, captures: Captures) -> None:
    mirror, again = shop.mirrors["t"].id, captures.database("again")
    shop.catalog.insert_delivery(mirror, "away", "public.u")
    assert captures.describe(again, TableName.parse("again.public.u")).names == ("id",)
    shop.catalog.insert_delivery(mirror, "shop", "public.u")
    with pytest.raises(CaptureUnsupported):
        captures.describe(again, TableName.parse("again.public.u"))


def test_what_is_read_under_one_name_is_not_delivered_into_under_another(shop: Shop, captures: Captures) -> None:
    deliveries = Deliveries(captures.engine, captures, cast(Any, None))
    for database, target in (("away", "public.t"), ("again", "public.u")):
        deliveries._check_uncaptured(database, target)
    with pytest.raises(DeliveryUnsupported):
        deliveries._check_uncaptured("again", "public.t")
