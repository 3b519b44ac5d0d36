"""Some of the rows of a snapshot: those of a few files, others each turn."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from pyspark.sql import DataFrame, SparkSession

from freshlake.storage.scan.columns import quoted
from freshlake.storage.scan.file_list import read_files
from freshlake.storage.scan.files import DataFile, Snapshot
from freshlake.storage.scan.read import read_delta


def read_part(spark: SparkSession, snapshot: Snapshot, column: str, rows: int, turn: int) -> DataFrame:
    """One column of about so many rows. Values of one file are often near each other, so that few files have them."""
    if snapshot.needs_delta_reader is not None:
        return read_delta(spark, snapshot).select(quoted(column)).limit(rows)
    files = some_files(snapshot.files, rows, turn)
    return read_files(spark, files, snapshot.schema, [column], snapshot.partition_columns)


def some_files(files: Sequence[DataFile], rows: int, turn: int) -> tuple[DataFile, ...]:
    """Files with at least so many rows together, if there are; where they begin depends on the turn alone."""
    if not files:
        return ()
    start = crc32(str(turn).encode()) % len(files)
    found, total = [], 0
    for file in (*files[start:], *files[:start]):
        found.append(file)
        total += file.rows or 0
        if total >= rows:
            break
    return tuple(found)
