"""The transaction log as files: which commits there are, and what they hold."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from freshlake.storage.scan.actions import Commit, parse
from freshlake.storage.scan.paths import is_local

_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint(\..+)?\.(parquet|json)$")
_CACHED_COMMITS = 64

Stamp: TypeAlias = tuple[int, int, int] | None


class TransactionLog:
    """The `_delta_log` folder of one table; local files by the operating system, others through delta-rs."""

    def __init__(self, table: str) -> None:
        self.table = table
        self._local = is_local(table)
        self._folder = f"{table}/_delta_log" if self._local else "_delta_log"
        self._commit = lru_cache(maxsize=_CACHED_COMMITS)(self._read_commit)

    def exists(self, version: int) -> bool:
        """Whether the commit file of a version is there."""
        if self._local:
            return os.path.exists(self._file(version))
        return bool(self._remote.get_file_info(self._file(version)).type == pa_fs.FileType.File)

    def stamp(self, version: int) -> Stamp:
        """What tells a commit file from another one written later under the same name, without reading it."""
        if not self._local:
            info = self._remote.get_file_info(self._file(version))
            return None if info.mtime_ns is None else (info.mtime_ns, info.size, 0)
        try:
            status = os.stat(self._file(version))
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def latest(self) -> int | None:
        """The newest version by listing; None when there is no log."""
        versions = [int(match[1]) for name in self._names() if (match := _COMMIT.match(name))]
        return max(versions, default=None)

    def after(self, version: int) -> int:
        """The newest version by asking for one commit after the other: cheap when little or nothing was added."""
        while self.exists(version + 1):
            version += 1
        return version

    def content(self, version: int) -> bytes:
        """The bytes of a commit; raises FileNotFoundError when it was cleaned up."""
        if self._local:
            with open(self._file(version), "rb") as file:
                return file.read()
        with self._remote.open_input_stream(self._file(version)) as stream:
            return bytes(stream.read())

    def info(self, version: int) -> Mapping[str, Any]:
        """What the writer of a commit says about it; raises FileNotFoundError when it was cleaned up."""
        for line in self.content(version).splitlines():
            # other lines are as many as files, and may be long
            if b'"commitInfo"' in line and (found := json.loads(line).get("commitInfo")) is not None:
                return dict(found)
        return {}

    def commit(self, version: int) -> Commit:
        """A commit's actions; raises FileNotFoundError when it was cleaned up."""
        return self._commit(version, self.stamp(version))

    def metadata(self, version: int) -> Mapping[str, Any] | None:
        """The table's metadata at a version; None when the log no longer reaches back to it."""
        names = self._names()
        commits = {int(match[1]) for name in names if (match := _COMMIT.match(name))}
        checkpoints = {int(match[1]) for name in names if (match := _CHECKPOINT.match(name))}
        for earlier in range(version, -1, -1):
            if earlier in checkpoints:
                return self._in_checkpoints(name for name in names if name.startswith(f"{earlier:020d}.checkpoint"))
            if earlier not in commits:
                return None
            found = self.commit(earlier).metadata
            if found is not None:
                return found
        return None

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of the given data files that are no longer there. Files outside the table's storage are not seen."""
        if self._local:
            return [path for path in paths if is_local(path) and not os.path.exists(path)]
        inside = [path for path in paths if path.startswith(f"{self.table}/")]
        found = self._remote.get_file_info([path.removeprefix(f"{self.table}/") for path in inside])
        return [path for path, info in zip(inside, found, strict=True) if info.type == pa_fs.FileType.NotFound]

    def _read_commit(self, version: int, _stamp: Stamp) -> Commit:
        return parse(version, self.content(version))

    def _file(self, version: int) -> str:
        return f"{self._folder}/{version:020d}.json"

    def _names(self) -> list[str]:
        try:
            if self._local:
                return os.listdir(self._folder)
            selector = pa_fs.FileSelector(self._folder, allow_not_found=True)
            return [info.base_name for info in self._remote.get_file_info(selector)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    @cached_property
    def _remote(self) -> pa_fs.FileSystem:
        return pa_fs.PyFileSystem(DeltaStorageHandler(self.table))

    def _in_checkpoints(self, names: Iterable[str]) -> Mapping[str, Any] | None:
        return next((found for name in names if (found := self._metadata_in(f"{self._folder}/{name}"))), None)

    def _metadata_in(self, checkpoint: str) -> Mapping[str, Any] | None:
        filesystem = pa_fs.LocalFileSystem() if self._local else self._remote
        if checkpoint.endswith(".json"):
            with filesystem.open_input_stream(checkpoint) as stream:
                rows = [json.loads(line) for line in bytes(stream.read()).splitlines()]
        else:
            table = pq.read_table(checkpoint, columns=["metaData"], filesystem=filesystem)
            rows = table.to_pylist(maps_as_pydicts="strict")
        return next((row["metaData"] for row in rows if row.get("metaData")), None)
