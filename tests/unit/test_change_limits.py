"""Which changes of a Delta table come to the driver: what is read counts as well as what is kept."""

from __future__ import annotations

import pytest

from freshlake.sources.delta.changes import Limits
from freshlake.sources.delta.net import FileChange, NetChange
from freshlake.storage.scan import DataFile

LIMITS = Limits(bytes=1000, rows=10, read_rows=500)


def net(size: int, rows: int | None) -> NetChange:
    """A file that is written anew."""
    files = tuple(FileChange(DataFile(f"/t/{weight}", size, rows), weight) for weight in (-1, 1))
    return NetChange("/t", files)


@pytest.mark.parametrize(
    ("change", "expected", "allowed"),
    [
        (net(100, 50), 10, True),
        (net(100, None), 10, True),
        (net(100, 50), 11, False),
        (net(100, 50), None, False),
        (net(501, 50), 10, False),
        (net(100, 251), 10, False),
    ],
)
def test_a_change_comes_to_the_driver_when_all_of_it_is_small(
    change: NetChange, expected: int | None, allowed: bool
) -> None:
    assert LIMITS.allow(change, expected) is allowed
