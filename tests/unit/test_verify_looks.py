"""verify without a lease: a table that is refreshed meanwhile is looked at again before anybody is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from freshlake.errors import SourceHistoryLost
from freshlake.refresh.result import Verification
from freshlake.service import audits
from freshlake.service.auditing import Auditing
from freshlake.service.audits import Audits

LOST = SourceHistoryLost("gone")


@dataclass(frozen=True)
class Table:
    version: int
    id: int = 1
    generation: int = 1

    @property
    def frontier(self) -> dict[str, int]:
        return {"at": self.version}


@dataclass
class Lake:
    """What each look finds; a number says that a refresh came in between."""

    looks: list[bool | SourceHistoryLost | int]
    table: Table = Table(1)
    told: list[bool] = field(default_factory=list)

    def look(self, engine: object, table: Table) -> Verification:
        assert table.version == self.table.version, "it is looked at where it stands now"
        found = self.looks.pop(0)
        if self.looks and not isinstance(self.looks[0], bool | SourceHistoryLost):
            self.table = replace(self.table, version=self.looks.pop(0))
        if isinstance(found, SourceHistoryLost):
            raise found
        return Verification("t", bool(found), 0, 0, 0, (), (), {})

    def verify(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        catalog = SimpleNamespace(get_by_id=lambda _: self.table)
        announcer = SimpleNamespace(verified=lambda _, found: self.told.append(found.equal))
        auditing = SimpleNamespace(engine=SimpleNamespace(catalog=catalog), announcer=announcer)
        monkeypatch.setattr(audits, "verify", self.look)
        return Audits(cast(Auditing, auditing)).verify(cast("audits.StreamTable", self.table)).equal


@pytest.mark.parametrize(
    ("looks", "equal"),
    [([True], True), ([False], False), ([False, 2, True], True), ([LOST, 2, True], True), ([False, 2, False], False)],
)
def test_a_table_that_moved_is_looked_at_again(
    looks: list[bool | SourceHistoryLost | int], equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(list(looks))
    assert lake.verify(monkeypatch) is equal
    assert (lake.told, lake.looks) == ([equal], [])


@pytest.mark.parametrize("looks", [[LOST], [LOST, 2, LOST], [LOST, 2, LOST, 3, LOST, 4]])
def test_a_state_that_is_gone_is_said_to_be_gone(
    looks: list[bool | SourceHistoryLost | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(list(looks))
    with pytest.raises(SourceHistoryLost):
        lake.verify(monkeypatch)
    assert (lake.told, lake.looks) == ([], [])
