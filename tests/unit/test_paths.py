"""Paths of tables: those that delta-rs misreads are known, and the notes of commits are found in all others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from freshlake.storage.certificate import Note, NoteKind
from freshlake.storage.commits import commit_properties, notes
from freshlake.storage.scan.paths import misread, not_written


@pytest.mark.parametrize("name", ["plain", "my lake é#%", "a?b", "a%2", "100%", "a;b", "{x}", "a'b"])
def test_notes_are_found_whatever_the_folder_is_called(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name / "t")
    assert (misread(path), not_written(path)) == (None, None)
    written = [Note(NoteKind.FOLD, None, folded_version=version) for version in range(3)]
    for note in written:
        write_deltalake(path, pa.table({"a": [1]}), mode="append", commit_properties=commit_properties(note))
    write_deltalake(path, pa.table({"a": [1]}), mode="append")
    assert list(notes(path)) == [(3, None), *((version, written[version]) for version in (2, 1, 0))]
    assert next(notes(path, 1)) == (1, written[1])


def test_notes_end_where_the_history_does(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        write_deltalake(
            path, pa.table({"a": [1]}), mode="append", commit_properties=commit_properties(Note(NoteKind.FOLD, None))
        )
    (path / "_delta_log" / f"{0:020d}.json").unlink()
    assert [version for version, _ in notes(str(path))] == [2, 1]


@pytest.mark.parametrize(
    ("name", "other"),
    [("a%20b", True), ("a[b", False), ("a]b", False), ("a^b", False), ("a|b", False), ("a\\b", True), ("a\tb", False)],
)
def test_paths_that_delta_rs_misreads_or_does_not_write_are_known(name: str, other: bool) -> None:
    path, uri = f"/lake/{name}/t", f"s3://bucket/{name}/t"
    assert (misread(path) is not None, not_written(path) is not None) == (other, True)
    assert (misread(uri), not_written(uri)) == (None, None), "a URI is encoded"
