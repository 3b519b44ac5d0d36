"""Which table is audited next: one line per rule."""

from __future__ import annotations

from random import Random

import pytest

from freshlake.schedule.audit import Candidate, next_audit
from tests.unit.schedule_cases import NOW, ago


def seen(name: str, seconds: float | None, **other: object) -> Candidate:
    return Candidate(name, None if seconds is None else ago(seconds), **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        pytest.param([], None, id="no tables"),
        pytest.param([seen("a", 10), seen("b", 20)], "b", id="the one that waited longest"),
        pytest.param([seen("b", None), seen("a", None), seen("c", 99)], "a", id="never audited first, by name"),
        pytest.param([seen("a", None), seen("b", None, readers=2)], "b", id="of those one that others read"),
        pytest.param([seen("a", 10, readers=3), seen("b", 30)], "a", id="wrong rows that spread weigh more"),
        pytest.param([seen("a", 30, is_changed=False), seen("b", 10)], "b", id="unchanged ones weigh less"),
        pytest.param([seen("a", 50, is_changed=False), seen("b", 10)], "a", id="but are not forgotten"),
        pytest.param([seen("a", 9, is_unrepaired=True), seen("b", None)], "a", id="an interrupted repair first"),
        pytest.param([seen("a", None, is_left_out=True), seen("b", 1)], "b", id="what cannot be audited is left out"),
        pytest.param([seen("a", -5), seen("b", -9)], "a", id="a clock that went back does no harm"),
    ],
)
def test_the_next_audit(candidates: list[Candidate], expected: str | None) -> None:
    found = next_audit(candidates, NOW)
    assert (found.name if found else None) == expected


def test_the_order_of_the_tables_does_not_matter_and_every_table_has_its_turn() -> None:
    random, audited = Random(1), dict.fromkeys("abcdef", 0.0)
    readers = {name: random.randint(0, 5) for name in audited}
    for moment in range(1, 400):
        found = [seen(n, moment_ago, readers=readers[n], is_changed=n < "d") for n, moment_ago in audited.items()]
        random.shuffle(found)
        chosen = next_audit(found, NOW)
        assert chosen == next_audit(reversed(found), NOW)
        assert chosen is not None
        audited = {name: age + 1 for name, age in audited.items()} | {chosen.name: 0.0}
        assert max(audited.values()) < 150, moment
