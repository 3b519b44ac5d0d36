"""The change-logged table: a base that any engine can read, and a log of weighted changes not yet in it.

A refresh is one append to the log, its only commit point. The state at a version is a base plus a range of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from freshlake.errors import StorageCorrupt
from freshlake.storage import append, cleanup, layout, load
from freshlake.storage.base import close_base
from freshlake.storage.certificate import Certificate
from freshlake.storage.changes import appended, changes, logical_delta, stored_delta
from freshlake.storage.fold import FoldForm, fold
from freshlake.storage.layout import DEFAULT_LIMITS, FoldPoint, Limits, Pending
from freshlake.storage.log import Log
from freshlake.storage.lookup import lookup
from freshlake.storage.partitions import check_partitions, storable_delta, storable_rows
from freshlake.storage.read import open_base, read, stored_columns
from freshlake.storage.relation import Relation
from freshlake.storage.scan import KeyFilter, Snapshot
from freshlake.storage.scan.part import read_part
from freshlake.storage.scan.paths import plain

__all__ = ["Certificate", "ChangeLogged", "FoldForm", "FoldPoint", "Limits", "Pending"]

EMPTY = FoldPoint(base_version=0, folded_version=0)
HIDDEN = "__fl_"


class ChangeLogged:
    """One generation of one table, by its folder. Holds no state of its own: every call looks at the lake."""

    def __init__(self, path: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = plain(str(path))
        self.limits = limits

    @classmethod
    def create(
        cls,
        path: str,
        schema: StructType,
        properties: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        partition_by: Sequence[str] = (),
    ) -> ChangeLogged:
        """Make both tables, empty. The log is made last, so a table with a log is complete; a base alone is reused.

        `partition_by` lays out the files of the base; the log is read by version, and not partitioned otherwise.
        """
        table = cls(path, limits)
        stored = layout.stored_schema(schema)
        given = dict(properties or {})
        base = f"{table.path}/{layout.BASE}"
        columns = stored_columns(stored, partition_by)
        check_partitions(stored, columns)
        kept = {**given, **layout.BASE_PROPERTIES, **layout.statistics_properties(stored)}
        _create(base, stored, kept, "ignore", columns)
        left = open_base(table.path)
        if left.version != 0 or left.schema != stored or list(left.partition_columns) != columns:
            raise StorageCorrupt(f"{base} holds another table", hint="remove the folder, or use another one")
        log = layout.log_schema(stored)
        _create(f"{table.path}/{layout.LOG}", log, {**given, **layout.LOG_PROPERTIES}, "error", [layout.VERSION])
        return table

    @cached_property
    def _base(self) -> Snapshot:
        return open_base(self.path)

    @property
    def stored(self) -> StructType:
        """The columns under the names they have in the files."""
        return self._base.schema

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        return layout.logical_schema(self.stored)

    @property
    def visible(self) -> StructType:
        """The columns that readers see."""
        return StructType([field for field in self.schema if not field.name.startswith(HIDDEN)])

    def head(self) -> int:
        """The newest version in the log; 0 before the first."""
        return Log(self.path).head

    def floor(self) -> int:
        """Changes can be read from this version on."""
        return Log(self.path).floor

    def last_certificate(self) -> Certificate | None:
        """The certificate of the newest version."""
        return Log(self.path).last_certificate()

    def certificate(self, version: int) -> Certificate:
        """The certificate of one version."""
        return Log(self.path).certificate(version)

    def load(self, spark: SparkSession, rows: DataFrame | pa.Table, certificate: Certificate) -> FoldPoint:
        """The first load, straight into the base; the log's commit makes it count."""
        storable = storable_rows(rows, self.stored, self._base.partition_columns)
        return load.load(spark, self.path, self.stored, storable, certificate)

    def append(self, spark: SparkSession, delta: Relation, certificate: Certificate) -> Certificate:
        """Commit one consolidated batch; returns the certificate as committed, with the rows it counted."""
        rows = storable_delta(stored_delta(spark, delta, self.stored), self.stored, self._base.partition_columns)
        return append.append(spark, self.path, self.stored, rows, certificate)

    def read(
        self,
        spark: SparkSession,
        at: int,
        fold: FoldPoint,
        columns: Sequence[str] | None = None,
        keys: Sequence[KeyFilter] = (),
        extra: Sequence[Relation] = (),
    ) -> DataFrame:
        """The rows at a version, plus weighted rows not yet appended."""
        return read(spark, self.path, at, fold, columns, keys, extra, self.limits)

    def lookup(
        self,
        spark: SparkSession,
        at: int,
        fold: FoldPoint,
        columns: Sequence[str],
        keys: Sequence[KeyFilter] = (),
        extra: Sequence[Relation] = (),
    ) -> pa.Table | None:
        """The rows that may have the keys, read on the driver; None when they are too many or Spark must read them."""
        return lookup(spark, self.path, at, fold, columns, keys, extra, self.limits)

    def changes(self, spark: SparkSession, after: int, upto: int, columns: Sequence[str] | None = None) -> Relation:
        """The consolidated weighted rows of versions in (after, upto]."""
        wanted = stored_columns(self.stored, columns)
        delta = changes(spark, Log(self.path), self.stored, after, upto, wanted, self.limits)
        return logical_delta(spark, delta, StructType([self.stored[name] for name in wanted]))

    def appended(self, spark: SparkSession, version: int) -> Relation:
        """The weighted rows of one version as they are in the log: the same however often they are read."""
        delta = appended(spark, Log(self.path), self.stored, version)
        return logical_delta(spark, delta, self.stored)

    def part(self, spark: SparkSession, fold: FoldPoint, column: str, rows: int, turn: int) -> DataFrame:
        """One column of about so many rows of the base, others each turn."""
        base = open_base(self.path, fold.base_version)
        (stored,) = stored_columns(base.schema, [column])
        return read_part(spark, base, stored, rows, turn)

    def size(self, at: int, fold: FoldPoint) -> int | None:
        """How many rows there are to read at a version, if the metadata knows."""
        base = open_base(self.path, fold.base_version).rows
        return None if base is None else base + self.pending(fold, at).rows

    def pending(self, fold: FoldPoint, upto: int) -> Pending:
        """What a fold up to a version would bring in."""
        if upto <= fold.folded_version:
            return Pending(0, 0, 0)
        files = Log(self.path).files(fold.folded_version, upto)
        rows = sum(file.data.rows or 0 for file in files)
        return Pending(len({file.version for file in files}), rows, sum(file.data.size for file in files))

    def fold(
        self, spark: SparkSession, upto: int, point: FoldPoint, epoch: int, form: FoldForm | None = None
    ) -> FoldPoint:
        """Bring versions up to `upto` into the base."""
        return fold(spark, self.path, upto, point, self.limits, epoch, form)

    def rollback(self, upto: int, epoch: int) -> None:
        """Drop versions after `upto` that no catalog recorded."""
        cleanup.rollback(self.path, upto, epoch)

    def cleanup(self, keep_after: int, folded: int, epoch: int) -> int:
        """Drop folded versions up to `keep_after` from the log."""
        return cleanup.cleanup(self.path, keep_after, folded, epoch)

    def fence(self, epoch: int) -> None:
        """Shut out the holders of all earlier leases than this one, also from commits that they have begun."""
        while not (Log(self.path).close_to(epoch - 1) and close_base(self.path, epoch - 1)):
            pass  # what had been on its way has arrived in between

    def vacuum(self, keep_base: Iterable[int], min_age_seconds: int) -> int:
        """Delete files that no kept version needs."""
        return cleanup.vacuum(self.path, keep_base, min_age_seconds)


def _create(
    path: str, schema: StructType, properties: Mapping[str, str], mode: str, partition: Sequence[str] = ()
) -> None:
    try:
        DeltaTable.create(
            path,
            Schema.from_json(schema.json()),
            mode=mode,  # type: ignore[arg-type]
            partition_by=list(partition),
            configuration=dict(properties),
            raise_if_key_not_exists=False,
        )
    except DeltaError as error:
        raise StorageCorrupt(f"{path} cannot be created", detail=str(error)) from error
