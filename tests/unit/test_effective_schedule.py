"""Effective schedules follow the readers, the tier and the usual duration."""

from __future__ import annotations

import pytest

from freshlake.schedule.effective import Effective, Firings, effective_schedules
from freshlake.schedule.state import Limits, Tier, Watched
from tests.unit.schedule_cases import ago, graph, later, table

WARM, COLD, FROZEN = Tier.WARM, Tier.COLD, Tier.FROZEN


def shown(reads: str, *tables: Watched, floor_seconds: int = 60, auto_backoff: bool = False) -> dict[str, str]:
    limits = Limits(floor_seconds=floor_seconds, auto_backoff=auto_backoff)
    found = effective_schedules(graph(reads), {t.name: t for t in tables}, limits)
    return {name: str(effective) for name, effective in found.items()}


def calculated(name: str, **other: object) -> Watched:
    return table(name, None, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reads", "tables", "of_a"),
    [
        pytest.param("a:o", [table("a", "5m")], "5m", id="an interval is taken as declared"),
        pytest.param("a:o", [table("a", "@hourly")], "@hourly", id="a cron is taken as declared"),
        pytest.param("a:o b:a", [table("a", "5m"), table("b", "60s")], "5m", id="a declared one ignores its readers"),
        pytest.param("a:o", [calculated("a")], "1m", id="calculated without readers takes the floor"),
        pytest.param("a:o b:a", [calculated("a"), table("b", "10m")], "10m", id="calculated follows its reader"),
        pytest.param(
            "a:o b:a c:a",
            [calculated("a"), table("b", "10m"), table("c", "90s")],
            "1m30s",
            id="calculated takes the shortest of its readers",
        ),
        pytest.param(
            "a:o b:a c:b d:c",
            [calculated("a"), calculated("b"), calculated("c"), table("d", "2h")],
            "2h",
            id="through a chain of calculated ones",
        ),
        pytest.param(
            "a:o b:a c:b",
            [calculated("a"), table("b", "10m"), table("c", "60s")],
            "10m",
            id="only direct readers count: a declared one stands between",
        ),
        pytest.param(
            "a:o b:a c:a d:b,c",
            [calculated("a"), calculated("b"), table("c", "5m"), table("d", "3m")],
            "3m",
            id="through both sides of a diamond",
        ),
        pytest.param("a:o b:a", [calculated("a"), calculated("b")], "1m", id="all calculated: the floor everywhere"),
        pytest.param("a:o b:a", [calculated("a"), table("b", "@daily")], "@daily", id="a cron reader passes it on"),
        pytest.param(
            "a:o b:a c:a",
            [calculated("a"), table("b", "@daily"), table("c", "10m")],
            "10m or @daily",
            id="an interval and a cron: whichever comes first",
        ),
        pytest.param(
            "a:o b:a c:a d:a",
            [calculated("a"), table("b", "@daily"), table("c", "@hourly"), table("d", "@daily")],
            "@daily or @hourly",
            id="every cron of the readers, once",
        ),
        pytest.param("a:o", [table("a", "5m", tier=WARM)], "10m", id="warm: twice the interval"),
        pytest.param("a:o", [table("a", "@hourly", tier=WARM)], "2 × @hourly", id="warm: every second cron moment"),
        pytest.param("a:o", [table("a", "5m", tier=COLD)], "on demand", id="cold: on demand"),
        pytest.param("a:o", [table("a", "5m", tier=FROZEN)], "on demand", id="frozen: on demand"),
        pytest.param(
            "a:o b:a", [calculated("a"), table("b", "5m", tier=WARM)], "10m", id="a warm reader needs half as much"
        ),
        pytest.param(
            "a:o b:a", [calculated("a"), table("b", "5m", tier=COLD)], "on demand", id="only cold readers: on demand"
        ),
        pytest.param(
            "a:o b:a c:a",
            [calculated("a"), table("b", "5m", tier=COLD), table("c", "7m")],
            "7m",
            id="a cold reader does not count beside another",
        ),
        pytest.param("a:o", [calculated("a", is_immediate=True)], "immediate", id="immediate has no schedule"),
        pytest.param("a:o", [table("a", "5m", is_immediate=True)], "immediate", id="immediate ignores a declared one"),
        pytest.param(
            "a:o b:a c:b",
            [calculated("a"), calculated("b", is_immediate=True), table("c", "5m")],
            "5m",
            id="through an immediate reader to its readers",
        ),
        pytest.param(
            "a:o b:a", [calculated("a"), calculated("b", is_immediate=True)], "1m", id="an immediate leaf: the floor"
        ),
        pytest.param(
            "a:o b:a c:a",
            [calculated("a"), table("b", "2m", is_active=False), table("c", "10m")],
            "10m",
            id="a suspended or failed reader does not count beside another",
        ),
        pytest.param(
            "a:o b:a c:a",
            [calculated("a"), table("b", "2m", is_blown=True), table("c", "@daily")],
            "@daily",
            id="nor does one whose fuse has blown",
        ),
        pytest.param(
            "a:o b:a c:b d:a",
            [calculated("a"), calculated("b", is_active=False), table("c", "2m"), table("d", "10m")],
            "10m",
            id="nor what is read through it",
        ),
        pytest.param(
            "a:o b:a",
            [calculated("a"), table("b", "5m", is_active=False)],
            "5m",
            id="only suspended readers: it runs no more often than before",
        ),
        pytest.param(
            "a:o b:a",
            [calculated("a"), table("b", "5s", is_active=False)],
            "1m",
            id="only suspended readers: and no more often than one that nobody reads",
        ),
        pytest.param("a:o b:a", [calculated("a")], "1m", id="a reader that is not known does not count"),
    ],
)
def test_effective(reads: str, tables: list[Watched], of_a: str) -> None:
    assert shown(reads, *tables)["a"] == of_a


