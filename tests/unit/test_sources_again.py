"""A source that another process drops and adds again is another one, also for who has read it before."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog
from freshlake.clock import ManualClock
from freshlake.errors import NotFound
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures


@pytest.mark.parametrize("again", ["env:SHOP", "env:ELSEWHERE"])
def test_a_source_that_was_added_again_is_opened_again(tmp_path: Path, again: str) -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    catalog = Catalog.open(tmp_path, clock=clock)
    engine = SimpleNamespace(catalog=catalog, spark=None, layout=SimpleNamespace(staging=tmp_path / "staging"))
    captures = Captures(cast(Engine, engine), cast(Any, None))
    catalog.insert_database("shop", "env:SHOP")
    before = captures.database("shop")
    assert captures.database("shop") is before
    catalog.delete_database("shop")
    with pytest.raises(NotFound):
        captures.database("shop")
    clock.advance(1)
    catalog.insert_database("shop", again)
    after = captures.database("shop")
    assert (after is not before, str(after.pool.reference)) == (True, again)
    captures.close()
    catalog.close()
