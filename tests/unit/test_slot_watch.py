"""Slots that keep much log or are gone: told when it begins or gets worse, and again after it has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from freshlake.service.capture_report import SlotInfo
from freshlake.service.slot_watch import SlotWatch

WELL = (None, "ok")
LAG, MORE = ("slot_lag_exceeds_threshold", "warning"), ("slot_lag_exceeds_threshold", "critical")
GONE = ("replication_slot_missing", "critical")
SILENT = ("source-unreachable", "critical")


def told(*looks: dict[str, tuple[str | None, str]]) -> list[list[tuple[str, str, str]]]:
    """The alerts after each look."""
    sent: list[tuple[str, str, str]] = []
    alerts = SimpleNamespace(emit=lambda event, table, **what: sent.append((what["source"], str(event), what["level"])))
    report = SimpleNamespace()
    watch = SlotWatch(cast(Any, report), cast(Any, alerts))
    found = []
    for look in looks:
        slots = [SlotInfo(name, "slot", True, 1, 2, level, alert, None) for name, (alert, level) in look.items()]
        report.slots = lambda slots=slots: slots
        watch.consider()
        found.append(sent.copy())
        sent.clear()
    return found


def test_what_lasts_is_told_once_and_again_when_it_is_worse_or_has_ended() -> None:
    assert told({"a": WELL}, {"a": LAG}, {"a": LAG}, {"a": MORE}, {"a": WELL}, {"a": LAG}, {"a": GONE}) == [
        [],
        [("a", *LAG)],
        [],
        [("a", *MORE)],
        [],
        [("a", *LAG)],
        [("a", *GONE)],
    ]


def test_a_database_that_does_not_answer_says_nothing_of_its_slot() -> None:
    assert told({"a": LAG}, {"a": SILENT}, {"a": LAG}) == [[("a", *LAG)], [], []]


def test_every_source_is_told_of_by_itself_and_forgotten_when_it_goes() -> None:
    assert told({"a": LAG, "b": GONE}, {"b": GONE}, {"a": LAG, "b": GONE}) == [
        [("a", *LAG), ("b", *GONE)],
        [],
        [("a", *LAG)],
    ]
