"""A clock that processes of one lake share: it stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from freshlake.clock import ManualClock


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
