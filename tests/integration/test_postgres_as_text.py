"""Columns that are taken as text: what is no column is refused before anything changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.errors import FreshlakeError, InvalidName, TableNotFound, UnsupportedType
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.service.sources import Sources
from tests.integration.capture_database import Database
from tests.integration.capture_shop import Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run('CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE "T.u" (id int PRIMARY KEY, "a.b" int)')
    database.run("CREATE TABLE p (v text) PARTITION BY LIST (v); CREATE TABLE p1 PARTITION OF p FOR VALUES IN ('a')")
    with opened(database, tmp_path, ("public.t",)) as made:
        yield made


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (["public.t.v", "public.s.v"], TableNotFound),
        (["public.t.w"], UnsupportedType),
        (["public.t"], InvalidName),
        (["public.t.v", "public.T.u.a.b", "public.p1.v"], None),
    ],
)
def test_what_is_no_column_changes_nothing(
    shop: Shop, tmp_path: Path, columns: list[str], error: type[FreshlakeError] | None
) -> None:
    engine = SimpleNamespace(catalog=shop.catalog, spark=None, layout=SimpleNamespace(staging=tmp_path / "staging"))
    captures, moved = Captures(cast(Engine, engine), cast(Any, None)), []
    transitions = SimpleNamespace(move=lambda name, mode: moved.append(str(mode)))
    sources = Sources(captures, cast(Any, None), cast(Any, transitions), cast(Any, None))
    if error is None:
        assert sources.alter("shop", "wal", columns).cdc_mode == "wal"
    else:
        with pytest.raises(error):
            sources.alter("shop", "wal", columns)
    after = shop.catalog.database("shop")
    assert (after.as_text, moved) == ((tuple(columns), ["wal"]) if error is None else ((), []))
    captures.close()
