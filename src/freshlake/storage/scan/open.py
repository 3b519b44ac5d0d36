"""Opening one version of a Delta table by delta-rs: milliseconds, no Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from freshlake.errors import FreshlakeError, SourceDropped, SourceHistoryLost, SourceNotDelta
from freshlake.storage.scan.columns import is_char, physical_name
from freshlake.storage.scan.files import DataFile, Snapshot
from freshlake.storage.scan.log import Stamp, TransactionLog
from freshlake.storage.scan.paths import is_local, locate, misread, plain

# Reader features whose meaning for the data files is known here. Spark's Parquet reader widens types by itself.
_KNOWN_FEATURES = frozenset(
    {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping", "typeWidening"}
    | {"typeWidening-preview", "variantType", "variantType-preview"}
)
# Partition values of these types are the same text for every writer and session.
_PARTITION_TYPES = (
    BooleanType | ByteType | ShortType | IntegerType | LongType | DecimalType | DateType | StringType | TimestampNTZType
)
_CACHED_SNAPSHOTS = 32
# Deleted rows are left out by a join with their positions; more of them are the Delta reader's work.
_MAX_DELETED = 200_000


def open_snapshot(path: str, version: int | None = None) -> Snapshot:
    """The files and schema of a Delta table at a version (the latest by default)."""
    location = plain(path)
    log = TransactionLog(location)
    if version is None:
        version = log.latest()
        if version is None:
            raise _no_table(location)
    stamp = log.stamp(version)
    # Without the commit's file nothing tells a table recreated in its place from the one seen before.
    return _load.__wrapped__(location, version, None) if stamp is None else _load(location, version, stamp)


@lru_cache(maxsize=_CACHED_SNAPSHOTS)
def _load(location: str, version: int, _stamp: Stamp) -> Snapshot:
    if (found := misread(location)) is not None:
        return _without_delta_rs(location, version, f"a path with {found!r}")
    try:
        table = DeltaTable(location, version=version)
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
    except TableNotFoundError as error:
        raise _no_table(location) from error
    except DeltaError as error:
        return _without_delta_rs(location, version, str(error).splitlines()[0])
    return _snapshot(location, table, schema)


def _no_table(location: str) -> FreshlakeError:
    if is_local(location) and not os.path.isdir(location):
        return SourceDropped(f"there is no table at {location}")
    return SourceNotDelta(f"{location} is not a Delta table")


def _without_delta_rs(location: str, version: int, reason: str) -> Snapshot:
    """A table that delta-rs cannot open, such as one with newer features: only Spark's Delta reader may read it."""
    metadata = TransactionLog(location).metadata(version)
    if metadata is None:
        raise SourceHistoryLost(f"version {version} of {location} is not available", detail=reason)
    schema = StructType.fromJson(json.loads(metadata["schemaString"]))
    partition_columns = tuple(metadata.get("partitionColumns") or ())
    return Snapshot(location, version, metadata["id"], schema, partition_columns, (), reason, None, opaque=True)


def _snapshot(location: str, table: DeltaTable, schema: StructType) -> Snapshot:
    partition_columns = tuple(table.metadata().partition_columns)
    deleted = _deleted(table)
    files = tuple(_files(location, table, schema, partition_columns, deleted))
    opaque = _opaque_reason(table, schema, partition_columns)
    reason = opaque or _reader_reason(schema, partition_columns, files, deleted)
    counts = [file.rows for file in files]
    rows = None if None in counts else sum(count for count in counts if count is not None)
    identity = str(table.metadata().id)
    return Snapshot(
        location, table.version(), identity, schema, partition_columns, files, reason, rows, opaque is not None
    )