def test_the_floor_is_a_setting() -> None:
    assert shown("a:o", calculated("a"), floor_seconds=10) == {"a": "10s"}


def test_a_leaf_without_a_consumer_says_so() -> None:
    reads = graph("a:o b:a c:o")
    tables = {t.name: t for t in (calculated("a"), calculated("b"), table("c"))}
    found = effective_schedules(reads, tables, Limits())
    assert {name: e.has_readers for name, e in found.items()} == {"a": True, "b": False, "c": True}
    assert {name: e.note for name, e in found.items() if e.note} == {"b": "calculated, and no stream table reads it"}


@pytest.mark.parametrize(
    ("schedule", "typical", "expected"),
    [
        pytest.param("60s", None, "1m", id="nothing is known"),
        pytest.param("60s", 60, "1m", id="it fits"),
        pytest.param("60s", 61, "2m", id="twice as long"),
        pytest.param("60s", 200, "4m", id="the next power of two that fits"),
        pytest.param("60s", 100_000, "8m", id="at most eight times"),
        pytest.param("@hourly", 4_000, "2 × @hourly", id="cron moments are left out"),
    ],
)
def test_backoff_stretches_a_schedule_that_its_refreshes_do_not_fit(
    schedule: str, typical: float | None, expected: str
) -> None:
    slow = table("a", schedule, typical_seconds=typical)
    assert shown("a:o", slow, auto_backoff=True) == {"a": expected}
    assert shown("a:o", slow) == {"a": schedule.replace("60s", "1m")}


def test_backoff_counts_after_the_tier_and_reaches_calculated_upstreams() -> None:
    slow = table("b", "60s", tier=WARM, typical_seconds=130)
    assert shown("a:o b:a", calculated("a"), slow, auto_backoff=True) == {"a": "4m", "b": "4m"}


def test_a_stretched_schedule_says_so() -> None:
    found = effective_schedules(graph("a:o"), {"a": table("a", typical_seconds=61)}, Limits(auto_backoff=True))["a"]
    assert (found.stretch, found.note) == (2, "stretched 2 times: its refreshes take longer than its schedule")


@pytest.mark.parametrize(
    ("effective", "count", "expected"),
    [
        pytest.param(Effective(60), 1, later(60), id="after the interval"),
        pytest.param(Effective(60), 2, later(120), id="the second time"),
        pytest.param(Effective(firings=(Firings("@hourly"),)), 1, later(3_600), id="strictly after: noon is past"),
        pytest.param(Effective(firings=(Firings("5 * * * *", 2),)), 1, later(3_900), id="every second moment"),
        pytest.param(Effective(7_200, (Firings("@hourly"),)), 1, later(3_600), id="whichever comes first: the cron"),
        pytest.param(Effective(600, (Firings("@hourly"),)), 1, later(600), id="whichever comes first: the interval"),
        pytest.param(Effective(), 1, None, id="on demand"),
    ],
)
def test_moments(effective: Effective, count: int, expected: object) -> None:
    assert effective.moment_after(ago(0), count) == expected


def test_the_shortest_interval_is_that_of_interval_and_crons() -> None:
    assert Effective(60, (Firings("@hourly"),)).shortest_seconds == 60
    assert Effective(firings=(Firings("@hourly", 2), Firings("@daily"))).shortest_seconds == 7_200
    assert Effective().shortest_seconds is None
