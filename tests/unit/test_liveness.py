"""Whether somebody keeps the lake fresh: gone, stuck, or well."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from freshlake.catalog.daemons import Daemon
from freshlake.service.liveness import liveness
from tests.unit.schedule_cases import NOW, ago

AWAKE = Daemon("elsewhere", ago(7_200), ago(1), ago(1), None, 1_000, 1)
ENDED = replace(AWAKE, ended_at=ago(60))
SILENT = replace(AWAKE, heartbeat_at=ago(60))


@pytest.mark.parametrize(
    ("daemons", "newest", "expected"),
    [
        pytest.param([], ago(9_999), [], id="refreshed by hand"),
        pytest.param([ENDED], ago(9_999), [], id="ended in order"),
        pytest.param([SILENT], ago(1), ["scheduler-gone"], id="silent"),
        pytest.param([SILENT, ENDED], ago(1), ["scheduler-gone"], id="silent beside one that ended"),
        pytest.param([SILENT, AWAKE], ago(1), [], id="another one goes on"),
        pytest.param([AWAKE], ago(100), [], id="due twice a minute, and two minutes are no time"),
        pytest.param([AWAKE], ago(200), ["scheduler-stuck"], id="awake and does nothing"),
        pytest.param([replace(AWAKE, started_at=ago(5))], ago(9_999), [], id="has just begun"),
        pytest.param([AWAKE], None, [], id="nothing was ever refreshed"),
    ],
)
def test_what_is_found(daemons: list[Daemon], newest: object, expected: list[str]) -> None:
    assert [f.code for f in liveness(daemons, (), 30, newest, NOW)] == expected  # type: ignore[arg-type]


def test_nothing_has_to_be_refreshed_by_itself() -> None:
    assert liveness([AWAKE], (), None, ago(9_999), NOW) == []


@pytest.mark.parametrize(
    ("daemons", "expected"),
    [
        pytest.param([], ["no-daemon"], id="nobody was ever there"),
        pytest.param([ENDED], ["no-daemon"], id="ended in order"),
        pytest.param([SILENT], ["scheduler-gone"], id="gone says it all"),
        pytest.param([AWAKE], [], id="kept"),
    ],
)
def test_schedules_that_nobody_keeps(daemons: list[Daemon], expected: list[str]) -> None:
    assert [f.code for f in liveness(daemons, ("a", "b"), 30, ago(1), NOW)] == expected


def test_of_many_tables_a_few_are_named() -> None:
    (finding,) = liveness([], tuple("abcde"), None, None, NOW)
    assert finding.message.endswith("the schedules of a, b, c and 2 others")


def test_a_slow_daemon_is_not_silent_between_its_ticks() -> None:
    slow = replace(AWAKE, interval_ms=60_000, heartbeat_at=ago(200))
    assert liveness([slow], (), None, None, NOW) == []
    assert [f.code for f in liveness([slow], (), None, None, NOW + timedelta(seconds=200))] == ["scheduler-gone"]
