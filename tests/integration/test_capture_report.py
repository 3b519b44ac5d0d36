"""What is told about captured tables: from one look at the catalog and one at each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog.enums import CdcMode
from freshlake.config import Settings
from freshlake.errors import SourceUnreachable
from freshlake.refresh.engine import Engine
from freshlake.service.capture_report import CaptureReport
from freshlake.service.captures import Captures
from freshlake.service.database_findings import capture_findings
from freshlake.service.transitions import Transitions
from freshlake.sources.postgres.capture import Mode
from tests.integration.capture_database import Database
from tests.integration.capture_shop import Shop, opened


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Iterator[Shop]:
    database.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    with opened(database, tmp_path, ("public.t", "public.u")) as made:
        yield made


@pytest.fixture
def report(shop: Shop) -> CaptureReport:
    engine = SimpleNamespace(catalog=shop.catalog, settings=Settings())
    return CaptureReport(cast(Captures, SimpleNamespace(engine=engine, database=lambda name: shop.shop)))


@pytest.fixture
def looks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every look at the database, and at the modes in the catalog."""
    seen: list[str] = []
    take, captured = shop.shop.pool.take, shop.catalog.captured_tables

    def taken(*given: Any) -> AbstractContextManager[Any]:
        seen.append("database")
        return take(*given)

    def read(*given: Any) -> Any:
        seen.append("modes")
        return captured(*given)

    monkeypatch.setattr(shop.shop.pool, "take", taken)
    monkeypatch.setattr(shop.catalog, "captured_tables", read)
    return seen


def by_log(shop: Shop) -> None:
    state = replace(shop.shop.state(), mode=Mode.WAL)
    shop.catalog.put_capture("shop", state.to_json(), state.word)


@pytest.mark.parametrize("begin", [lambda shop: None, by_log], ids=["triggers", "log"])
def test_findings_are_those_of_tables_and_slots_and_take_one_look(
    shop: Shop, report: CaptureReport, looks: list[str], begin: Callable[[Shop], None]
) -> None:
    begin(shop)
    shop.database.run("ALTER TABLE u DROP COLUMN id")
    apart = (report.health(), report.slots())
    looks.clear()
    assert report.examined() == (*apart, {})
    assert looks.count("database") == 1
    assert {line.source_table for line in apart[0] if line.alert} >= {"public.u"}
    looks.clear()
    told = [(finding.code, finding.name) for finding in capture_findings(report)]
    assert looks.count("database") == 1
    tables = [(line.alert, f"shop.{line.source_table}") for line in apart[0] if line.alert]
    assert told == [*tables, *((slot.alert, "shop") for slot in apart[1] if slot.alert)]


def test_a_database_that_does_not_answer_is_asked_once(
    shop: Shop, report: CaptureReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_log(shop)
    asked: list[int] = []

    def silent(*_: Any) -> None:
        asked.append(1)
        raise SourceUnreachable("the source database did not answer")

    monkeypatch.setattr(shop.shop.pool, "take", silent)
    health, slots, published = report.examined()
    assert published == {}
    assert len(asked) == 1
    assert {line.alert for line in (*health, *slots)} == {SourceUnreachable.code}
    assert (health, slots) == (report.health(), report.slots())


def test_who_publishes_all_tables_hears_of_the_buffers(shop: Shop, report: CaptureReport) -> None:
    shop.database.run("CREATE PUBLICATION one FOR TABLE t")
    assert list(capture_findings(report)) == []
    shop.database.run("CREATE PUBLICATION everything FOR ALL TABLES")
    (found,) = capture_findings(report)
    assert (found.code, found.name) == ("buffers-published", "shop")
    assert "publication everything has all tables" in found.message


def test_modes_come_with_the_tables(shop: Shop, report: CaptureReport, looks: list[str]) -> None:
    by_log(shop)
    looks.clear()
    assert {line.cdc_mode for line in report.buffers()} == {"wal"}
    assert looks.count("modes") == 1


@pytest.mark.parametrize(("asked", "moves"), [([], []), ([CdcMode.WAL], [Mode.WAL])])
def test_what_stream_tables_ask_for_is_read_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, asked: list[CdcMode], moves: list[Mode]
) -> None:
    """A source that says trigger is moved only where a stream table asks for it."""
    read: list[str] = []
    moved: list[Mode] = []

    def modes(name: str) -> list[tuple[str, CdcMode]]:
        read.append(name)
        return [("revenue", mode) for mode in asked]

    monkeypatch.setattr(shop.catalog, "asked_modes", modes)
    shop.catalog.update_database("shop", cdc_mode="trigger")
    captures = SimpleNamespace(database=lambda name: shop.shop)
    engine = SimpleNamespace(catalog=shop.catalog, settings=Settings())
    transitions = Transitions(cast(Engine, engine), cast(Captures, captures), cast(Any, None))
    monkeypatch.setattr(transitions, "move", lambda name, mode: moved.append(mode))
    transitions.consider(shop.catalog._clock.now())
    assert (read, moved) == (["shop"], moves)
