"""How a database is captured, as a value: what is kept of it, and which hand-overs lie on a way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from freshlake.sources.captured.state import CaptureState, Compacted, mode_of
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.handover import Handover
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition

SNAPSHOTS = [SnapshotPosition("o", until, frozenset({3})) for until in (10, 20)]
PLACES = [LsnPosition("o", lsn) for lsn in (100, 200)]
BEGUN = CaptureState(since=datetime(2026, 5, 1, tzinfo=UTC))
TO_LOG = BEGUN.crossed(4, Handover(SNAPSHOTS[0], PLACES[0], ()))
AND_BACK = TO_LOG.crossed(7, Handover(PLACES[1], SNAPSHOTS[1], ()))


COMPACTED = CaptureState(compacted=Compacted(9, (2, 5)))


@pytest.mark.parametrize("state", [CaptureState(), CaptureState(Mode.WAL), BEGUN, TO_LOG, AND_BACK, COMPACTED])
def test_a_state_is_found_again(state: CaptureState) -> None:
    assert CaptureState.from_json(state.to_json()) == state


def test_what_was_never_written_is_capture_by_triggers() -> None:
    assert CaptureState.from_json({}) == CaptureState(Mode.TRIGGER)


def test_a_state_has_a_word_until_it_is_settled() -> None:
    words = [(state.mode, state.word) for state in (BEGUN, TO_LOG, AND_BACK)]
    assert words == [(mode, "transitioning") for mode in (Mode.TRIGGER, Mode.WAL, Mode.TRIGGER)]
    assert (TO_LOG.settled(), AND_BACK.settled()) == (CaptureState(Mode.WAL), CaptureState(Mode.TRIGGER))
    assert TO_LOG.settled().word == "wal"


@pytest.mark.parametrize(
    ("start", "end", "versions"),
    [(1, 3, []), (1, 4, [4]), (3, 6, [4]), (3, 7, [4, 7]), (4, 6, []), (4, 7, [7]), (4, None, [7]), (7, None, [])],
)
def test_hand_overs_on_a_way_are_known_by_their_numbers(start: int, end: int | None, versions: list[int]) -> None:
    assert [crossing.version for crossing in AND_BACK.between(start, end)] == versions


def test_a_position_belongs_to_a_kind_of_capture() -> None:
    assert [mode_of(place) for place in (*SNAPSHOTS, *PLACES)] == [Mode.TRIGGER] * 2 + [Mode.WAL] * 2


def test_positions_stand_for_a_state_unless_changes_were_added_up_across_them() -> None:
    assert [version for version in range(12) if COMPACTED.compacted.has_state(version)] == [2, 5, 9, 10, 11]
    assert all(map(CaptureState().compacted.has_state, range(12)))


def test_what_was_added_up_stays_known_through_hand_overs() -> None:
    crossed = COMPACTED.crossed(10, Handover(SNAPSHOTS[0], PLACES[0], ()))
    assert [state.compacted for state in (crossed, crossed.settled())] == [COMPACTED.compacted] * 2