def _opaque_reason(table: DeltaTable, schema: StructType, partition_columns: tuple[str, ...]) -> str | None:
    """Why not even a single file can be understood here."""
    unknown = sorted(set(table.protocol().reader_features or ()) - _KNOWN_FEATURES)
    if unknown:
        return "reader feature " + ", ".join(unknown)
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") not in ("none", "name"):
        return "column mapping by id"
    padded = [name for name in partition_columns if is_char(schema[name])]
    return f"partition column {padded[0]} of type CHAR" if padded else None


def _reader_reason(
    schema: StructType, partition_columns: tuple[str, ...], files: Sequence[DataFile], deleted: Mapping[str, pa.Array]
) -> str | None:
    """Why the files cannot be read as a plain list, although each could be with what the log says about it."""
    total = sum(len(places) for places in deleted.values())
    if total > _MAX_DELETED or total != sum(len(file.deleted) for file in files if file.deleted is not None):
        return f"deletion vectors of {total} rows"
    for name in partition_columns:
        if not isinstance(schema[name].dataType, _PARTITION_TYPES):
            return f"partition column {name} of type {schema[name].dataType.simpleString()}"
    return None


def _deleted(table: DeltaTable) -> dict[str, pa.Array]:
    """The positions of deleted rows, by file."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    vectors = pa.table(table.deletion_vectors())
    return {
        plain(unquote(path.as_py())): pc.cast(pc.indices_nonzero(pc.invert(kept.values)), pa.int64())
        for path, kept in zip(vectors["filepath"], vectors["selection_vector"], strict=True)
    }


def _files(
    location: str,
    table: DeltaTable,
    schema: StructType,
    partition_columns: tuple[str, ...],
    deleted: Mapping[str, pa.Array],
) -> Iterator[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True)).combine_chunks()
    columns = dict(zip(actions.column_names, actions.columns, strict=True))
    rows = columns["num_records"].to_pylist() if "num_records" in columns else [None] * actions.num_rows
    measured = {f.name: physical_name(f) for f in schema if _has_statistics(f, schema)}
    minimum, maximum, nulls = (
        {name: columns[f"{kind}.{stored}"] for name, stored in measured.items() if f"{kind}.{stored}" in columns}
        for kind in ("min", "max", "null_count")
    )
    partitions = {name: _texts(columns[f"partition.{name}"]) for name in partition_columns} if actions.num_rows else {}
    paths = columns["path"].to_pylist()
    sizes = columns["size_bytes"].to_pylist()
    for i in range(actions.num_rows):
        path = locate(location, paths[i])
        gone = deleted.get(path)
        yield DataFile(
            path,
            sizes[i],
            _live_rows(rows[i], gone),
            {name: values[i] for name, values in partitions.items()},
            _Row(minimum, i),
            _Row(maximum, i),
            _Row(nulls, i),
            gone,
        )


def _live_rows(records: int | None, gone: pa.Array | None) -> int | None:
    return records if records is None or gone is None else records - len(gone)


def _has_statistics(field: StructField, schema: StructType) -> bool:
    """Statistics are flattened with dots, so `a.b` may be a column or a field of the struct `a`: then use neither."""
    nested = StructType | ArrayType | MapType
    prefixes = tuple(f"{physical_name(other)}." for other in schema if isinstance(other.dataType, nested))
    return not isinstance(field.dataType, nested) and not physical_name(field).startswith(prefixes or ("\0",))


def _texts(values: pa.ChunkedArray) -> list[str | None]:
    """Partition values as the log writes them; the empty string means NULL."""
    texts: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return [text or None for text in texts]


class _Row(Mapping[str, Any]):
    """One row of column arrays, turned into Python values only when looked at. A NULL counts as absent."""

    __slots__ = ("_columns", "_index")

    def __init__(self, columns: Mapping[str, pa.ChunkedArray], index: int) -> None:
        self._columns = columns
        self._index = index

    def __getitem__(self, name: str) -> Any:
        try:
            value = self._columns[name][self._index].as_py()
        except (ValueError, OverflowError):  # beyond what Python's dates can hold
            value = None
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._columns if name in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)
