"""Rounds: what becomes of the others when a table is wrong, gone or in other hands. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog, StreamTable
from freshlake.catalog.enums import Action, Status
from freshlake.errors import CatalogUnavailable, NotFound, StreamTableQuarantined
from freshlake.refresh import recover
from freshlake.refresh.result import RefreshResult
from freshlake.service.grouping import Grouping
from freshlake.service.names import Names
from freshlake.sources.stream_table import position_of
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
    above = opened.table("above")
    stands = {"sources": frontier(wild=1)["sources"] | {above.source_key: position_of(above, 1, 1).to_json()}}
    committed(opened.catalog, bad, 1, START, generation=1, frontier=stands)
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


def test_a_table_that_is_dropped_when_its_refresh_gives_it_back_fails_alone(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh = lake.rounds.announcer.refresh

    def dropped(table: StreamTable, *terms: Any) -> RefreshResult:
        result = refresh(table, *terms)
        if table.name != "lone":
            return result
        lake.catalog.delete(table.id)
        return replace(result, action=Action.DIFFERENTIAL)

    lone = added(lake.catalog, "lone", schedule="1s")
    lake.catalog.replace_dependencies(lone.id, reads("calm"))
    lake.loaded(lone, frontier(calm=1))
    monkeypatch.setattr(lake.rounds.announcer, "refresh", dropped)
    results = by_name(lake.rounds.refresh_all())
    assert results["lone"].reason == NotFound.code
    assert str(results["good"].action) == "NO_DATA"


def test_members_that_were_published_are_shown_though_one_is_dropped_right_after(lake: Lake) -> None:
    shown: list[str] = []
    lake.rounds.published = lambda table: shown.append(table.name)
    lake.rounds.fold = lambda table: None  # type: ignore[method-assign]
    for name in ("good", "bad"):
        ahead(lake, name)

    def drop(step: str) -> None:
        if step == "published":
            lake.catalog.delete(lake.table("bad").id)

    lake.engine.observer = drop
    assert lake.rounds.refresh(lake.table("good"), None).table == "default.good"
    assert shown == ["good"]


def dropped(lake: Lake) -> None:
    lake.catalog.delete(lake.table("bad").id)


@pytest.mark.parametrize(
    ("happens", "error"),
    [(dropped, NotFound), (lambda lake: quarantined(lake, "bad"), StreamTableQuarantined)],
)
def test_a_table_that_is_stopped_or_gone_when_its_turn_comes_is_refused_by_name(
    lake: Lake, happens: Callable[[Lake], None], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, known = lake.table("bad"), lake.rounds.known()

    def slow() -> Grouping:
        happens(lake)
        return known

    monkeypatch.setattr(lake.rounds, "known", slow)
    with pytest.raises(error, match="bad"):
        lake.rounds.refresh(table, None)


def test_so_is_one_that_was_dropped_before_the_graph_is_read(lake: Lake) -> None:
    table = lake.table("bad")
    dropped(lake)
    with pytest.raises(NotFound):
        lake.rounds.refresh(table, None)


@pytest.mark.parametrize("status", [Status.SUSPENDED, Status.ERROR])
def test_plain_spark_sees_no_unpublished_rebuild_that_a_refresh_had_to_see(
    lake: Lake, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mate that rests, where the group is published without it or waits for it, and what is read from outside."""
    shown: list[str] = []
    lake.rounds.names = cast(Names, SimpleNamespace(show=lambda table: shown.append(table.name)))
    lake.rounds.fold = lambda table: None  # type: ignore[method-assign]
    refresh = lake.rounds.announcer.refresh
    monkeypatch.setattr(
        lake.rounds.announcer, "refresh", lambda *given: replace(refresh(*given), action=Action.DIFFERENTIAL)
    )
    for name in ("above", "good"):
        rebuilt = {"generation": 2, "publish": False, "action": Action.REINITIALIZE}
        committed(lake.catalog, lake.table(name), 1, START, frontier=lake.table(name).frontier, **rebuilt)
        lake.catalog.update(lake.table(name).id, status=status)
    lake.rounds.run([lake.table("bad")], lake.rounds.begin(()), beside=["default.good"])
    assert {"above", "good"} <= set(shown)


def test_what_could_not_be_published_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any) -> None:
        raise CatalogUnavailable("the catalog does not answer")

    ahead(lake, "good")
    monkeypatch.setattr(Catalog, "publish", silent)
    results = by_name(lake.rounds.refresh_all())
    for name in ("good", "bad"):
        assert results[name].detail == "not published: the catalog does not answer"
        assert (results[name].error or {})["code"] == CatalogUnavailable.code
    monkeypatch.undo()
    monkeypatch.setattr(recover, "adopt", lambda engine, table, lease: table)
    monkeypatch.setattr(lake.rounds.pinning, "torn", lambda *_: "calm is at 1 and at 2")
    results = by_name(lake.rounds.refresh_all())
    for name in ("good", "bad"):
        assert "not published: what bad, good read was refreshed by others" in (results[name].detail or "")
        assert results[name].error is None


def test_mirrors_that_do_not_stand_at_one_position_yet_say_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.rounds, "_in_one_state", lambda tables: False)
    assert "not published: " in (by_name(lake.rounds.refresh_all())["good"].detail or "")
