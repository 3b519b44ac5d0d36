"""Slots: what is kept for them is judged, and what is missing is named."""

from __future__ import annotations

import pytest

from freshlake.errors import InvalidArgument
from freshlake.sources.postgres.naming import Names, literal, quoted
from freshlake.sources.postgres.wal.slot import MEGABYTE, Alert, Level, SlotState, judge


def slot(retained_mb: float = 0, wal_status: str = "reserved", confirmed: str | None = "0/1") -> SlotState:
    return SlotState("s", False, confirmed, wal_status, 0, round(retained_mb * MEGABYTE))


@pytest.mark.parametrize(
    ("megabytes", "level"),
    [(0, Level.OK), (99.9, Level.OK), (100, Level.WARNING), (1023, Level.WARNING), (1024, Level.CRITICAL)],
)
def test_a_slot_that_keeps_much_log_is_noticed(megabytes: float, level: Level) -> None:
    health = judge(slot(megabytes))
    assert health.level is level
    assert health.alert is (None if level is Level.OK else Alert.LAG)


def test_the_thresholds_are_the_operators() -> None:
    assert judge(slot(5), warning_mb=5, critical_mb=6).level is Level.WARNING
    assert judge(slot(5), warning_mb=1, critical_mb=5).level is Level.CRITICAL


@pytest.mark.parametrize("missing", [None, slot(wal_status="lost"), slot(confirmed=None)])
def test_a_slot_that_is_gone_or_invalid_is_missing(missing: SlotState | None) -> None:
    health = judge(missing)
    assert (health.level, health.alert) == (Level.CRITICAL, Alert.MISSING)
    assert health.detail


def test_names_differ_between_projects_and_tables() -> None:
    one, two = Names("a1"), Names("b2")
    made = [
        *(names.buffer(oid) for names in (one, two) for oid in (5, 6)),
        *(names.function(5, event) for names in (one, two) for event in ("ins", "upd")),
        *(names.guard for names in (one, two)),
    ]
    assert len(made) == len(set(made))
    assert one.slot(5) != one.slot(6) != two.slot(6)
    assert one.publication != two.publication
    assert all(
        len(name) <= 63 for name in (Names("x" * 16).slot(2**32 - 1), Names("x" * 16).trigger(2**32 - 1, "trunc"))
    )


@pytest.mark.parametrize(
    ("project", "schema"), [("", "s"), ("A", "s"), ("x" * 17, "s"), ("a", "S"), ("a", "pg_x"), ("a", "a.b")]
)
def test_names_that_would_need_quotes_are_refused(project: str, schema: str) -> None:
    with pytest.raises(InvalidArgument):
        Names(project, schema)


def test_texts_and_names_are_quoted() -> None:
    assert quoted('a"b') == '"a""b"'
    assert literal("it's") == "'it''s'"
    assert literal("a\\'b") == "E'a\\\\''b'"
