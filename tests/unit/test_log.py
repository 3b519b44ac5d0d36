"""The log of a change-logged table, without Spark: what is rolled back, and what is known when its history is short."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from freshlake.errors import CommitConflict, LeaseLost
from freshlake.storage.certificate import Certificate
from freshlake.storage.log import Log
from freshlake.storage.relation import Relation, arrow_schema, weighted
from freshlake.storage.table import EMPTY, ChangeLogged, Limits
from tests.integration.change_logged_model import certificate

SCHEMA = StructType([StructField("a", LongType())])
NO_SPARK = cast(Any, None)


@pytest.fixture
def table(tmp_path: Path) -> ChangeLogged:
    return ChangeLogged.create(str(tmp_path / "t"), SCHEMA)


def append(table: ChangeLogged, version: int, weight: int = 1, refresh: str | None = None) -> Certificate:
    rows = pa.table([[version], [weight]], schema=arrow_schema(weighted(SCHEMA)))
    delta = Relation.of_arrow(rows, weighted(SCHEMA), insert_only=weight > 0)
    return table.append(NO_SPARK, delta, certificate(version, refresh))


def forget_history(table: ChangeLogged) -> None:
    """What delta-rs does with commits that are older than the log keeps them, whenever it writes a checkpoint."""
    log = Log(table.path)
    log.table.create_checkpoint()
    for version in range(log.table.version()):
        (Path(log.path) / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def test_an_orphan_is_rolled_back_although_nobody_knows_who_made_what_was_before(table: ChangeLogged) -> None:
    append(table, 1)
    append(table, 4, 2)
    append(table, 7, refresh="orphan")
    forget_history(table)
    table.rollback(4, epoch=1)
    assert (table.head(), table.last_certificate()) == (4, None)
    assert {file.version for file in Log(table.path).stored_files(0, 9)} == {1, 4}
    table.rollback(4, epoch=1)
    table.fence(1)
    done = append(table, 8)
    assert (done.row_count, done.rows_inserted) == (None, 1), "how many rows there were is not known any more"
    assert (table.head(), table.last_certificate()) == (8, done)


def test_a_version_that_is_taken_is_refused_although_nobody_knows_by_whom(table: ChangeLogged) -> None:
    append(table, 2)
    append(table, 3, refresh="orphan")
    forget_history(table)
    table.rollback(2, epoch=1)
    with pytest.raises(CommitConflict, match="already taken"):
        append(table, 2, refresh="late")


def test_a_rollback_leaves_the_certificate_of_the_version_before(table: ChangeLogged) -> None:
    first = append(table, 1)
    append(table, 2, refresh="orphan")
    table.rollback(1, epoch=1)
    assert table.last_certificate() == first
    assert append(table, 2).row_count == 2


def test_files_of_writes_that_died_are_removed_a_day_later(table: ChangeLogged) -> None:
    append(table, 1)
    folders = [Path(table.path) / part for part in ("log/__fl_version=2", "base")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        for name in ("young.parquet", "old.parquet"):
            (folder / name).write_bytes(b"")
        long_ago = time.time() - 25 * 3600
        os.utime(folder / "old.parquet", (long_ago, long_ago))
    assert table.vacuum([], min_age_seconds=3600) == 2
    assert all((folder / "young.parquet").exists() for folder in folders)
    assert not any((folder / "old.parquet").exists() for folder in folders)
    assert table.vacuum([], min_age_seconds=3600) == 0
    assert append(table, 2).row_count == 2


def test_few_entries_that_stand_for_many_rows_are_left_to_spark(table: ChangeLogged) -> None:
    append(table, 1, weight=5)
    for most, rows in ((5, 5), (4, None)):
        table.limits = Limits(rows=most)
        found = table.lookup(NO_SPARK, 1, EMPTY, ["a"])
        assert (found and found.num_rows) == rows


def test_a_rollback_comes_too_late_after_a_fence(table: ChangeLogged) -> None:
    append(table, 1)
    table.fence(2)
    with pytest.raises(LeaseLost):
        table.rollback(0, epoch=1)
