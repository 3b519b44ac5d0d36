"""The whole of a captured table, as an exported snapshot sees it: by one connection, or by many in Spark's tasks."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.captured.schema import Landed, row_schema
from freshlake.sources.captured.spool import Spooled, spooled
from freshlake.sources.postgres.connection import connect, transaction
from freshlake.sources.postgres.copying import copy_query, copy_table
from freshlake.sources.postgres.extent import Part, parts_of, table_bytes
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.tables import Captured

_log = logging.getLogger("freshlake")


@dataclass(frozen=True)
class CopyLimits:
    """A table of more bytes is copied in parts of so many."""

    large_bytes: int = 64 * 1024 * 1024
    part_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class TableCopy:
    """One table under one snapshot."""

    pool: Pool
    captured: Captured
    snapshot: str
    folder: Path
    limits: CopyLimits = CopyLimits()

    def rows(self, spark: SparkSession) -> Spooled:
        """All rows, each with weight 1."""
        with self.pool.take() as connection, transaction(connection, read_only=True, snapshot=self.snapshot) as cursor:
            if table_bytes(cursor, self.captured) <= self.limits.large_bytes:
                return spooled(copy_table(cursor, self.captured), Landed(self.captured), self.folder)
            parts = parts_of(cursor, self.captured, self.limits.part_bytes)
        return self._by_tasks(spark, parts)

    def _by_tasks(self, spark: SparkSession, parts: list[Part]) -> Spooled:
        self.folder.mkdir(parents=True, exist_ok=True)
        copy = _PartCopy(_Followed.of(self.pool.reference), self.captured, self.snapshot, str(self.folder), uuid4().hex)
        context = spark.sparkContext
        _log.info("copying %s in %s parts", self.captured.table.full_name, len(parts))
        try:
            copied = context.parallelize(parts, len(parts)).map(copy).collect()
        except (Py4JError, PySparkException) as error:
            # workers without Freshlake, or from where the database cannot be reached
            _log.warning("tasks of Spark cannot copy %s, so the driver does: %s", self.captured.table.full_name, error)
            copied = [copy(part) for part in parts]
        made = [_made(part) for part in copied]
        files = tuple(file for file, rows, _ in made if rows)
        total, size = sum(rows for _, rows, _ in made), sum(size for *_, size in made)
        if not files:
            return spooled([], Landed(self.captured), self.folder)
        return Spooled(row_schema(self.captured), total, 0, size, None, files)


def _made(part: tuple[str, int, int] | ValueNotRepresentable) -> tuple[str, int, int]:
    if isinstance(part, ValueNotRepresentable):
        raise part
    return part


@dataclass(frozen=True)
class _Followed(ConnectionReference):
    """A reference that was followed already: a task may run where nobody keeps the address."""

    address: str = field(default="", repr=False)

    @classmethod
    def of(cls, reference: ConnectionReference) -> _Followed:
        return cls(reference.keeper, reference.name, reference.resolve())

    def resolve(self) -> str:
        return self.address


@dataclass(frozen=True)
class _PartCopy:
    """Copies a part into a file of its own; another attempt at the same part writes the file anew."""

    reference: ConnectionReference
    captured: Captured
    snapshot: str
    folder: str
    prefix: str

    def __call__(self, part: Part) -> tuple[str, int, int] | ValueNotRepresentable:
        """The file, its rows and its bytes; a value that does not fit is no fault of the task, so it does not fail."""
        try:
            return self._copied(part)
        except ValueNotRepresentable as error:
            return error

    def _copied(self, part: Part) -> tuple[str, int, int]:
        landed = Landed(self.captured)
        file = f"{self.folder}/{self.prefix}-{part.number}.parquet"
        rows = size = 0
        with (
            connect(self.reference) as connection,
            transaction(connection, read_only=True, snapshot=self.snapshot) as cursor,
            pq.ParquetWriter(file, landed.target, compression="snappy") as writer,
        ):
            for piece in copy_query(cursor, self.captured, part.query(self.captured)):
                table = landed.table(piece)
                writer.write_table(table)
                rows, size = rows + table.num_rows, size + table.nbytes
        return file, rows, size
