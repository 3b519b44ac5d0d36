"""Batches of a database: which failures speak against its log."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from freshlake import errors as e
from freshlake.sources.captured.positions import numbered
from freshlake.sources.captured.reading import Batches
from freshlake.sources.captured.state import CaptureState
from freshlake.sources.postgres.capture import Capture, Mode
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition

PLACES = {
    Mode.WAL: (LsnPosition("o", 100), LsnPosition("o", 200)),
    Mode.TRIGGER: (SnapshotPosition("o", 10), SnapshotPosition("o", 20)),
}


@dataclass
class Way:
    raises: list[e.FreshlakeError] = field(default_factory=list)

    def read(self, *_: object) -> Iterator[object]:
        if self.raises:
            raise self.raises.pop()
        return iter(())


def failures(mode: Mode, *raised: e.FreshlakeError, then_well: bool = False) -> int:
    batches = Batches("shop", {mode: cast(Capture, Way(list(raised)))}, lambda: CaptureState(mode), Path("none"))
    start, end = (numbered(n, place) for n, place in enumerate(PLACES[mode]))
    for error in raised:
        with pytest.raises(type(error)):
            batches.between(start, end, list)
    if then_well:
        batches.between(start, end, list)
    return batches.failures


def test_who_reads_a_batch_is_busy_to_other_threads_only() -> None:
    with ThreadPoolExecutor(1) as other:

        def seen() -> tuple[bool, bool]:
            return batches.is_busy, other.submit(lambda: batches.is_busy).result()

        found = []

        class Looking(Way):
            def read(self, *_: object) -> Iterator[object]:
                found.append(seen())
                return iter(())

        batches = Batches("shop", {Mode.WAL: cast(Capture, Looking())}, lambda: CaptureState(Mode.WAL), Path("none"))
        start, end = (numbered(n, place) for n, place in enumerate(PLACES[Mode.WAL]))
        batches.between(start, end, list)
        assert (found, seen()) == ([(False, True)], (False, False))


LOG = [e.SourceUnreadable("no"), e.StreamMalformed("no")]
OTHER = [
    e.CaptureBusy("another process reads the slot"),
    e.SourceUnreachable("no"),
    e.SourceDenied("no"),
    e.SourceHistoryLost("no"),
    e.SourceReplaced("no"),
    e.PrivilegeMissing("no"),
    e.ValueNotRepresentable("no"),
]


@pytest.mark.parametrize("error", LOG, ids=lambda error: error.code)
def test_what_only_the_log_has_counts_until_it_is_read_again(error: e.FreshlakeError) -> None:
    assert failures(Mode.WAL, error, error) == 2
    assert failures(Mode.WAL, error, error, then_well=True) == 0
    assert failures(Mode.TRIGGER, error) == 0


@pytest.mark.parametrize("error", OTHER, ids=lambda error: error.code)
def test_what_triggers_could_have_too_does_not_count(error: e.FreshlakeError) -> None:
    assert failures(Mode.WAL, error, error) == 0
