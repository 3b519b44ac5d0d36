"""When a stream table is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.schedule.due import canonical_moment, canonical_period, next_due
from freshlake.schedule.effective import Effective, Firings, effective_schedules
from freshlake.schedule.state import Limits, Tier, Watched
from tests.unit.schedule_cases import NOW, ago, graph, later, table

SHORT = Effective(60)


def due(of: Watched) -> datetime | None:
    return next_due(of, effective_schedules(graph("a:o"), {"a": of}, Limits())["a"], NOW)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(table("a", "60s", age=20), later(40), id="an interval after its data timestamp"),
        pytest.param(table("a", "60s", age=60), NOW, id="exactly as old as its schedule"),
        pytest.param(table("a", "60s", age=300), ago(240), id="overdue: since when"),
        pytest.param(table("a", "@hourly", age=60), NOW, id="a cron moment has just come"),
        pytest.param(table("a", "@hourly", age=0), later(3_600), id="the moment of the data itself is past"),
        pytest.param(table("a", "@hourly", age=7_260), ago(7_200), id="a cron moment was missed"),
        pytest.param(table("a", None, age=20), later(40), id="calculated without readers"),
        pytest.param(table("a", age=None), NOW, id="never loaded: at once"),
        pytest.param(table("a", age=20, is_wanted=True), NOW, id="wanted: at once"),
        pytest.param(table("a", age=300, is_active=False), None, id="suspended: never"),
        pytest.param(table("a", age=300, is_blown=True), None, id="fuse blown: never"),
        pytest.param(table("a", age=300, is_wanted=True, is_blown=True), None, id="not even when it is wanted"),
        pytest.param(table("a", age=None, is_active=False), None, id="never loaded and suspended: never"),
        pytest.param(table("a", age=300, retry_at=later(5)), later(5), id="held back until its retry"),
        pytest.param(table("a", age=None, retry_at=later(5)), later(5), id="the first load too"),
        pytest.param(table("a", is_wanted=True, retry_at=later(5)), later(5), id="and when it is wanted"),
        pytest.param(table("a", age=20, retry_at=ago(5)), later(40), id="a retry does not make it due earlier"),
        pytest.param(table("a", "60s", age=60, tier=Tier.WARM), later(60), id="warm: after twice its interval"),
        pytest.param(table("a", age=300, tier=Tier.COLD), None, id="cold: not on schedule"),
        pytest.param(table("a", age=None, tier=Tier.COLD), None, id="cold: not even for the first load"),
        pytest.param(table("a", age=300, tier=Tier.COLD, is_wanted=True), NOW, id="cold: when wanted"),
        pytest.param(table("a", age=300, tier=Tier.FROZEN), None, id="frozen: not on schedule"),
        pytest.param(table("a", age=300, tier=Tier.FROZEN, is_wanted=True), NOW, id="frozen: when wanted"),
        pytest.param(table("a", age=300, is_immediate=True), None, id="immediate: not on schedule"),
        pytest.param(table("a", age=None, is_immediate=True), NOW, id="immediate: loaded once"),
        pytest.param(table("a", age=300, is_immediate=True, is_wanted=True), NOW, id="immediate: when wanted"),
        pytest.param(table("a", age=300, is_leased=True), ago(240), id="a lease does not change when it is due"),
    ],
)
def test_next_due(of: Watched, expected: datetime | None) -> None:
    assert due(of) == expected


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        pytest.param(None, None, id="reads base sources only"),
        pytest.param(ago(30), None, id="as new as what it reads"),
        pytest.param(ago(40), None, id="newer than what it reads"),
        pytest.param(ago(29), NOW, id="what it reads is ahead"),
    ],
)
def test_an_immediate_table_is_due_when_what_it_reads_is_ahead(
    upstream: datetime | None, expected: datetime | None
) -> None:
    of = table("a", None, age=30, is_immediate=True)
    assert next_due(of, Effective(60, is_immediate=True), NOW, newest_upstream=upstream) == expected


def test_a_deferred_table_does_not_care_whether_what_it_reads_is_ahead() -> None:
    assert next_due(table("a", age=30), SHORT, NOW, newest_upstream=NOW) == later(30)


@pytest.mark.parametrize(
    ("schedule", "period"),
    [(1, None), (60, None), (95, None), (96, 48), (191, 48), (192, 96), (300, 96), (600, 192), (3_600, 1_536)],
)
def test_the_canonical_period_is_the_largest_of_which_two_fit(schedule: int, period: int | None) -> None:
    assert canonical_period(schedule) == period


@given(st.integers(96, 366 * 86_400))
def test_a_canonical_period_fits_twice_but_not_four_times(seconds: int) -> None:
    period = canonical_period(seconds)
    assert period is not None
    assert 2 * period <= seconds < 4 * period


@given(st.integers(96, 10**6), st.integers(96, 10**6), st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)))
def test_moments_of_a_longer_period_are_moments_of_every_shorter_one(one: int, other: int, naive: datetime) -> None:
    (short, long), after = sorted((one, other)), naive.replace(tzinfo=UTC)
    moment = canonical_moment(Effective(long), after)
    assert moment is not None
    assert 0 < (moment - after).total_seconds() <= long / 2
    assert canonical_moment(Effective(short), moment - timedelta(microseconds=1)) == moment


@pytest.mark.parametrize(
    "effective", [SHORT, Effective(95), Effective(), Effective(firings=(Firings("@daily"),))], ids=str
)
def test_without_a_period_there_is_no_canonical_moment(effective: Effective) -> None:
    assert canonical_moment(effective, NOW) is None


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(table("a", "10m", age=96), NOW, id="192 seconds divide noon, so it is due there"),
        pytest.param(table("a", "10m", age=0), later(192), id="and then again"),
        pytest.param(table("a", "60s", age=20), later(40), id="short: after its interval, as always"),
        pytest.param(table("a", "@hourly", age=0), later(3_600), id="a cron has its own moments"),
        pytest.param(table("a", "10m", age=900), ago(300), id="overdue stays overdue"),
        pytest.param(table("a", "10m", age=96, tier=Tier.COLD), None, id="cold: not on schedule"),
    ],
)
def test_aligned_schedules_are_due_at_canonical_moments(of: Watched, expected: datetime | None) -> None:
    effective = effective_schedules(graph("a:o"), {"a": of}, Limits())["a"]
    assert next_due(of, effective, NOW, aligned=True) == expected
