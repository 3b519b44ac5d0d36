"""Columns that searches keep in memory: what was read once is not read again, within a limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from freshlake.storage.scan.driver import find_places
from freshlake.storage.scan.files import DataFile
from freshlake.storage.scan.kept import Kept

ROWS = 100
WIDTH = 8 * ROWS


class Files:
    """Files with the columns a and b, and a count of what was read of them."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.stamp = (1,)
        self.reads: list[tuple[str, tuple[str, ...]]] = []

    def read(self, path: str, *names: str) -> pa.Table:
        def from_file(missing: list[str]) -> pa.Table:
            self.reads.append((path, tuple(missing)))
            return pa.table({name: pa.array([hash((path, name)) % 1000] * ROWS, pa.int64()) for name in missing})

        return self.kept.read(path, self.stamp, names, from_file)


def test_a_column_is_read_once() -> None:
    files = Files(Kept(10 * WIDTH))
    first = files.read("f", "a")
    assert files.read("f", "a") == first
    assert files.read("f", "b", "a").column_names == ["b", "a"]
    assert files.reads == [("f", ("a",)), ("f", ("b",))]
    assert files.kept.size == 2 * WIDTH


def test_columns_of_different_files_are_not_confused() -> None:
    files = Files(Kept(10 * WIDTH))
    assert files.read("f", "a") != files.read("g", "a")


def test_another_file_under_the_same_name_is_read() -> None:
    files = Files(Kept(10 * WIDTH))
    files.read("f", "a", "b")
    files.stamp = (2,)
    files.read("f", "a")
    files.read("f", "a")
    assert files.reads == [("f", ("a", "b")), ("f", ("a",))]
    assert files.kept.size == 2 * WIDTH, "what was kept of the file before is no longer counted"


def test_no_more_is_kept_than_allowed() -> None:
    files = Files(Kept(3 * WIDTH))
    for number in range(20):
        files.read(f"f{number}", "a", "b")
        assert files.kept.size <= 3 * WIDTH


def test_a_round_of_searches_that_is_too_large_keeps_a_part_of_it() -> None:
    files = Files(Kept(3 * WIDTH))
    for _ in range(5):
        for number in range(4):
            files.read(f"f{number}", "a")
    assert len(files.reads) == 3 + 5, "three files stay, the fourth is read each time"


def test_columns_that_nobody_asks_for_make_room() -> None:
    files = Files(Kept(3 * WIDTH))
    for number in range(3):
        files.read(f"old{number}", "a")
    for _ in range(10):
        for number in range(3):
            files.read(f"new{number}", "a")
    files.reads.clear()
    for number in range(3):
        files.read(f"new{number}", "a")
    assert files.reads == []


def test_less_memory_drops_columns_and_none_keeps_none() -> None:
    files = Files(Kept(3 * WIDTH))
    for number in range(3):
        files.read(f"f{number}", "a")
    files.kept.resize(WIDTH)
    assert files.kept.size == WIDTH
    files.kept.resize(0)
    assert files.kept.size == 0
    assert not files.kept.fits(1, 1)
    assert files.read("f0", "a").num_rows == ROWS
    assert files.kept.size == 0


def test_columns_of_files_that_a_table_no_longer_has_are_dropped() -> None:
    files = Files(Kept(10 * WIDTH))
    for path in ("lake/t/1", "lake/t/2", "lake/t1/1"):
        files.read(path, "a")
    files.kept.forget_removed("lake/t", ["lake/t/2", "lake/t/3"])
    assert files.kept.size == 2 * WIDTH
    files.reads.clear()
    for path in ("lake/t/1", "lake/t/2", "lake/t1/1"):
        files.read(path, "a")
    assert files.reads == [("lake/t/1", ("a",))]


def test_a_search_does_not_remember_a_file_that_was_replaced(tmp_path: Path) -> None:
    path, schema = tmp_path / "data.parquet", StructType([StructField("k", LongType())])

    def places(key: int) -> list[int]:
        file = DataFile(str(path), path.stat().st_size, 3)
        found, _ = find_places(file, schema, (), lambda rows: pc.equal(rows.column("k"), key))
        return list(found.to_pylist())

    for keys in ([1, 2, 3], [3, 30, 40]):
        pq.write_table(pa.table({"k": keys}), path)
        assert [places(key) for key in (3, 40)] == [[keys.index(key)] if key in keys else [] for key in (3, 40)]


def test_a_large_file_is_not_held_as_a_whole() -> None:
    kept = Kept(1_000_000)
    assert kept.fits(ROWS, 2)
    assert not kept.fits(10_000, 2)
    assert not kept.fits(ROWS, 0), "no column, nothing to hold"


def test_threads_share_what_is_kept() -> None:
    files = Files(Kept(100 * WIDTH))
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda i: files.read(f"f{i % 10}", "a", "b"), range(400)))
    assert all(tables[i] == tables[i % 10] for i in range(400))
    assert files.kept.size == 20 * WIDTH
