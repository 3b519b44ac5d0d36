"""When a log is folded, and why."""

from __future__ import annotations

import pytest

from freshlake.config import Settings
from freshlake.storage.layout import Pending
from freshlake.storage.policy import FREE_ROWS, FoldPolicy, should_fold

SETTINGS = Settings()


@pytest.mark.parametrize(
    ("policy", "pending", "rows", "size", "reason"),
    [
        ("always", Pending(1, 1, 1), 100, 100, "fold-always"),
        ("always", Pending(0, 0, 0), 100, 100, None),
        ("manual", Pending(500, 10**9, 10**9), 1, 1, None),
        ("auto", Pending(0, 0, 0), 0, 0, None),
        ("auto", Pending(29, 10, 10), 1_000_000, 10**9, None),
        ("auto", Pending(30, 10, 10), 1_000_000, 10**9, "fold-refreshes"),
        ("auto", Pending(1, 29_999, 10), 1_000_000, 10**9, None),
        ("auto", Pending(1, 30_000, 10), 1_000_000, 10**9, "fold-rows"),
        ("auto", Pending(1, 20_000, 3_000_000), 1_000_000, 100_000_000, "fold-bytes"),
        ("auto", Pending(1, 20_000, 2_000_000), 1_000_000, 100_000_000, None),
        ("auto", Pending(1, 20_000, 10), None, None, None),
        ("auto", Pending(2, 20_000, 16 * 2**20), 10**9, 10**12, "fold-driver-limit"),
        ("auto", Pending(2, 250_000, 1000), 10**9, 10**12, "fold-driver-limit"),
    ],
)
def test_the_decision_and_its_reason(
    policy: str, pending: Pending, rows: int | None, size: int | None, reason: str | None
) -> None:
    assert should_fold(policy, pending, rows, SETTINGS, size) == reason


def test_a_small_table_is_not_folded_for_every_change() -> None:
    assert should_fold(FoldPolicy.AUTO, Pending(1, FREE_ROWS, 10), 5, SETTINGS) is None


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        should_fold("sometimes", Pending(1, 1, 1), 1, SETTINGS)
