"""Where things are in a lake folder."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from freshlake.catalog.records import StreamTable, database_key, stream_table_key
from freshlake.catalog.store import Catalog
from freshlake.storage.intact import is_there
from freshlake.storage.table import ChangeLogged

STREAMS = "_freshlake/streams"
_SHAPES = "_freshlake/captures"
_STAGING = "_freshlake/staging"
_DOOMED = "_freshlake/dropped"
_ROOT = "root"


@dataclass(frozen=True)
class Layout:
    """`tables/` holds plain tables, `_freshlake/streams/<storage id>/g<generation>/<node>/` stored nodes, and
    `_freshlake/captures/<database>/` the shapes of captured tables: Delta tables without rows, for their columns.
    `_freshlake/staging` is for rows on their way into the lake or out of it, `_freshlake/dropped` names what goes."""

    lake: Path
    catalog: Catalog

    @property
    def tables(self) -> Path:
        return self.lake / "tables"

    @property
    def staging(self) -> Path:
        return self.lake / _STAGING

    def folder(self, storage_id: str) -> Path:
        return self.lake / STREAMS / storage_id

    def doom(self, storage_id: str) -> None:
        """Say that a table is about to be dropped: its folder goes, also if this process ends before that."""
        self._doomed.mkdir(parents=True, exist_ok=True)
        (self._doomed / storage_id).touch()

    def doomed(self) -> list[str]:
        """Storage ids of tables that were about to be dropped, and have a folder or had one."""
        return sorted(entry.name for entry in self._doomed.glob("*"))

    def spare(self, storage_id: str) -> None:
        """A table was not dropped after all, or has no folder any more."""
        (self._doomed / storage_id).unlink(missing_ok=True)

    def remove(self, storage_id: str) -> None:
        """Remove the folder of a table that the catalog does not have any more."""
        folder = self.folder(storage_id)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            self.spare(storage_id)

    @property
    def _doomed(self) -> Path:
        return self.lake / _DOOMED

    def generation(self, storage_id: str, generation: int) -> Path:
        return self.folder(storage_id) / f"g{generation}"

    def generations(self, storage_id: str) -> list[int]:
        """Those that have a folder, in order: also loads that failed or are running."""
        names = (re.fullmatch(r"g(\d+)", entry.name) for entry in self.folder(storage_id).glob("g*"))
        return sorted(int(name[1]) for name in names if name)

    def node(self, storage_id: str, generation: int, node: str) -> ChangeLogged:
        return ChangeLogged(str(self.generation(storage_id, generation) / (node or _ROOT)))

    def is_there(self, storage_id: str, generation: int) -> bool:
        """Whether there is anything of a generation; asked of every table in every tick."""
        return is_there(f"{self._streams}/{storage_id}/g{generation}/{_ROOT}")

    @property
    def is_mounted(self) -> bool:
        """Whether this is a lake: a folder without anything may be one that is not mounted."""
        return (self.lake / STREAMS).parent.is_dir()

    @cached_property
    def _streams(self) -> str:
        return str(self.lake / STREAMS)

    def root(self, table: StreamTable, generation: int) -> ChangeLogged:
        return self.node(table.storage_id, generation, "")

    def shapes(self, database: str) -> Path:
        return self.lake / _SHAPES / database

    def source_key(self, path: str) -> str:
        """The key of the source at a path: a stream table's own, a source database's, or the path itself."""
        shape = re.match(rf"{re.escape(str(self.lake / _SHAPES))}/([^/]+)/", path)
        if shape is not None:
            return database_key(shape[1])
        match = re.search(rf"{re.escape(str(self.lake / STREAMS))}/([^/]+)/g\d+/root/base/?$", path)
        if match is None:
            return path.rstrip("/")
        owner = next((t for t in self.catalog.stream_tables() if t.storage_id == match[1]), None)
        return stream_table_key(owner.id) if owner else path
