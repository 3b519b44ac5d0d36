"""A table that was altered is captured anew in the round that copies it, also where its log cannot serve it now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.errors import CaptureBusy, FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.landing import Landing
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.tables import capture_some
from tests.integration.capture_database import Database
from tests.integration.capture_shop import Shop, opened


def captured_by(shop: Shop, mode: Mode) -> None:
    state = replace(shop.shop.state(), mode=mode)
    shop.catalog.put_capture("shop", state.to_json(), state.word)


def test_a_table_that_lost_its_key_and_a_column_goes_to_triggers_at_once(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with opened(database, tmp_path, ("public.t",)) as shop:
        engine = SimpleNamespace(catalog=shop.catalog, spark=None, layout=SimpleNamespace(staging=tmp_path / "staging"))
        captures = Captures(cast(Engine, engine), cast(Any, None))
        captures.mirrors = cast(Any, SimpleNamespace(fits=lambda *_: True))

        def leave_log(name: str, why: FreshlakeError, first: Callable[[], None]) -> bool:
            first()
            captured_by(shop, Mode.TRIGGER)
            return True

        captures.leave_log = leave_log
        captured_by(shop, Mode.WAL)
        database.run("ALTER TABLE t DROP CONSTRAINT t_pkey, DROP COLUMN v")
        (mine,) = shop.shop.mirrored()
        Landing(cast(Engine, engine), captures, cast(Any, None))._renew(shop.shop, mine)
        assert shop.captured["t"].names == ("id",)
        captures.close()


def test_what_others_asked_for_meanwhile_is_not_forgotten(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text, w text)")
    with opened(database, tmp_path, ("public.t",)) as shop:
        table, mirror = shop.captured["t"].table, shop.mirrors["t"]
        with pytest.raises(CaptureBusy):
            shop.shop.amend(mirror, capture_some(table, ["id"]), capture_some(table, ["v"]))
        assert shop.captured["t"].names == ("id", "v", "w")
