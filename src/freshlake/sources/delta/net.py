"""What a range of commits did to the rows: Σ over commits of (rows of added files − rows of removed files).

A commit with change files says the same in fewer rows, so those are taken instead. A file that comes and goes inside
the range cancels. Commits that only move rows (dataChange=false) count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from freshlake.sources.delta.files import LogFiles
from freshlake.sources.delta.vectors import positions, vector_path
from freshlake.storage.scan import DataFile
from freshlake.storage.scan.actions import DeletionVector, FileAction

_PLACES = pa.schema([("at", pa.int64()), ("weight", pa.int64())])


@dataclass(frozen=True)
class FileChange:
    """All rows of a file with one weight, corrected for the rows that deletion vectors name."""

    file: DataFile
    weight: int
    vectors: tuple[tuple[DeletionVector, int], ...] = ()

    def corrections(self, table: str) -> pa.Table:
        """Positions (`at`) whose weight differs from `weight`, and by how much (`weight`)."""
        parts = [_PLACES.empty_table()]
        for vector, weight in self.vectors:
            found = positions(table, vector)
            parts.append(pa.table([found, pa.repeat(pa.scalar(-weight, pa.int64()), len(found))], schema=_PLACES))
        total = pa.concat_tables(parts).group_by("at").aggregate([("weight", "sum")])
        return total.filter(pc.field("weight_sum") != 0).rename_columns({"weight_sum": "weight"}).select(_PLACES.names)


@dataclass(frozen=True)
class NetChange:
    """The files to read for a range: data files with weights, and change files that carry their own."""

    table: str
    files: tuple[FileChange, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    insert_only: bool = True

    def __bool__(self) -> bool:
        return bool(self.files or self.change_files)

    @property
    def bytes(self) -> int:
        """What must be read."""
        return sum(change.file.size for change in self.files) + sum(file.size for file in self.change_files)

    @property
    def rows(self) -> int:
        """How many rows that is, as far as the log says."""
        files = [*(change.file for change in self.files), *self.change_files]
        return sum(file.rows or 0 for file in files)

    @property
    def rewrites(self) -> bool:
        """Whether whole files go and whole files come, so that most of their rows may be the same."""
        weights = [change.weight for change in self.files]
        return any(weight > 0 for weight in weights) and any(weight < 0 for weight in weights)

    def paths(self) -> Iterable[str]:
        """Every file that must be there."""
        for change in self.files:
            yield change.file.path
            yield from (path for v, _ in change.vectors if (path := vector_path(self.table, v)) is not None)
        yield from (file.path for file in self.change_files)


def net_change(files: LogFiles) -> NetChange:
    """What to read for a range of commits."""
    entries: dict[str, list[tuple[FileAction, int]]] = {}
    change_files: list[DataFile] = []
    for commit in files.commits:
        if commit.cdc:
            change_files += [files.data_file(action) for action in commit.cdc]
            continue
        for action in commit.added:
            entries.setdefault(action.path, []).append((action, 1))
        for action in commit.removed:
            entries.setdefault(action.path, []).append((action, -1))
    changes = [change for found in entries.values() if (change := _file_change(found, files))]
    insert_only = not any(commit.cdc or commit.removed for commit in files.commits)
    return NetChange(files.table, tuple(changes), tuple(change_files), insert_only)


def _file_change(found: Sequence[tuple[FileAction, int]], files: LogFiles) -> FileChange | None:
    vectors: dict[str, tuple[DeletionVector, int]] = {}
    for action, weight in found:
        if action.vector is not None:
            _, sofar = vectors.get(action.vector.id, (action.vector, 0))
            vectors[action.vector.id] = (action.vector, sofar + weight)
    left = tuple((vector, weight) for vector, weight in vectors.values() if weight)
    total = sum(weight for _, weight in found)
    if not total and not left:
        return None
    described = next((action for action, _ in found if action.partition is not None), found[0][0])
    return FileChange(files.data_file(described), total, left)
