"""Rounds: what becomes of the others when a table is wrong, gone or in other hands. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshlake.catalog import StreamTable
from freshlake.catalog.enums import Status
from freshlake.refresh import recover
from freshlake.refresh.result import RefreshResult
from tests.unit.catalog_cases import added, committed, frontier, reads, reads_stream_table
from tests.unit.lake_cases import START, Lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """`good` and `bad` are a group; `bad` reads `above` as well, which is outside it."""
    monkeypatch.setattr(recover, "adopt", lambda engine, table, lease: table)
    opened = Lake(tmp_path)
    above = added(opened.catalog, "above", schedule="1s")
    opened.catalog.replace_dependencies(above.id, reads("calm"))
    opened.loaded(above, frontier(calm=1))
    bad = opened.table("bad")
    opened.catalog.replace_dependencies(bad.id, [*reads("wild"), reads_stream_table(above)])
    opened.catalog.insert_group("pair", [opened.table("good").id, bad.id])
    yield opened
    opened.catalog.close()


def ahead(lake: Lake, name: str) -> StreamTable:
    """A table that was committed once more and is not published yet."""
    table = lake.table(name)
    at = dict(table.frontier or {})
    return committed(lake.catalog, table, table.version + 1, START, generation=1, frontier=at, publish=False)


def is_shown(lake: Lake, name: str) -> bool:
    return lake.table(name).is_published


def quarantined(lake: Lake, name: str) -> None:
    lake.catalog.update(lake.table(name).id, quarantined_at=lake.clock.now())


def by_name(results: list[RefreshResult]) -> dict[str, RefreshResult]:
    return {result.table.removeprefix("default."): result for result in results}


@pytest.mark.parametrize("wrong", ["above", "bad"])
def test_a_group_is_not_published_without_a_member_that_waits_for_a_quarantine(lake: Lake, wrong: str) -> None:
    ahead(lake, "good")
    quarantined(lake, wrong)
    told = lake.rounds.refresh(lake.table("good"), None).detail
    assert not is_shown(lake, "good")
    assert told is not None
    assert f"{wrong}, which is in QUARANTINED" in told
    lake.rounds.refresh_all()
    lake.ticked()
    assert not is_shown(lake, "good")


@pytest.mark.parametrize("wrong", ["above", "bad"])
def test_nor_when_the_quarantine_begins_between_a_tick_and_its_work(lake: Lake, wrong: str) -> None:
    ahead(lake, "good")
    tables = [lake.table("good"), lake.table("bad")]
    quarantined(lake, wrong)
    outcome = lake.rounds.run(tables, lake.rounds.begin(()), publishes=True)
    assert not outcome.published
    assert not is_shown(lake, "good")


def test_a_member_that_waits_for_what_a_person_suspended_is_left_out(lake: Lake) -> None:
    ahead(lake, "good")
    quarantined(lake, "above")
    lake.catalog.update(lake.table("above").id, status=Status.SUSPENDED)
    lake.rounds.refresh(lake.table("good"), None)
    assert is_shown(lake, "good")
