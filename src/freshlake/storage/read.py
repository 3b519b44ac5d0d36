"""state(v) = base ⊕ log (f, v]: untouched base rows as they are, and whole rows summed inside the touched part.

With the log netted into P (entries that add) and N (entries that remove), both small and on the driver, and κ any
function of a row: state = (base ▷κ N) ⊎ P ⊎ expand((base ⋉κ N) + N). A row that sums to less than zero fails the query:
it was removed but was not there. A log too large for the driver is summed with the whole base by Spark instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.errors import InvalidArgument, SourceError, StorageCorrupt, StorageMissing
from freshlake.storage.changes import log_rows, netted, stored_delta
from freshlake.storage.identity import consolidate, expand, prepare, same
from freshlake.storage.layout import BASE, DEFAULT_LIMITS, FoldPoint, Limits, logical_schema, to_logical
from freshlake.storage.log import Log
from freshlake.storage.netting import among, copies, key_filters, negative, positive, totals
from freshlake.storage.probe import Probe, choose_probe
from freshlake.storage.relation import WEIGHT, Relation, local_frame, weighted
from freshlake.storage.scan import DataFile, KeyFilter, Snapshot, open_snapshot, prune, read_files
from freshlake.storage.scan import read as read_snapshot
from freshlake.storage.scan.columns import quoted
from freshlake.storage.scan.conditions import condition
from freshlake.storage.scan.prune import prunable, prune_files
from freshlake.storage.small import small_rows

_MAX_LITERALS = 1000
_PROBE = "__fl_probe"


def read(
    spark: SparkSession,
    path: str,
    at: int,
    fold: FoldPoint,
    columns: Sequence[str] | None = None,
    keys: Sequence[KeyFilter] = (),
    extra: Sequence[Relation] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> DataFrame:
    """The rows at version `at` plus `extra`; `keys` leave out rows that cannot match, and must be applied again."""
    base = open_base(path, fold.base_version)
    wanted, restricted = stored_columns(base.schema, columns), stored_keys(base.schema, keys)
    deltas = [stored_delta(spark, relation, base.schema) for relation in extra]
    if at != fold.folded_version:
        deltas.insert(0, log_rows(spark, Log(path), base.schema, fold.folded_version, at, limits))
    deltas = [delta for delta in deltas if not delta.is_empty]
    chosen = StructType([base.schema[name] for name in wanted])
    rows = small_rows(base, deltas, restricted, limits, path) if deltas else None
    if rows is not None:
        frame = local_frame(spark, rows.select(wanted), chosen)
    else:
        frame = State(spark, base, wanted, restricted, limits).with_deltas(deltas)
    return to_logical(frame, chosen)


def open_base(path: str, version: int | None = None) -> Snapshot:
    """The base at a version (the latest by default)."""
    try:
        return open_snapshot(f"{path}/{BASE}", version)
    except SourceError as error:
        raise StorageMissing(error.message, detail=error.detail) from error
    except pa.ArrowException as error:  # a checkpoint
        raise StorageCorrupt(f"the transaction log of {path}/{BASE} cannot be read", detail=str(error)) from error


class State:
    """The base of one table at one version, restricted to columns and keys, and what deltas make of it."""

    def __init__(
        self,
        spark: SparkSession,
        base: Snapshot,
        columns: Sequence[str] | None = None,
        keys: Sequence[KeyFilter] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.spark, self.base, self.keys, self.limits = spark, base, keys, limits
        self.columns = list(columns) if columns is not None else base.schema.names
        self.files = prune(base, keys) if base.needs_delta_reader is None else base.files

    @property
    def is_selective(self) -> bool:
        """Whether some key leaves only rows with listed values."""
        return any(_is_applied(self.base.schema, key) and len(key.values) <= _MAX_LITERALS for key in self.keys)

    def with_deltas(self, deltas: Sequence[Relation]) -> DataFrame:
        """The rows after the deltas."""
        if not deltas:
            return self.rows(self.files, self.columns)
        if all(delta.insert_only for delta in deltas):
            return self._with_inserts(deltas)
        if all(delta.arrow is not None for delta in deltas):
            table = among(pa.concat_tables([d.arrow for d in deltas]), self.base.schema, self.keys)
            if table.num_rows <= self.limits.rows:
                return self.with_net(netted(self.spark, table, weighted(self.base.schema)))
        return self._summed(deltas)

    def with_net(self, entries: pa.Table) -> DataFrame:
        """The rows after a netted delta held on the driver."""
        removed, inserts = negative(entries), self._inserts(positive(entries))
        if not removed.num_rows:
            return _union([self.rows(self.files, self.columns), *inserts])
        if self.is_selective:
            # Few rows are left: summing them all takes one scan instead of two.
            return self._summed([Relation.of_arrow(entries, weighted(self.base.schema), insert_only=False)])
        touched, probe = self.touched(removed), choose_probe(removed, self.base)
        paths = {file.path for file in touched}
        untouched = [file for file in self.files if file.path not in paths]
        parts = [self.rows(untouched, self.columns)] if untouched else []
        entries_frame = self.entries(removed)
        keys = F.broadcast(entries_frame.select(F.expr(probe.expression).alias(_PROBE)))
        kept = self.probed(touched, self.columns, probe, keys, "left_anti")
        found = self.probed(touched, self.base.schema.names, probe, keys, "left_semi")
        return _union([*parts, kept, *inserts, self._expanded(_weighted(found).unionAll(entries_frame))])

    def touched(self, removed: pa.Table) -> tuple[DataFile, ...]:
        """The files that may hold one of these rows."""
        if self.base.needs_delta_reader is not None:
            return self.files
        return prune_files(self.files, self.base.schema, key_filters(removed, self.base.schema))

    def probed(
        self, files: Sequence[DataFile], columns: Sequence[str], probe: Probe, keys: DataFrame, how: str
    ) -> DataFrame:
        """Base rows whose probe is (`left_semi`) or is not (`left_anti`) among the keys."""
        needed = list(dict.fromkeys([*columns, *probe.columns]))
        rows = self.rows(files, needed)
        joined = rows.join(keys, F.expr(probe.expression) == F.col(_PROBE), how)
        return joined if needed == list(columns) else joined.select(*map(quoted, columns))

    def remaining(self, removed: pa.Table) -> DataFrame:
        """(base ⋉ N) + N, weighted: what is left of rows of which some copies are removed."""
        schema = self.base.schema
        prepare(self.spark, schema)
        entries = self.entries(removed)
        rows = self.rows(self.touched(removed), schema.names).alias("l")
        found = rows.join(F.broadcast(entries).alias("r"), same("l", "r", schema), "left_semi")
        return consolidate(_weighted(found).unionAll(entries))

    def rows(self, files: Sequence[DataFile], columns: Sequence[str]) -> DataFrame:
        """Rows of base files that may have the keys."""
        needed = list(dict.fromkeys([*columns, *(key.column for key in self.keys)]))
        if self.base.needs_delta_reader is not None:
            frame = read_snapshot(self.spark, self.base, needed)
        else:
            frame = read_files(self.spark, files, self.base.schema, needed, self.base.partition_columns)
        frame = restrict(frame, self.base.schema, self.keys)
        return frame if needed == list(columns) else frame.select(*map(quoted, columns))

    def _with_inserts(self, deltas: Sequence[Relation]) -> DataFrame:
        parts = [self.rows(self.files, self.columns)]
        for delta in deltas:
            if delta.arrow is not None:
                parts += self._inserts(among(delta.arrow, self.base.schema, self.keys))
            else:
                frame = restrict(delta.dataframe(self.spark), self.base.schema, self.keys)
                parts.append(expand(frame).select(*map(quoted, self.columns)))
        return _union(parts)

    def _summed(self, deltas: Sequence[Relation]) -> DataFrame:
        base = _weighted(self.rows(self.files, self.base.schema.names))
        changes = [restrict(d.dataframe(self.spark), self.base.schema, self.keys) for d in deltas]
        return self._expanded(_union([base, *changes]))

    def _expanded(self, entries: DataFrame) -> DataFrame:
        summed = consolidate(entries)
        if self.columns != self.base.schema.names:
            summed = summed.select(*map(quoted, [*self.columns, WEIGHT]))
        return expand(summed)

    def entries(self, entries: pa.Table) -> DataFrame:
        """Driver-held entries as a DataFrame."""
        return Relation.of_arrow(entries, weighted(self.base.schema), insert_only=False).dataframe(self.spark)

    def _inserts(self, added: pa.Table) -> list[DataFrame]:
        """Entries that add rows, as plain rows; none if there are none."""
        count, _ = totals(added)
        if not count:
            return []
        if count > self.limits.rows:
            return [expand(self.entries(added)).select(*map(quoted, self.columns))]
        schema = StructType([self.base.schema[name] for name in self.columns])
        return [local_frame(self.spark, copies(added).select(self.columns), schema)]


def restrict(frame: DataFrame, schema: StructType, keys: Sequence[KeyFilter]) -> DataFrame:
    """Rows that may have the keys. Base and log must be restricted alike, or removals would lack their rows."""
    for key in keys:
        if _is_applied(schema, key):
            frame = frame.filter(condition(schema[key.column], key, _MAX_LITERALS))
    return frame


def _is_applied(schema: StructType, key: KeyFilter) -> bool:
    return prunable(schema[key.column], [value for value in key.values if value is not None])


def stored_columns(stored: StructType, columns: Sequence[str] | None) -> list[str]:
    """The names that columns have in the files; all of them by default."""
    if columns is None:
        return list(stored.names)
    return [_stored_name(stored, name) for name in columns]


def stored_keys(stored: StructType, keys: Sequence[KeyFilter]) -> list[KeyFilter]:
    """Keys under the names that their columns have in the files."""
    return [KeyFilter(_stored_name(stored, key.column), key.values, key.has_null) for key in keys]


def _stored_name(stored: StructType, name: str) -> str:
    for physical, logical in zip(stored.names, logical_schema(stored).names, strict=True):
        if logical.lower() == name.lower():
            return str(physical)
    raise InvalidArgument(f"the table has no column {name}", hint=f"its columns are {', '.join(stored.names)}")


def _weighted(rows: DataFrame) -> DataFrame:
    return rows.select("*", F.lit(1).cast("bigint").alias(WEIGHT))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)
