"""How workers are shared: quotas, bursts, and what ends a burst."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.schedule.quota import Claim, allowance, room, shares


@pytest.mark.parametrize(
    ("quotas", "most", "expected"),
    [
        ({"a": 0}, 8, {"a": 8}),
        ({"a": 0, "b": 0}, 8, {"a": 4, "b": 4}),
        ({"a": 0, "b": 0, "c": 0}, 8, {"a": 3, "b": 3, "c": 2}),
        ({"a": 8, "b": 2}, 10, {"a": 8, "b": 2}),
        ({"a": 6, "b": 0, "c": 0}, 10, {"a": 6, "b": 2, "c": 2}),
        ({"a": 9, "b": 0, "c": 0}, 10, {"a": 9, "b": 1, "c": 1}),
        ({"a": 20, "b": 0}, 10, {"a": 20, "b": 1}),
        ({"a": 0, "b": 0, "c": 0}, 2, {"a": 1, "b": 1, "c": 1}),
    ],
)
def test_quotas(quotas: dict[str, int], most: int, expected: dict[str, int]) -> None:
    assert shares({name: Claim(quota=quota) for name, quota in quotas.items()}, most) == expected


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        pytest.param(Claim(4, 9), Claim(), 6, id="others idle: half as much again"),
        pytest.param(Claim(4, 9), Claim(2, 0), 6, id="others have all they want: as far as workers are free"),
        pytest.param(Claim(4, 9), Claim(3, 0), 5, id="no more than are free"),
        pytest.param(Claim(4, 9), Claim(6, 9), 4, id="nothing is free: the quota"),
        pytest.param(Claim(6, 9), Claim(0, 1), 4, id="somebody waits below his quota: the burst is over"),
        pytest.param(Claim(0, 9), Claim(6, 9), 4, id="the quota is there at once, also while others still burst"),
        pytest.param(Claim(6, 9), Claim(4, 9), 4, id="who waits at his quota claims nothing, but holds what he has"),
    ],
)
def test_two_share_eight(mine: Claim, other: Claim, expected: int) -> None:
    assert room("a", {"a": mine, "b": other}, 8) == expected


def test_a_quota_of_one_can_burst_too() -> None:
    assert room("a", {"a": Claim(1, 5), "b": Claim(), "c": Claim()}, 3) == 2


def test_a_lake_alone_has_all_workers() -> None:
    assert allowance("a", "one", {"a": {"one": Claim(0, 5)}}, 8) == 8


def test_daemons_share_the_part_of_their_lake() -> None:
    claims = {"a": {"one": Claim(2, 5), "two": Claim(2, 5)}, "b": {"three": Claim(0, 1)}}
    assert allowance("a", "one", claims, 8) == 2
    assert allowance("b", "three", claims, 8) == 4, "no more than lake a leaves free"
    claims["b"]["three"] = Claim(4, 0)
    assert allowance("a", "one", claims, 8) == 2
    claims["a"]["two"] = Claim()
    assert allowance("a", "one", claims, 8) == 3


claim = st.builds(Claim, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@given(st.dictionaries(st.sampled_from("abcde"), claim, min_size=1), st.integers(1, 20))
def test_nobody_starves_and_nobody_exceeds_the_burst(claims: dict[str, Claim], most: int) -> None:
    quotas = shares(claims, most)
    for name, quota in quotas.items():
        assert 1 <= quota <= room(name, claims, most) <= quota + (quota + 1) // 2


@given(st.dictionaries(st.sampled_from("abcde"), claim, min_size=1), st.integers(1, 20))
def test_bursts_take_free_workers_only(claims: dict[str, Claim], most: int) -> None:
    for name, quota in shares(claims, most).items():
        allowed = room(name, claims, most)
        assert allowed == quota or allowed + sum(c.running for n, c in claims.items() if n != name) <= most
