"""Tiers that follow reads."""

from __future__ import annotations

import pytest

from freshlake.schedule.state import Tier
from freshlake.schedule.tiers import Declared, tier_of, with_reads
from tests.unit.schedule_cases import NOW, ago


@pytest.mark.parametrize(
    ("rate", "seconds", "expected"),
    [
        (10.1, 0, Tier.HOT),
        (10.0, 0, Tier.WARM),
        (1.0, 0, Tier.WARM),
        (0.9, 0, Tier.COLD),
        (None, 0, Tier.COLD),
        (20.0, 240, Tier.WARM),
        (20.0, 1_800, Tier.COLD),
        (20.0, 3_600, Tier.FROZEN),
    ],
)
def test_the_tier_by_reads_a_minute_and_the_time_since(rate: float | None, seconds: float, expected: Tier) -> None:
    assert tier_of(Declared.AUTO, rate, ago(seconds), NOW) is expected


@pytest.mark.parametrize("tier", list(Tier))
def test_a_declared_tier_wins_over_reads(tier: Tier) -> None:
    assert tier_of(str(tier), 100.0, NOW, NOW) is tier


def test_a_table_of_an_earlier_catalog_is_hot() -> None:
    assert tier_of(None, None, ago(9_999), NOW) is Tier.HOT


@pytest.mark.parametrize("per_minute", [0.5, 3, 30])
def test_a_steady_rate_is_learned(per_minute: float) -> None:
    rate = 0.0
    for _ in range(round(60 * per_minute)):
        rate = with_reads(rate, 60 / per_minute, 1)
    assert rate == pytest.approx(per_minute, abs=0.2)
