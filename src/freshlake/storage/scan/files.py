"""What a snapshot is made of: its data files with sizes, statistics and partition values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table; `path` is plain for local files and a URI otherwise, never URL-encoded.

    `deleted` holds the positions of rows that are in the file but no longer in the table; `rows` does not count them,
    the statistics do.
    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    minimum: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    maximum: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    nulls: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    deleted: pa.Array | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Snapshot:
    """One version of one Delta table.

    `needs_delta_reader` says why its files cannot be read as a plain list; `opaque`, that not even one of them could be
    read alone, because what its columns mean is not known here.
    """

    path: str
    version: int
    table_id: str
    schema: StructType
    partition_columns: tuple[str, ...]
    files: tuple[DataFile, ...]
    needs_delta_reader: str | None
    rows: int | None
    opaque: bool = False

    @property
    def bytes(self) -> int:
        """Size of all data files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class KeyFilter:
    """The values a column may have in the rows looked for. It only prunes: rows outside it may still be returned."""

    column: str
    values: tuple[Any, ...] | frozenset[Any]
    has_null: bool = False
