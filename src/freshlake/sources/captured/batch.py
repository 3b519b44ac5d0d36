"""What happened to the captured tables of a database between two positions, read once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from freshlake.sources.captured.schema import Landed
from freshlake.sources.captured.spool import MEMORY_BYTES, Spool, Spooled
from freshlake.sources.postgres.events import Event, Resync, Rows, Truncated
from freshlake.sources.postgres.tables import Captured

_MANY = 8
"""Of more tables than these not all change much at the same time."""


@dataclass(frozen=True)
class TableChange:
    """What happened to one table: its rows were forgotten first if it was truncated; with `resync` the rest is void."""

    rows: Spooled
    truncated: bool = False
    resync: Resync | None = None

    @property
    def is_empty(self) -> bool:
        return self.rows.count == 0 and not self.truncated and self.resync is None


@dataclass(frozen=True)
class Batch:
    """The change of every table that was asked for, by its number."""

    changes: Mapping[int, TableChange]
    folder: Path

    @property
    def is_empty(self) -> bool:
        return all(change.is_empty for change in self.changes.values())

    @property
    def resyncs(self) -> dict[int, Resync]:
        found = {oid: change.resync for oid, change in self.changes.items()}
        return {oid: resync for oid, resync in found.items() if resync is not None}


def gather(events: Iterable[Event], tables: Sequence[Captured], folder: Path) -> Batch:
    """The events of a capture, added up per table."""
    each = MEMORY_BYTES // max(1, min(len(tables), _MANY))
    spools = {table.oid: Spool(Landed(table), folder, each) for table in tables}
    truncated: set[int] = set()
    resyncs: dict[int, Resync] = {}
    for event in events:
        oid = event.table.oid
        match event:
            case Rows():
                spools[oid].add(event.rows)
            case Truncated():
                spools[oid].empty()
                truncated.add(oid)
            case Resync():
                resyncs.setdefault(oid, event)
    changes = {oid: TableChange(s.done(), oid in truncated, resyncs.get(oid)) for oid, s in spools.items()}
    return Batch(changes, folder)
