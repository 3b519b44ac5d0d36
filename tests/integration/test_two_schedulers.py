"""Two schedulers on one lake: what is published together is of one moment, whoever dies or comes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import freshlake
from freshlake.clock import ManualClock
from freshlake.errors import RefreshInProgress, SystemFailure
from freshlake.service.rounds import Round

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = {"differential_max_change_ratio": 0, "min_schedule_seconds": 5, "max_consecutive_errors": 100}
GROUP = ("buyers", "ids")


class Died(BaseException):
    """A process that ended here."""


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(scope="module")
def two(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, clock: ManualClock
) -> Iterator[tuple[freshlake.Freshlake, freshlake.Freshlake]]:
    """A group over orders: one member reads it through `named`, which is outside, and one directly."""
    folder = tmp_path_factory.mktemp("two")
    fl = freshlake.connect(folder, settings=SETTINGS, clock=clock)
    fl.sql("CREATE TABLE orders (id INT, name STRING) USING delta")
    fl.sql("INSERT INTO orders VALUES (1, 'a')")
    fl.create_stream_table("named", "SELECT id, upper(name) AS name FROM orders", schedule="1h")
    fl.create_stream_table("buyers", "SELECT name, count(*) AS n FROM named GROUP BY name", schedule="1h")
    fl.create_stream_table("ids", "SELECT count(id) AS n FROM orders", schedule="1h")
    fl.create_refresh_group("people", GROUP)
    other = freshlake.connect(folder, settings={**SETTINGS, "immediate_wait_seconds": 0}, clock=clock)
    yield fl, other
    fl.close()
    other.close()


def order(fl: freshlake.Freshlake) -> int:
    """One more order; how many there are then."""
    count = fl.spark.table("orders").count() + 1
    fl.sql(f"INSERT INTO orders VALUES ({count}, 'a')")
    return count


def seen(fl: freshlake.Freshlake) -> tuple[int, ...]:
    """How many orders readers see in each member of the group."""
    return tuple(fl.table(name).first()["n"] for name in GROUP)  # type: ignore[index]


def moment(fl: freshlake.Freshlake) -> Round:
    edges = fl._engine.catalog.all_dependencies().values()
    return fl._rounds.begin(edge for of_one in edges for edge in of_one)


def run(fl: freshlake.Freshlake, at: Round, *names: str) -> Any:
    return fl._rounds.run([fl._engine.catalog.get(name) for name in names], at)


@contextmanager
def observed(fl: freshlake.Freshlake, look: Callable[[str], None]) -> Iterator[None]:
    fl._engine.observer = look
    try:
        yield
    finally:
        fl._engine.observer = None


Two = tuple[freshlake.Freshlake, freshlake.Freshlake]


def test_a_group_reads_an_upstream_that_others_bring_further_at_one_place(two: Two) -> None:
    fl, other = two
    count = order(fl)
    at = moment(fl)
    run(fl, at, "named")
    later = order(other)
    run(other, moment(other), "named")
    assert run(fl, at, *GROUP).published
    assert seen(fl) == (later, later), f"both as named has it, not one at {count}"


def test_an_upstream_that_moves_in_between_is_read_where_it_was(two: Two) -> None:
    fl, other = two
    count = order(fl)
    at = moment(fl)
    run(fl, at, "named")
    moved: list[int] = []

    def move(step: str) -> None:
        if step == "triage" and not moved:
            moved.append(order(other))
            run(other, moment(other), "named")

    with observed(fl, move):
        assert run(fl, at, "ids", "buyers").published
    assert moved
    assert seen(fl) == (count, count)
    run(fl, moment(fl), *GROUP)
    assert seen(fl) == (moved[0], moved[0])


def test_members_are_in_one_pair_of_hands_until_they_are_published(two: Two) -> None:
    fl, other = two
    count = order(fl)
    at = moment(fl)
    run(fl, at, "named")
    refused: list[str] = []

    def interfere(step: str) -> None:
        if step in ("committed", "publish"):
            for name in GROUP:
                with pytest.raises(RefreshInProgress):
                    other.refresh(name)
                refused.append(name)

    with observed(fl, interfere):
        assert run(fl, at, *GROUP).published
    assert len(refused) == 6
    assert seen(fl) == (count, count)


def test_a_round_does_not_leave_members_behind_one_that_a_dead_process_brought_further(two: Two) -> None:
    fl, other = two
    order(fl)
    before, at = seen(fl), moment(fl)
    run(fl, at, "named")
    count = order(other)
    later = moment(other)
    run(other, later, "named")

    def die(step: str) -> None:
        if step == "committed":
            raise Died

    with observed(other, die), pytest.raises(Died):
        run(other, later, *GROUP)
    assert seen(fl) == before, "committed, not published"
    assert run(fl, at, *GROUP).published
    assert seen(fl) == (count, count)


def test_what_a_dead_process_committed_is_published_soon_however_long_the_schedule(
    two: Two, clock: ManualClock
) -> None:
    fl, other = two
    count = order(other)
    at = moment(other)
    run(other, at, "named")

    def die(step: str) -> None:
        if step == "publish":
            raise Died

    with observed(other, die), pytest.raises(Died):
        run(other, at, *GROUP)
    assert fl._scheduler.tick().units == ()
    clock.advance(6)
    assert {name for unit in fl._scheduler.tick().units for name in unit.tables} >= {"default.buyers", "default.ids"}
    assert seen(fl) == (count, count)


def test_a_group_of_which_a_part_cannot_go_on_is_not_published(two: Two, clock: ManualClock) -> None:
    """named fails, so buyers is not refreshed: ids is, and readers do not see that yet."""
    fl, _ = two
    before, count = seen(fl), order(fl)
    clock.advance(3_700)

    def fail(step: str) -> None:
        if step == "compute" and fl._engine.catalog.get("named").retries == 0:
            raise SystemFailure("the disk is full")

    with observed(fl, fail):
        fl._scheduler.tick()
    assert fl._engine.catalog.get("named").retries == 1
    assert fl._engine.catalog.get("ids").version > fl._engine.catalog.get("ids").published_version
    assert seen(fl) == before
    clock.advance(3_700)
    fl._scheduler.tick()
    assert seen(fl) == (count, count)


def test_what_the_other_scheduler_has_done_meanwhile_is_not_done_again(two: Two, clock: ManualClock) -> None:
    fl, other = two
    order(fl)
    clock.advance(3_700)
    steps: list[str] = []
    decided = fl._rounds.begin

    def later(edges: Any) -> Round:
        at = decided(edges)
        clock.advance(1)
        order(other)
        other._scheduler.tick()
        fl._engine.observer = steps.append
        return at

    fl._rounds.begin = later  # type: ignore[method-assign]
    try:
        assert fl._scheduler.tick().units
    finally:
        fl._rounds.begin, fl._engine.observer = decided, None  # type: ignore[method-assign]
    assert steps == []
    assert len(set(seen(fl))) == 1


def test_a_group_waits_while_what_it_reads_has_no_moment_in_common(two: Two) -> None:
    """named was rebuilt, so none of its earlier states can be read, and shouted stands at one of them."""
    fl, other = two
    fl.create_stream_table("shouted", "SELECT id, name || '!' AS name FROM orders", schedule="1h")
    fl.create_stream_table("calm", "SELECT count(id) AS n FROM named", schedule="1h")
    fl.create_stream_table("loud", "SELECT count(id) AS n FROM shouted", schedule="1h")
    fl.create_refresh_group("voices", ("calm", "loud"))
    before, count = voices(fl), order(other)
    other.alter_stream_table("named", query="SELECT id, lower(name) AS name FROM orders")
    outcome = run(fl, moment(fl), "calm", "loud")
    assert {type(error) for error in outcome.failed.values()} == {RefreshInProgress}
    assert voices(fl) == before, "committed, not published"
    run(other, moment(other), "shouted")
    assert run(fl, moment(fl), "calm", "loud").published
    assert voices(fl) == (count, count)


def voices(fl: freshlake.Freshlake) -> tuple[int, ...]:
    return tuple(fl.table(name).first()["n"] for name in ("calm", "loud"))  # type: ignore[index]


def test_the_tables_are_right(two: Two) -> None:
    assert all(two[0].verify(name).equal for name in ("named", *GROUP))
