"""Schedules as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.errors import InvalidSchedule, ScheduleTooShort
from freshlake.schedule import Calculated, Cron, Every, parse_schedule


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h", 3_600),
        ("1d", 86_400),
        ("2w", 1_209_600),
        ("1h30m", 5_400),
        ("1d2h3m4s", 93_784),
        (" 5M ", 300),
        ("090s", 90),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_schedule(text) == Every(seconds)


@given(st.integers(min_value=1, max_value=366 * 86_400))
def test_a_duration_prints_as_text_that_reads_back(seconds: int) -> None:
    assert parse_schedule(str(Every(seconds))) == Every(seconds)


@pytest.mark.parametrize(
    ("text", "expression", "shortest"),
    [
        ("*/5 * * * *", "*/5 * * * *", 300),
        ("  0   9 * * 1-5 ", "0 9 * * 1-5", 86_400),
        ("@hourly", "@hourly", 3_600),
        ("@DAILY", "@daily", 86_400),
        ("@weekly", "@weekly", 604_800),
        ("@monthly", "@monthly", 29 * 86_400),
        ("59 23 28 2 *", "59 23 28 2 *", 366 * 86_400),
        ("0,59 0,23 * * *", "0,59 0,23 * * *", 60),
        ("* * * * *", "* * * * *", 60),
    ],
)
def test_cron(text: str, expression: str, shortest: int) -> None:
    schedule = parse_schedule(text)
    assert schedule == Cron(expression)
    assert str(schedule) == expression
    assert isinstance(schedule, Cron)
    assert schedule.shortest_seconds == shortest


@pytest.mark.parametrize("text", [None, "calculated", "CALCULATED", " Calculated "])
def test_calculated(text: str | None) -> None:
    assert parse_schedule(text, floor_seconds=86_400) == Calculated()
    assert str(Calculated()) == "calculated"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "m",
        "5x",
        "-5m",
        "1.5h",
        "0s",
        "400d",
        "1m1m",
        "1h 30m",
        "every minute",
        "5m;",
        "\u0665m",
        "9" * 5_000 + "s",
    ],
)
def test_what_is_no_duration_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert f"'{text}'" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "0 0 30 2 *",
        "0 0 31 4 *",
        "@sometimes",
        "@",
        "* * * * 5L/2",
        "a b c d e",
    ],
)
def test_what_is_no_cron_expression_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert f"'{text}'" in caught.value.message
    assert caught.value.detail


@pytest.mark.parametrize(("text", "floor"), [("59s", 60), ("*/5 * * * *", 301), ("@hourly", 86_400)])
def test_a_schedule_below_the_floor_is_refused_naming_the_setting(text: str, floor: int) -> None:
    with pytest.raises(ScheduleTooShort, match=f"{floor} seconds") as caught:
        parse_schedule(text, floor_seconds=floor)
    assert "min_schedule_seconds" in (caught.value.detail or "")


def test_a_schedule_at_the_floor_is_accepted() -> None:
    assert parse_schedule("60s", floor_seconds=60) == Every(60)
    assert parse_schedule("* * * * *", floor_seconds=60) == Cron("* * * * *")


def test_cron_is_evaluated_in_utc() -> None:
    evening = datetime(2026, 3, 28, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert Cron("0 9 * * *").next_after(evening) == datetime(2026, 3, 29, 9, tzinfo=UTC)
    assert Cron("@daily").next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 2, tzinfo=UTC)
    assert Every(90).next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
