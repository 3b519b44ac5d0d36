"""Rows on their way from a database to the lake: few of them in memory, many in files that Spark reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from freshlake.sources.captured.schema import Landed
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan.columns import quoted

# As for changes of other sources: beyond this Spark's fixed cost is the smaller part.
MEMORY_BYTES = 48 * 1024 * 1024
MEMORY_ROWS = 100_000


@dataclass(frozen=True)
class Spooled:
    """Weighted rows of one table, all of them in memory or all in files."""

    schema: StructType
    inserted: int
    deleted: int
    bytes: int
    table: pa.Table | None
    files: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return self.inserted + self.deleted

    def relation(self, spark: SparkSession, columns: Sequence[str] | None = None) -> Relation:
        """The rows in some columns, and their weight."""
        names = [*(columns if columns is not None else self.schema.names[:-1]), WEIGHT]
        schema = StructType([self.schema[name] for name in names])
        insert_only = self.deleted == 0
        if self.table is not None:
            return Relation.of_arrow(self.table.select(names), schema, insert_only=insert_only)
        return Relation.of_frame(self.frame(spark).select(*map(quoted, names)), schema, insert_only=insert_only)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows with their weight as a DataFrame."""
        if self.table is not None:
            return Relation.of_arrow(self.table, self.schema, insert_only=False).dataframe(spark)
        # a file that is gone must fail, whatever the session says
        strict = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
        frame = spark.read.options(**strict).schema(self.schema).parquet(*self.files)
        return frame.withColumn(WEIGHT, F.coalesce(WEIGHT, F.lit(0)))  # never NULL, which a file cannot promise


@dataclass
class Spool:
    """Takes the pieces of one table; past its limits they go to a file below `folder`."""

    landed: Landed
    folder: Path
    most_bytes: int = MEMORY_BYTES
    most_rows: int = MEMORY_ROWS
    _kept: list[pa.RecordBatch] = field(default_factory=list)
    _writer: pq.ParquetWriter | None = None
    _file: Path | None = None
    _inserted: int = 0
    _deleted: int = 0
    _bytes: int = 0

    def add(self, piece: pa.RecordBatch) -> None:
        """Take rows of the captured columns, by position."""
        rows = self.landed.table(piece)
        weights = rows.column(WEIGHT)
        self._inserted += pc.sum(pc.max_element_wise(weights, 0)).as_py() or 0
        self._deleted -= pc.sum(pc.min_element_wise(weights, 0)).as_py() or 0
        self._bytes += rows.nbytes
        self._kept.extend(rows.to_batches())
        if self._writer is not None or self._is_full():
            self._spill()

    def empty(self) -> None:
        """Forget what came so far."""
        self._close()
        if self._file is not None:
            self._file.unlink()
        self._kept, self._file, self._inserted, self._deleted, self._bytes = [], None, 0, 0, 0

    def done(self) -> Spooled:
        """What was taken."""
        self._close()
        counts = (self.landed.schema, self._inserted, self._deleted, self._bytes)
        if self._file is not None:
            return Spooled(*counts, None, (str(self._file),))
        return Spooled(*counts, pa.Table.from_batches(self._kept, self.landed.target))

    def _is_full(self) -> bool:
        return self._bytes > self.most_bytes or self._inserted + self._deleted > self.most_rows

    def _spill(self) -> None:
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = self.folder / f"{uuid4().hex}.parquet"
            self._writer = pq.ParquetWriter(self._file, self.landed.target, compression="snappy")
        for batch in self._kept:
            self._writer.write_batch(batch)
        self._kept = []

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def spooled(pieces: Iterable[pa.RecordBatch], landed: Landed, folder: Path) -> Spooled:
    """All pieces of one table."""
    spool = Spool(landed, folder)
    for piece in pieces:
        spool.add(piece)
    return spool.done()


def clear(folder: Path) -> None:
    """Remove the files of what nobody reads any more."""
    shutil.rmtree(folder, ignore_errors=True)
