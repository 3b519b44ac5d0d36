"""Positions of a captured database: equal when they see the same, ordered within one kind and one origin only."""

from __future__ import annotations

import json
from itertools import product

import pytest

from freshlake.errors import InvalidArgument
from freshlake.sources.postgres.position import LsnPosition, Position, SnapshotPosition, position_from_json

HERE = "7000/5/00000001"


def snapshot(text: str, origin: str = HERE) -> SnapshotPosition:
    return SnapshotPosition.parse(origin, text)


def lsn(text: str, origin: str = HERE) -> LsnPosition:
    return LsnPosition.parse(origin, text)


@pytest.mark.parametrize("text", ["10:10:", "10:20:10,14", "3:18446744073709551615:3,9"])
def test_a_snapshot_keeps_its_text(text: str) -> None:
    assert snapshot(text).text == text


@pytest.mark.parametrize("text", ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"])
def test_a_place_in_the_log_keeps_its_text(text: str) -> None:
    assert lsn(text).text == text


@pytest.mark.parametrize("position", [snapshot("10:20:10,14"), lsn("16/B374D848")])
def test_a_position_is_the_same_after_it_was_stored(position: Position) -> None:
    assert position_from_json(json.loads(json.dumps(position.to_json()))) == position


def test_snapshots_that_see_the_same_are_equal_however_they_are_written() -> None:
    assert snapshot("8:8:") == snapshot("8:10:8,9") == snapshot("5:8:")
    assert snapshot("6:8:6") == snapshot("6:9:6,8")
    assert snapshot("8:8:") != snapshot("9:9:")


SMALL = [
    SnapshotPosition(HERE, until, frozenset(xid for xid, bit in enumerate(bits, 1) if bit))
    for until in range(1, 6)
    for bits in product([False, True], repeat=4)
]


@pytest.mark.parametrize("first", sorted(set(SMALL), key=lambda s: s.text), ids=lambda s: s.text)
def test_a_snapshot_is_ahead_exactly_when_it_sees_more(first: SnapshotPosition) -> None:
    def seen(position: SnapshotPosition) -> set[int]:
        return {xid for xid in range(1, 9) if position.sees(xid)}

    for second in SMALL:
        assert first.is_ahead_of(second) == (seen(first) > seen(second))
        assert (first == second) == (seen(first) == seen(second))


def test_a_far_snapshot_is_compared_without_counting_up_to_it() -> None:
    far = SnapshotPosition(HERE, 2**62)
    assert far.is_ahead_of(snapshot("5:5:"))
    assert not snapshot("5:5:").is_ahead_of(far)


def test_places_in_one_log_are_in_order() -> None:
    assert lsn("1/0").is_ahead_of(lsn("0/FFFFFFFF"))
    assert not lsn("0/5").is_ahead_of(lsn("0/5"))


def test_positions_of_different_kinds_or_origins_are_in_no_order() -> None:
    assert not lsn("1/0").is_ahead_of(snapshot("5:5:"))
    assert not snapshot("5:5:").is_ahead_of(lsn("0/1"))
    assert not lsn("1/0").is_ahead_of(lsn("0/1", "7000/5/00000002"))
    assert not snapshot("9:9:").is_ahead_of(snapshot("5:5:", "7000/6/00000001"))
    assert lsn("1/0") != lsn("1/0", "7000/5/00000002")


@pytest.mark.parametrize("text", ["", "1:2", "a:b:", "1:2:3,", "0/1"])
def test_what_is_not_a_snapshot_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        snapshot(text)


@pytest.mark.parametrize("text", ["", "1", "G/0", "1/123456789", "1:1:"])
def test_what_is_not_a_place_in_the_log_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        lsn(text)


def test_an_unknown_kind_of_position_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="offset"):
        position_from_json({"kind": "offset", "origin": HERE, "offset": 3})
