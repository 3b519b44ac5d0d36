"""Dropping everything: readers before what they read, then databases, then groups; a double drops the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from freshlake.catalog import Catalog
from freshlake.catalog.enums import CdcMode
from freshlake.catalog.names import TableName
from freshlake.service.sources import Sources
from tests.unit.catalog_cases import added, reads, reads_stream_table


@dataclass
class Double:
    """Tables and captures, which remember what was dropped."""

    engine: Any
    dropped: list[str] = field(default_factory=list)

    def drop(self, name: TableName, if_exists: bool, cascade: bool) -> None:
        assert (if_exists, cascade) == (True, True)
        self.dropped.append(str(name))
        self.engine.catalog.delete(self.engine.catalog.get(name).id)

    def forget(self, database: str) -> None:
        self.dropped.append(database)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def test_readers_go_before_what_they_read_then_databases_and_groups(catalog: Catalog) -> None:
    low, high = added(catalog, "low"), added(catalog, "a.high")
    catalog.replace_dependencies(low.id, reads("orders"))
    catalog.replace_dependencies(high.id, [reads_stream_table(low)])
    catalog.insert_group("both", [low.id, high.id])
    catalog.insert_database("shop", "env:SHOP", cdc_mode=CdcMode.AUTO)
    double = Double(SimpleNamespace(catalog=catalog))
    sources = Sources(double, double, None, None)  # type: ignore[arg-type]
    assert sorted(sources.drop_all()) == ["a.high", "low"]
    assert double.dropped == ["a.high", "default.low", "shop"]
    assert catalog.groups() == ()
