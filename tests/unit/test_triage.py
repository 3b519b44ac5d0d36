"""What happened to a Delta table is told from its transaction log alone, without Spark."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from freshlake.errors import (
    SourceDropped,
    SourceHistoryLost,
    SourceNotDelta,
    SourceReplaced,
    SourceUnreachable,
    SourceUnreadable,
)
from freshlake.sources.delta import DeltaSource, delta_source, is_delta
from freshlake.sources.protocol import ChangeKind, Position, Triage
from freshlake.storage.scan import open_snapshot
from freshlake.storage.scan.log import TransactionLog


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"row {i}" for i in ids]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = str(tmp_path / "a table")
    write_deltalake(folder, rows(*range(10)))
    return folder


def after(path: str, change: Callable[[DeltaTable], Any]) -> Triage:
    """The verdict on what `change` did."""
    source = DeltaSource("t", path)
    start = source.head()
    change(DeltaTable(path))
    return source.triage(start, source.head())


def test_nothing_happened(path: str) -> None:
    source = DeltaSource("t", path)
    assert source.triage(source.head(), source.head()) == Triage(ChangeKind.NONE, 0, 0)


def test_insert(path: str) -> None:
    verdict = after(path, lambda _: write_deltalake(path, rows(10, 11), mode="append"))
    assert (verdict.kind, verdict.rows, verdict.truncated) == (ChangeKind.INSERT_ONLY, 2, False)
    assert verdict.bytes > 0


def test_update_counts_old_and_new_rows(path: str) -> None:
    verdict = after(path, lambda table: table.update(predicate="id < 3", updates={"s": "'x'"}))
    assert (verdict.kind, verdict.rows) == (ChangeKind.MUTATING, 6)


def test_delete_counts_rows_not_files(path: str) -> None:
    verdict = after(path, lambda table: table.delete("id = 3"))
    assert (verdict.kind, verdict.rows, verdict.truncated) == (ChangeKind.MUTATING, 1, False)


def test_deleting_everything_is_a_truncation(path: str) -> None:
    verdict = after(path, lambda table: table.delete())
    assert (verdict.kind, verdict.rows, verdict.truncated) == (ChangeKind.MUTATING, 10, True)


def test_overwrite_counts_both_sides(path: str) -> None:
    verdict = after(path, lambda _: write_deltalake(path, rows(1, 2), mode="overwrite"))
    assert (verdict.kind, verdict.rows) == (ChangeKind.MUTATING, 12)


def test_restore_is_a_change_like_any_other(path: str) -> None:
    write_deltalake(path, rows(50), mode="append")
    verdict = after(path, lambda table: table.restore(0))
    assert (verdict.kind, verdict.rows) == (ChangeKind.MUTATING, 1)


def test_commits_that_only_move_rows_or_describe_the_table_change_nothing(path: str) -> None:
    write_deltalake(path, rows(50), mode="append")

    def maintain(table: DeltaTable) -> None:
        table.optimize.compact()
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
        table.alter.set_table_description("rows")

    verdict = after(path, maintain)
    assert (verdict.kind, verdict.rows, verdict.bytes) == (ChangeKind.NONE, 0, 0)


def test_what_comes_and_goes_needs_no_reading(path: str) -> None:
    def append_and_undo(table: DeltaTable) -> None:
        write_deltalake(path, rows(50), mode="append")
        DeltaTable(path).restore(0)

    verdict = after(path, append_and_undo)
    assert (verdict.kind, verdict.rows, verdict.bytes) == (ChangeKind.MUTATING, 2, 0)


def test_an_added_column_is_reported_apart_from_the_rows(path: str) -> None:
    def widen(table: DeltaTable) -> None:
        table.alter.add_columns([Field("extra", PrimitiveType("integer"))])
        write_deltalake(path, rows(50).append_column("extra", pa.array([1], pa.int32())), mode="append")

    verdict = after(path, widen)
    assert (verdict.kind, verdict.data) == (ChangeKind.SCHEMA_CHANGED, ChangeKind.INSERT_ONLY)
    assert (verdict.added_columns, verdict.changed_columns) == (("extra",), ())
    assert verdict.reason == "column extra was added"


def test_dropped_and_retyped_columns_are_named(path: str) -> None:
    other = pa.table({"id": ["1"], "more": [1.0]})
    verdict = after(path, lambda _: write_deltalake(path, other, mode="overwrite", schema_mode="overwrite"))
    assert verdict.kind is ChangeKind.SCHEMA_CHANGED
    assert verdict.data is ChangeKind.MUTATING
    assert verdict.added_columns == ("more",)
    assert verdict.changed_columns == ("id", "s")
    assert verdict.reason == ("column id changed from bigint to string; column s was dropped; column more was added")


def test_a_column_that_changed_and_changed_back_has_changed(path: str) -> None:
    def there_and_back(_: DeltaTable) -> None:
        write_deltalake(path, pa.table({"id": ["1"]}), mode="overwrite", schema_mode="overwrite")
        write_deltalake(path, rows(1), mode="overwrite", schema_mode="overwrite")

    assert set(after(path, there_and_back).changed_columns) == {"id", "s"}


def test_a_table_recreated_with_the_same_version_is_replaced(path: str) -> None:
    source = DeltaSource("t", path)
    start = source.head()
    shutil.rmtree(path)
    write_deltalake(path, rows(*range(10)))
    end = source.head()
    assert end.version == start.version
    verdict = source.triage(start, end)
    assert verdict.kind is ChangeKind.REPLACED
    assert "table id changed" in str(verdict.reason)
    with pytest.raises(SourceReplaced, match="not the table last read"):
        source.schema(start)


def test_a_copy_with_the_same_id_but_another_history_is_replaced(path: str, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "copy")
    source = DeltaSource("t", path)
    write_deltalake(path, rows(20), mode="append")
    start = source.head()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    write_deltalake(path, rows(30), mode="append")
    write_deltalake(path, rows(31), mode="append")
    end = source.head()
    assert end.table_id == start.table_id
    verdict = source.triage(start, end)
    assert (verdict.kind, verdict.reason) == (
        ChangeKind.REPLACED,
        "version 1 is not the commit that was seen before",
    )


def test_a_version_that_went_back_is_replaced(path: str, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "copy")
    source = DeltaSource("t", path)
    write_deltalake(path, rows(20), mode="append")
    start = source.head()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    verdict = source.triage(start, source.head())
    assert (verdict.kind, verdict.reason) == (ChangeKind.REPLACED, "the version went back from 1 to 0")


def test_a_cleaned_log_is_lost_history(path: str) -> None:
    source = DeltaSource("t", path)
    start = source.head()
    for i in range(3):
        write_deltalake(path, rows(20 + i), mode="append")
    DeltaTable(path).create_checkpoint()
    end = source.head()
    os.unlink(f"{path}/_delta_log/{1:020d}.json")
    verdict = source.triage(start, end)
    assert verdict.kind is ChangeKind.HISTORY_LOST
    assert verdict.reason == f"commit {1:020d}.json was removed from the transaction log"
    with pytest.raises(SourceHistoryLost):
        open_snapshot(path, 1)
    assert open_snapshot(path, end.version).rows == 13, "the newest state is still there"


def test_a_vacuumed_file_is_lost_history(path: str) -> None:
    source = DeltaSource("t", path)
    start = source.head()
    DeltaTable(path).delete("id < 5")
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    verdict = source.triage(start, source.head())
    assert verdict.kind is ChangeKind.HISTORY_LOST
    assert "no longer exists" in str(verdict.reason)


def test_a_dropped_table_is_reported(path: str) -> None:
    source = DeltaSource("t", path)
    source.head()
    shutil.rmtree(f"{path}/_delta_log")
    with pytest.raises(SourceDropped, match="source t no longer exists"):
        source.head()
    shutil.rmtree(path)
    with pytest.raises(SourceDropped, match="source t no longer exists"):
        source.head()
    with pytest.raises(SourceDropped):
        open_snapshot(path)


def test_a_folder_that_is_no_delta_table(tmp_path: Path, path: str) -> None:
    with pytest.raises(SourceNotDelta):
        DeltaSource("t", str(tmp_path)).head()
    with pytest.raises(SourceNotDelta):
        open_snapshot(str(tmp_path))
    assert not is_delta(str(tmp_path))
    assert is_delta(path)
    assert is_delta(f"file:{path}/")
    assert delta_source("t", f"file://{path}").path == path


def test_a_file_is_no_delta_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("rows")
    assert not is_delta(str(tmp_path / "file"))


def test_a_folder_that_may_not_be_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> list[str]:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(SourceUnreadable, match="source t may not be read") as error:
        DeltaSource("t", path).head()
    assert path in str(error.value.hint)


@pytest.mark.parametrize(
    "raised",
    [OSError(errno.ESTALE, "Stale file handle"), OSError("Generic S3 error"), DeltaError("timed out"), MemoryError()],
)
def test_storage_that_does_not_answer_may_do_so_later(
    path: str, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    source = DeltaSource("t", path)
    start = source.head()
    write_deltalake(path, rows(4), mode="append")
    end = source.head()

    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(TransactionLog, "after", fail)
    monkeypatch.setattr(TransactionLog, "commit", fail)
    for look in (source.head, lambda: source.triage(start, end)):
        with pytest.raises(SourceUnreachable, match="the storage of source t does not answer") as error:
            look()
        assert path in str(error.value.hint)
        assert type(raised).__name__ in str(error.value.detail)


def test_a_version_that_does_not_exist(path: str) -> None:
    with pytest.raises(SourceHistoryLost, match="version 7"):
        open_snapshot(path, 7)


def test_the_head_follows_the_table(path: str) -> None:
    source, fresh = DeltaSource("t", path), DeltaSource("t", path)
    first = source.head()
    assert source.head() is first, "nothing is read again when nothing changed"
    for i in range(12):
        write_deltalake(path, rows(20 + i), mode="append")
    assert source.head() == fresh.head()
    assert source.head().version == 12
    assert Position.from_json(source.head().to_json()) == source.head()


def test_the_head_is_found_after_the_log_was_cleaned(path: str) -> None:
    source = DeltaSource("t", path)
    source.head()
    for i in range(3):
        write_deltalake(path, rows(20 + i), mode="append")
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        os.unlink(f"{path}/_delta_log/{version:020d}.json")
    assert source.head().version == 3


def test_schema_and_row_count_come_from_the_log(path: str) -> None:
    source = DeltaSource("t", path)
    assert source.schema(source.head()).simpleString() == "struct<id:bigint,s:string>"
    assert source.row_count(source.head()) == 10


def test_an_empty_table(tmp_path: Path) -> None:
    path = str(tmp_path / "empty")
    DeltaTable.create(path, Schema([Field("id", PrimitiveType("long"))]))
    source = DeltaSource("t", path)
    assert source.row_count(source.head()) == 0
    assert open_snapshot(path).files == ()
