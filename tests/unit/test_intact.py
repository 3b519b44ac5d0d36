"""What is gone or altered in the folders of a change-logged table, told from names of files where that is enough."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from pyspark.sql.types import LongType, StructField, StructType

from freshlake.errors import FreshlakeError, RefreshFailed, StorageCorrupt, StorageError, StorageMissing
from freshlake.storage import intact
from freshlake.storage.certificate import Certificate, Note, NoteKind
from freshlake.storage.commits import notes
from freshlake.storage.failures import may_pass
from freshlake.storage.layout import BASE, LOG, FoldPoint
from freshlake.storage.log import Log
from freshlake.storage.scan.log import TransactionLog
from freshlake.storage.table import ChangeLogged

POINT = FoldPoint(base_version=1, folded_version=1)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Version 1 is in the base."""
    path = str(tmp_path / "root")
    ChangeLogged.create(path, StructType([StructField("a", LongType())]))
    write_deltalake(f"{path}/{BASE}", pa.table({"a": pa.array([1, 2], pa.int64())}), mode="append")
    certificate = Certificate("r1", 1, "f", 1, None, {"sources": {}}, "FULL", None)
    Log(path).commit((), Note(NoteKind.LOAD, certificate, folded_version=1), 1, head=1, floor=1)
    return path


def check(path: str, version: int = 1) -> None:
    intact.check(path, Log(path), version, POINT.base_version)
    intact.check_files(path, version, POINT)


def test_what_was_committed_is_there(table: str) -> None:
    check(table)
    assert intact.is_there(table)


@pytest.mark.parametrize("part", ["", BASE, LOG, f"{LOG}/_delta_log", f"{BASE}/_delta_log"])
def test_a_folder_that_is_gone(table: str, part: str) -> None:
    shutil.rmtree(f"{table}/{part}")
    assert not intact.is_there(table)
    with pytest.raises(StorageMissing):
        check(table)


def test_a_log_that_ends_too_early(table: str) -> None:
    with pytest.raises(StorageCorrupt, match="ends at version 1, version 2 is missing"):
        check(table, version=2)


def test_a_base_that_ends_too_early(table: str) -> None:
    Path(table, BASE, "_delta_log", f"{1:020}.json").unlink()
    with pytest.raises(StorageCorrupt, match="ends at version 0, 1 is missing"):
        check(table)


def test_columns_that_were_added(table: str) -> None:
    DeltaTable(f"{table}/{BASE}").alter.add_columns([Field("x", "integer")])
    with pytest.raises(StorageCorrupt, match=r"columns of the base .* were altered"):
        check(table)


def test_another_commit_to_the_base_is_no_damage(table: str) -> None:
    """A fence, or a fold whose process died."""
    write_deltalake(f"{table}/{BASE}", pa.table({"a": pa.array([3], pa.int64())}), mode="append")
    check(table)


def test_a_file_that_is_gone(table: str) -> None:
    Path(DeltaTable(f"{table}/{BASE}").file_uris()[0]).unlink()
    with pytest.raises(StorageMissing, match=r"the file .* is gone"):
        check(table)


def test_a_commit_to_the_base_that_lost_its_bytes(table: str) -> None:
    """After a power failure; delta-rs gives the rows of the version before."""
    commit = Path(table, BASE, "_delta_log", f"{1:020}.json")
    commit.write_bytes(b"")
    assert DeltaTable(f"{table}/{BASE}").to_pyarrow_table().num_rows == 0
    with pytest.raises(StorageCorrupt, match="is empty"):
        check(table)


@pytest.mark.parametrize("left", [None, b"no parquet"], ids=["gone", "damaged"])
def test_a_checkpoint_that_the_base_needs(table: str, left: bytes | None) -> None:
    base = DeltaTable(f"{table}/{BASE}")
    base.create_checkpoint()
    Path(table, BASE, "_delta_log", f"{0:020}.json").unlink()
    (checkpoint,) = Path(table, BASE, "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.unlink() if left is None else checkpoint.write_bytes(left)
    with pytest.raises((StorageMissing, StorageCorrupt)):
        check(table)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [(OSError(errno.EMFILE, "Too many open files"), RefreshFailed), (ValueError("{"), StorageCorrupt)],
)
def test_notes_that_cannot_be_read_for_the_moment_are_no_damage(
    table: str, monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: type[FreshlakeError]
) -> None:
    def info(*_: object) -> None:
        raise error

    monkeypatch.setattr(TransactionLog, "info", info)
    with pytest.raises(wanted):
        next(notes(f"{table}/{BASE}"))


@pytest.mark.parametrize(
    ("detail", "passes"),
    [
        ("Generic LocalFileSystem error: Permission denied (os error 13)", True),
        ("[Errno 24] Too many open files", True),
        ("No such file or directory (os error 2)", False),
        ("Invalid table version: 3", False),
        (None, False),
    ],
)
def test_only_what_the_machine_may_be_to_blame_for_may_pass(detail: str | None, passes: bool) -> None:
    assert may_pass(StorageError("it cannot be read", detail=detail)) is passes
