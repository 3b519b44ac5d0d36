"""A snapshot looks at the newest states first, and at more of them only where these do not agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from freshlake.catalog.records import StatePoint
from freshlake.errors import NotAligned
from freshlake.service import snapshots
from freshlake.service.snapshots import Snapshots

AT = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Reading:
    """Tables by name, and the versions of one source that their states equal, newest first."""

    states: dict[str, Sequence[int]]
    asked: list[int] = field(default_factory=list)

    def check(self, table: str) -> None:
        """All are loaded."""

    def published_points(self, table: str, limit: int) -> list[StatePoint]:
        self.asked.append(limit)
        roots = [{"orders": {"table_id": "orders", "version": v, "fingerprint": ""}} for v in self.states[table]]
        return [StatePoint(len(roots) - i, 1, 1, len(roots) - i, at, AT) for i, at in enumerate(roots)][:limit]


def agree(monkeypatch: pytest.MonkeyPatch, reading: Reading) -> dict[str, int]:
    monkeypatch.setattr(snapshots, "_NEWEST", 2)
    engine: Any = None
    found: Any = Snapshots(engine, reading, str)  # type: ignore[arg-type]
    monkeypatch.setattr(found, "_in_words", str)
    return {name: point.roots["orders"].version for name, point in found._agree({n: n for n in reading.states}).items()}


def test_tables_that_agree_cost_one_short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading({"a": range(900, 0, -1), "b": range(899, 0, -1)})
    assert agree(monkeypatch, reading) == {"a": 899, "b": 899}
    assert reading.asked == [2, 2]


def test_a_table_far_ahead_is_looked_at_further(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading({"a": range(900, 0, -1), "b": [850, 849]})
    assert agree(monkeypatch, reading) == {"a": 850, "b": 850}
    assert reading.asked == [2, 2, 20, 20, 200, 200]


def test_the_search_ends_where_there_is_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAligned):
        agree(monkeypatch, reading := Reading({"a": range(900, 100, -1), "b": [7]}))
    assert reading.asked[-1] == 2000
