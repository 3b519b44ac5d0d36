"""Files that the log's actions name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from freshlake.storage.scan import DataFile, Snapshot
from freshlake.storage.scan.actions import Commit, FileAction
from freshlake.storage.scan.paths import locate


@dataclass(frozen=True)
class LogFiles:
    """A removal may say nothing but the path; an addition before it, or the state before the range, knows the rest.

    `start` opens that state when it is needed. `names` gives the columns' own names for those inside the files.
    Of `partitioned` columns a removal leaves out those that are NULL, and the file itself may hold another value.
    """

    table: str
    commits: Sequence[Commit]
    start: Callable[[], Snapshot]
    names: Mapping[str, str] = field(default_factory=dict)
    partitioned: Collection[str] = ()

    def data_file(self, action: FileAction) -> DataFile:
        """The file of an action, with its partition under the columns' own names."""
        path = locate(self.table, action.path)
        if self._lacks(action):
            action = self._added.get(action.path, action)
        if self._lacks(action) and path in self._known:
            known = self._known[path]
            return DataFile(path, known.size, known.rows, known.partition)
        partition = {self.names.get(name, name): value for name, value in (action.partition or {}).items()}
        return DataFile(path, action.size, action.rows, partition)

    def _lacks(self, action: FileAction) -> bool:
        """Whether an action does not say all of its file's partition."""
        return action.partition is None or len(action.partition) < len(self.partitioned)

    def rows(self, action: FileAction) -> int | None:
        """How many rows of the table the file held."""
        if action.rows is not None:
            return action.rows
        added = self._added.get(action.path)
        if added is not None and added.records is not None:
            return added.records - (action.vector.cardinality if action.vector else 0)
        known = self._known.get(locate(self.table, action.path))
        return None if known is None else known.rows

    @cached_property
    def _added(self) -> Mapping[str, FileAction]:
        return {action.path: action for commit in self.commits for action in commit.adds}

    @cached_property
    def _known(self) -> Mapping[str, DataFile]:
        return {file.path: file for file in self.start().files}
