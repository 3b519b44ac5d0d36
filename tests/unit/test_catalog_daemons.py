"""The registry of daemons: who is awake, who is gone, and who is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from freshlake.catalog import Catalog
from freshlake.clock import ManualClock
from tests.unit.test_catalog_refreshes import dead_owner


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def two(tmp_path: Path, catalog_url: str, clock: ManualClock) -> Iterator[tuple[Catalog, Catalog]]:
    """The catalogs of two daemons on machines that know nothing of each other's processes."""
    opened = [Catalog.open(tmp_path, url=catalog_url, clock=clock, owner=name) for name in ("first", "second")]
    yield opened[0], opened[1]
    for catalog in opened:
        catalog.close()


def names(catalog: Catalog) -> list[str]:
    return [daemon.owner for daemon in catalog.daemons()]


def test_a_daemon_is_alive_until_it_ends_or_is_silent(two: tuple[Catalog, Catalog], clock: ManualClock) -> None:
    first, second = two
    first.register_daemon(1000, 4)
    clock.advance(40)
    second.register_daemon(1000, 4)
    assert [d.owner for d in first.live_daemons(60)] == ["second", "first"]
    clock.advance(20)
    assert [d.owner for d in first.live_daemons(60)] == ["second"]
    assert first.beat_daemon(clock.now())
    second.end_daemon()
    (alive,) = second.live_daemons(60)
    assert (alive.owner, alive.last_tick_at) == ("first", clock.now())


def test_one_that_is_gone_is_forgotten_and_told_once(two: tuple[Catalog, Catalog], clock: ManualClock) -> None:
    first, second = two
    for catalog in two:
        catalog.register_daemon(1000, 4)
    clock.advance(61)
    second.beat_daemon(clock.now())
    assert first.forget_gone_daemons(60) == (), "nobody takes over from itself"
    (gone,) = second.forget_gone_daemons(60)
    assert gone.owner == "first"
    assert second.forget_gone_daemons(60) == ()
    assert names(second) == ["second"]


def test_one_that_wakes_up_again_learns_that_it_was_forgotten(two: tuple[Catalog, Catalog], clock: ManualClock) -> None:
    first, second = two
    first.register_daemon(1000, 4)
    clock.advance(61)
    assert second.forget_gone_daemons(60)
    assert not first.beat_daemon(clock.now())
    first.register_daemon(1000, 4)
    assert first.beat_daemon(clock.now())
    assert second.forget_gone_daemons(60) == ()


def test_one_that_ended_by_itself_left_nothing_to_take_over(two: tuple[Catalog, Catalog], clock: ManualClock) -> None:
    first, second = two
    first.register_daemon(1000, 4)
    first.end_daemon()
    clock.advance(61)
    assert second.forget_gone_daemons(60) == ()
    assert second.live_daemons(60) == ()


def test_a_dead_process_of_this_machine_is_gone_at_once(tmp_path: Path) -> None:
    dead = Catalog.open(tmp_path, owner=dead_owner())
    dead.register_daemon(1000, 4)
    with_me = Catalog.open(tmp_path)
    assert with_me.live_daemons(60) == ()
    assert [d.owner for d in with_me.forget_gone_daemons(60)] == [dead.owner]
    assert with_me.daemons() == ()
    for catalog in (dead, with_me):
        catalog.close()
