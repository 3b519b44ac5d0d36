"""The transaction log read as files: what a checkpoint says is what the commits said."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from freshlake.sources.delta.difference import has_change_feed
from freshlake.storage.scan.log import TransactionLog

PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.appendOnly": "false"}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"p": [1], "a": [1]}), partition_by=["p"], configuration=PROPERTIES)
    write_deltalake(path, pa.table({"p": [2], "a": [1]}), mode="append")
    return DeltaTable(path)


def test_a_checkpoint_has_the_metadata_of_its_commits(table: DeltaTable, tmp_path: Path) -> None:
    log = TransactionLog(str(tmp_path / "t"))
    before = log.metadata(1)
    table.create_checkpoint()
    for version in range(2):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    found = TransactionLog(str(tmp_path / "t")).metadata(1)
    assert before is not None
    assert found is not None
    for key in ("id", "schemaString", "partitionColumns", "configuration"):
        assert found[key] == before[key]
    assert has_change_feed(found)


def test_without_commits_and_checkpoint_nothing_is_known(table: DeltaTable, tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()
    assert TransactionLog(str(tmp_path / "t")).metadata(1) is None


def test_what_a_writer_says_about_a_commit(table: DeltaTable, tmp_path: Path) -> None:
    log = TransactionLog(str(tmp_path / "t"))
    assert log.info(1)["operation"] == "WRITE"
    with pytest.raises(FileNotFoundError):
        log.info(7)
