"""Columns of data files, kept in memory between searches: a data file never changes, so they need not be read again.

Its name may come back: tables are dropped, and made again of files that are called the same.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

_WIDTH = 32
"""Bytes that a value may take, for judging a column before it is read."""
_SHARE = 4
"""No file may take more than one part in so many of the memory."""
_PATIENCE = 2
"""A column makes room for others when so many times the kept columns were asked for since it was."""


Stamp: TypeAlias = tuple[int, ...]
"""What tells a file from another one of the same name, and what it held from what it holds."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a local file; taken before the file is opened, so that its columns are never too old for it."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass
class _Column:
    stamp: Stamp
    values: pa.ChunkedArray
    used: int


@dataclass
class Kept:
    """At most `limit` bytes of columns; safe for several threads.

    Searches come back to the same files in the same order, so plainly dropping what was used longest ago would, with a
    little less memory than they need, drop every column just before it is wanted again.
    """

    limit: int
    size: int = 0
    _columns: OrderedDict[tuple[str, str], _Column] = field(default_factory=OrderedDict)
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resize(self, limit: int) -> None:
        with self._lock:
            self.limit = limit
            while self.size > limit:
                self._drop_oldest()

    def fits(self, rows: int, columns: int) -> bool:
        """Whether the columns of a file are worth holding as a whole."""
        return 0 < rows * columns * _WIDTH <= self.limit // _SHARE

    def read(self, path: str, stamp: Stamp, names: Sequence[str], read: Callable[[list[str]], pa.Table]) -> pa.Table:
        """Columns of a file; those that are not in memory are read, and stay if there is room."""
        found = {name: values for name in names if (values := self._get((path, name), stamp)) is not None}
        missing = [name for name in names if name not in found]
        if missing:
            table = read(missing)
            for name in missing:
                found[name] = table.column(name)
                self._keep((path, name), stamp, found[name])
        return pa.table({name: found[name] for name in names})

    def forget_removed(self, folder: str, files: Iterable[str]) -> None:
        """Drop the columns of files that a table no longer has."""
        there, inside = set(files), folder.rstrip("/") + "/"
        with self._lock:
            for key in [k for k in self._columns if k[0].startswith(inside) and k[0] not in there]:
                self._drop(key)

    def _get(self, key: tuple[str, str], stamp: Stamp) -> pa.ChunkedArray | None:
        with self._lock:
            self._asked += 1
            column = self._columns.get(key)
            if column is None:
                return None
            if column.stamp != stamp:
                self._drop(key)
                return None
            column.used = self._asked
            self._columns.move_to_end(key)
            return column.values

    def _keep(self, key: tuple[str, str], stamp: Stamp, values: pa.ChunkedArray) -> None:
        with self._lock:
            if key in self._columns:
                return
            while self.size + values.nbytes > self.limit and self._is_oldest_idle():
                self._drop_oldest()
            if self.size + values.nbytes <= self.limit:
                self._columns[key] = _Column(stamp, values, self._asked)
                self.size += values.nbytes

    def _is_oldest_idle(self) -> bool:
        oldest = next(iter(self._columns.values()), None)
        return oldest is not None and self._asked - oldest.used > _PATIENCE * len(self._columns)

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._columns)))

    def _drop(self, key: tuple[str, str]) -> None:
        self.size -= self._columns.pop(key).values.nbytes


KEPT = Kept(512 * 1024 * 1024)
"""What this process keeps, for all of its lakes."""
