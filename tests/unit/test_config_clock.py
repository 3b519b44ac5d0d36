"""Clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from freshlake.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_is_aware_and_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_a_manual_clock_moves_only_when_told() -> None:
    clock: Clock = ManualClock(datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now() == clock.now() == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert isinstance(clock, ManualClock)
    assert clock.advance(1.5) == datetime(2026, 3, 1, 10, 0, 1, 500_000, tzinfo=UTC)
    clock.set(datetime(2026, 1, 1, tzinfo=UTC))
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)


def test_time_without_a_zone_and_time_going_back_are_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="go back"):
        ManualClock().advance(-1)
