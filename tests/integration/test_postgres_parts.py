"""Large tables are copied in parts, by tasks of Spark: each row of the snapshot once, whatever is written meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import cast

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.captured.copying import CopyLimits, TableCopy
from freshlake.sources.captured.spool import Spooled
from freshlake.sources.postgres.extent import parts_of
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool
from freshlake.sources.postgres.tables import Captured
from freshlake.sources.postgres.trigger.capture import TriggerCapture
from tests.integration.capture_database import Bag, Database, bag

LIMITS = CopyLimits(large_bytes=64 * 1024, part_bytes=40 * 1024)
TABLES = """
CREATE TABLE plain (id int, v text);
INSERT INTO plain SELECT i, repeat(md5(i::text), 10) FROM generate_series(1, 2000) i;
DELETE FROM plain WHERE id BETWEEN 500 AND 900;
CREATE TABLE parted (id int, v text) PARTITION BY HASH (id);
CREATE TABLE "Parted 0" PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE parted1 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parted2 PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO parted SELECT i, repeat(md5(i::text), 10) FROM generate_series(1, 2000) i;
DELETE FROM parted1;
"""
WRITES = """
UPDATE {table} SET v = v || '!' WHERE id % 7 = {number} % 7; DELETE FROM {table} WHERE id % 50 = {number} % 50;
INSERT INTO {table} SELECT i, 'new' FROM generate_series(1, 40) i; VACUUM {table};
"""


class _NoTasks:
    """Spark whose workers cannot do it."""

    @property
    def sparkContext(self) -> _NoTasks:
        return self

    def parallelize(self, *_: object) -> _NoTasks:
        return self

    def map(self, _: object) -> _NoTasks:
        return self

    def collect(self) -> None:
        raise PySparkException("no workers")


@contextmanager
def written(database: Database, table: str) -> Iterator[None]:
    """Somebody writes for as long as the block runs, at least once before it begins."""
    begun, ended = Event(), Event()

    def write() -> None:
        with database.connect() as connection:
            number = 0
            while number < 2 or not ended.is_set():
                for statement in WRITES.format(table=table, number=number).split(";")[:-1]:
                    connection.execute(statement.encode())
                number += 1
                begun.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        begun.wait(60)
        try:
            yield
        finally:
            ended.set()
        writing.result()


def copied(database: Database, captured: Captured, folder: Path, spark: object) -> tuple[Spooled, Bag]:
    """A copy in parts under a snapshot while others write, and what the snapshot holds."""
    capture = TriggerCapture(Pool(database.reference), Names("p1"))
    with capture.copy_point([captured]) as point, written(database, captured.table.full_name):
        copy = TableCopy(Pool(database.reference), captured, point.snapshot, folder, LIMITS)
        return copy.rows(cast(SparkSession, spark)), database.rows(captured, point.snapshot)


@pytest.mark.parametrize("name", ["plain", "parted"])
def test_a_copy_in_parts_has_each_row_of_the_snapshot_once(
    spark: SparkSession, database: Database, tmp_path: Path, name: str
) -> None:
    database.run(TABLES)
    captured = database.captured(f"public.{name}")
    with database.reading() as cursor:
        parts = parts_of(cursor, captured, LIMITS.part_bytes)
    assert len(parts) > 5
    spools, expected = copied(database, captured, tmp_path, spark)
    assert bag(batch for file in spools.files for batch in pq.read_table(file).to_batches()) == expected
    assert (spools.count, spools.deleted, len(spools.files) > 5) == (expected.total(), 0, True)


def test_where_tasks_cannot_copy_the_driver_does(database: Database, tmp_path: Path) -> None:
    database.run(TABLES)
    spools, expected = copied(database, database.captured("public.plain"), tmp_path, _NoTasks())
    assert bag(batch for file in spools.files for batch in pq.read_table(file).to_batches()) == expected


def test_a_large_table_without_rows_is_copied_as_empty(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.run(f"{TABLES}; DELETE FROM plain")
    captured = database.captured("public.plain")
    with database.reading() as cursor:
        (snapshot,) = cursor.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        copy = TableCopy(Pool(database.reference), captured, snapshot, tmp_path, LIMITS)
        assert copy.rows(spark).count == 0


def test_a_value_that_does_not_fit_is_told_as_such(
    spark: SparkSession, database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.run(f"{TABLES}; ALTER TABLE plain ADD n numeric; UPDATE plain SET n = 'NaN' WHERE id = 1500")
    captured = database.captured("public.plain")
    with database.reading() as cursor, caplog.at_level(logging.WARNING, "freshlake"):
        (snapshot,) = cursor.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        copy = TableCopy(Pool(database.reference), captured, snapshot, tmp_path, LIMITS)
        with pytest.raises(ValueNotRepresentable, match=r"public\.plain\.n") as refused:
            copy.rows(spark)
    assert refused.value.detail is not None
    assert "tasks of Spark" not in caplog.text
