"""A scheduler whose sources fail: what is left in the catalog, who waits, and who goes on all the same. No Spark."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.catalog import Catalog, Dependency, Lease, SourceType, StreamTable
from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.records import database_key
from freshlake.errors import CatalogUnavailable, SourceUnreachable, SourceUnreadable, StorageMissing
from freshlake.refresh import recover
from freshlake.schedule.state import Tick
from freshlake.service.captures import Captures
from freshlake.service.transitions import Transitions
from freshlake.sources.protocol import Position, Source
from tests.unit.catalog_cases import added
from tests.unit.lake_cases import START, Lake, Plain

UNFORESEEN = [SourceUnreadable("no"), OSError(errno.ESTALE, "Stale file handle"), ValueError("not foreseen")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    opened = Lake(tmp_path)
    yield opened
    opened.catalog.close()


def refreshed(tick: Tick) -> set[str]:
    return {name.removeprefix("default.") for unit in tick.units for name in unit.tables}


@pytest.mark.parametrize("error", UNFORESEEN)
def test_a_source_that_fails_stops_nobody_else(lake: Lake, error: Exception) -> None:
    lake.sources["wild"].error = error
    assert refreshed(lake.ticked()) == {"good", "bad"}
    assert lake.table("good").data_timestamp == lake.clock.now()
    assert lake.table("bad").data_timestamp == START
    results = {r.table: str(r.action) for r in lake.rounds.refresh_all()}
    assert results == {"default.good": "NO_DATA", "default.bad": "SKIPPED"}


def test_a_daemon_is_heard_of_before_it_looks_at_sources(lake: Lake) -> None:
    lake.catalog.register_daemon(1_000, 1)
    heard: list[bool] = []

    def look() -> Position:
        heard.append(lake.catalog.daemons()[0].heartbeat_at == lake.clock.now())
        return Position("calm", 1, "f")

    lake.sources["calm"].head = look  # type: ignore[method-assign]
    lake.ticked()
    assert heard
    assert all(heard)


def test_a_source_that_cannot_be_read_is_a_failure_like_any_other(lake: Lake) -> None:
    wild = lake.sources["wild"]
    wild.error = SourceUnreadable("it may not be read")
    lake.ticked()
    table = lake.table("bad")
    assert (table.consecutive_errors, table.retries, lake.failures("bad")) == (1, 0, ["source-unreadable"])
    assert lake.alerts() == ["refresh_failed"]
    looked_at = wild.looked_at
    for _ in range(3):
        assert refreshed(lake.ticked()) == {"good"}, "a person needs time to correct it"
    assert wild.looked_at == looked_at
    lake.ticked(76)
    assert str(lake.table("bad").status) == "ERROR"
    assert lake.alerts() == ["refresh_failed", "refresh_failed", "auto_suspended"]
    assert refreshed(lake.ticked(3_600)) == {"good"}


def test_a_source_that_does_not_answer_is_tried_again_sooner(lake: Lake) -> None:
    lake.sources["wild"].error = OSError(errno.ESTALE, "Stale file handle")
    lake.ticked()
    table = lake.table("bad")
    assert (table.consecutive_errors, table.retries, lake.failures("bad")) == (0, 1, ["refresh-failed"])
    assert table.retry_at is not None
    assert (table.retry_at - lake.clock.now()).total_seconds() < 2
    lake.sources["wild"].error = None
    lake.ticked()
    assert lake.table("bad").retries == 0
    assert lake.table("bad").data_timestamp == lake.clock.now()
    assert lake.alerts() == []


def test_a_table_in_other_hands_has_not_failed(lake: Lake) -> None:
    lake.sources["wild"].error = SourceUnreadable("it may not be read")
    lease = lake.catalog.acquire_lease(lake.table("bad").id, 600)
    with pytest.raises(SourceUnreadable):
        lake.rounds.refresh(lake.table("bad"), None)
    assert lake.failures("bad") == []
    lake.catalog.release_lease(lease)


def test_storage_that_is_gone_is_a_failure_like_any_other(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> StreamTable:
        raise StorageMissing("there is no table")

    monkeypatch.setattr(recover, "adopt", gone)
    lake.sources["wild"].version = 2
    lake.ticked()
    table = lake.table("bad")
    assert (table.consecutive_errors, lake.failures("bad"), lake.alerts()) == (
        1,
        ["storage-missing"],
        ["refresh_failed"],
    )
    assert refreshed(lake.ticked()) == {"good"}


def test_what_nobody_could_note_is_not_tried_again_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sources["wild"].version = 2
    lake.scheduler._wake.clear()

    def silent(*_: Any, **__: Any) -> None:
        raise CatalogUnavailable("the catalog does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "acquire_lease", silent)
        assert "bad" in refreshed(lake.ticked())
        assert not lake.scheduler._wake.is_set(), "the next tick comes in its time"
        assert "bad" not in refreshed(lake.ticked(0.9))
        assert "bad" in refreshed(lake.ticked(0.2))
        assert "bad" not in refreshed(lake.ticked(1.9)), "and longer each time"
        assert lake.failures("bad") == []
        patched.setattr(lake.rounds, "run", lambda *_, **__: 1 / 0)
        assert "bad" in refreshed(lake.ticked(0.2))
        assert "bad" not in refreshed(lake.ticked(3.9))
    lake.sources["wild"].version = 1
    assert "bad" in refreshed(lake.ticked(0.2))
    assert lake.table("bad").data_timestamp == lake.clock.now()


def test_a_takeover_that_fails_is_a_failed_refresh(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    dead = lake.catalog.acquire_lease(lake.table("bad").id, 10)
    lake.clock.advance(11)
    monkeypatch.setattr("freshlake.refresh.leasing._fence", full)
    lake.ticked()
    assert lake.failures("bad") == ["refresh-failed"]
    assert lake.table("bad").retries == 1
    assert dead.epoch < cast(Lease, lake.catalog.lease(dead.stream_table_id)).epoch, "and it is not given back"


def test_a_database_that_does_not_answer_is_waited_for_once_in_a_tick_and_then_where_it_is_needed(lake: Lake) -> None:
    shop, catalog, key = Plain("shop"), lake.catalog, database_key("shop")
    mirror = added(catalog, "shop.public.orders", schedule="1s", definition_kind=DefinitionKind.CAPTURE)
    catalog.replace_dependencies(mirror.id, [Dependency(key, SourceType.POSTGRES, "shop", "1")])
    at = {"sources": {key: Position("shop", 1, "f").to_json()}}
    lake.loaded(mirror, at)
    lake.engine.captured = lambda edge: cast(Source, shop)
    nothing = SimpleNamespace(forget=lambda: None)
    database = {"attainable": lambda end: end, "mirrored": list, "gaps": dict, "lost": dict, "key": key}
    database |= {"land": lambda end: None, "release": lambda: None}
    found = SimpleNamespace(**database, batches=nothing, head=shop.head)
    lake.rounds.landing.captures = cast(Captures, SimpleNamespace(database=lambda name: found))
    lake.rounds.landing.transitions = cast(Transitions, SimpleNamespace(settle=lambda name: None))

    def looks() -> tuple[int, int]:
        """In the tick, and where the mirror is refreshed."""
        before, asked = shop.looked_at, []
        work = lake.scheduler._batches._work
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lake.scheduler._batches, "_work", lambda *a: (asked.append(shop.looked_at), work(*a))[1])
            lake.ticked(76)
        begun = asked[0] if asked else shop.looked_at
        return begun - before, shop.looked_at - begun

    assert looks() == (1, 0), "as it is due; changes that wait are not counted in a tick"
    shop.error = SourceUnreachable("no answer")
    assert looks() == (1, 0)
    assert looks() == (0, 1)
    assert lake.failures("shop.public.orders") == ["source-unreachable"] * 2
    assert lake.table("good").data_timestamp == lake.clock.now()
    shop.error = None
    assert looks() == (0, 1)
    assert lake.table("shop.public.orders").data_timestamp == lake.clock.now()
    assert looks() == (1, 0)
