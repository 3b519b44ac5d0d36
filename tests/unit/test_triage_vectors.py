"""Deletion vectors are decoded as Delta's format says, or refused."""

from __future__ import annotations

import base64
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from freshlake.errors import SourceUnreadable
from freshlake.sources.delta.net import FileChange
from freshlake.sources.delta.vectors import _B85, _Z85, positions, vector_path
from freshlake.storage.scan import DataFile
from freshlake.storage.scan.actions import DeletionVector


def _text(data: bytes) -> str:
    padded = data + b"\0" * (-len(data) % 4)
    return base64.b85encode(padded).translate(bytes.maketrans(_B85, _Z85)).decode()


def _listed(key: int, values: list[int]) -> tuple[bytes, bytes]:
    return struct.pack("<HH", key, len(values) - 1), struct.pack(f"<{len(values)}H", *values)


def _bits(key: int, values: list[int]) -> tuple[bytes, bytes]:
    bitmap = bytearray(8192)
    for value in values:
        bitmap[value // 8] |= 1 << value % 8
    return struct.pack("<HH", key, len(values) - 1), bytes(bitmap)


def _without_runs(*containers: tuple[bytes, bytes]) -> bytes:
    headers, bodies = (b"".join(parts) for parts in zip(*containers, strict=True))
    return struct.pack("<II", 12346, len(containers)) + headers + b"\0" * 4 * len(containers) + bodies


def _with_runs(key: int, spans: list[tuple[int, int]]) -> bytes:
    total = sum(more + 1 for _, more in spans)
    body = struct.pack("<H", len(spans)) + b"".join(struct.pack("<HH", *span) for span in spans)
    return struct.pack("<I", 12347) + b"\1" + struct.pack("<HH", key, total - 1) + body


def _array(*bitmaps: tuple[int, bytes], magic: int = 1681511377) -> bytes:
    parts = b"".join(struct.pack("<i", high) + data for high, data in bitmaps)
    return struct.pack("<iq", magic, len(bitmaps)) + parts


def _inline(data: bytes, cardinality: int) -> DeletionVector:
    return DeletionVector("i", _text(data), None, len(data), cardinality)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (_array((0, _without_runs(_listed(0, [3, 7, 500])))), [3, 7, 500]),
        (_array((0, _without_runs(_listed(0, [1]), _listed(2, [5])))), [1, 2 * 65536 + 5]),
        (_array((0, _without_runs(_bits(1, list(range(0, 60000, 7)))))), [65536 + i for i in range(0, 60000, 7)]),
        (_array((0, _with_runs(0, [(10, 4), (100, 0)]))), [10, 11, 12, 13, 14, 100]),
        (_array((0, _without_runs(_listed(0, [1]))), (2, _without_runs(_listed(0, [9])))), [1, (2 << 32) + 9]),
        (_array(), []),
    ],
)
def test_every_container_is_decoded(data: bytes, expected: list[int]) -> None:
    assert positions("/table", _inline(data, len(expected))).to_pylist() == expected


def test_a_vector_in_a_file(tmp_path: Path) -> None:
    data = _array((0, _without_runs(_listed(0, [2, 4]))))
    name = uuid.uuid4()
    vector = DeletionVector("u", "ab" + _text(name.bytes), 1, len(data), 2)
    path = tmp_path / "ab" / f"deletion_vector_{name}.bin"
    path.parent.mkdir()
    path.write_bytes(b"\1" + struct.pack(">i", len(data)) + data + b"\0\0\0\0")
    assert vector_path(str(tmp_path), vector) == str(path)
    assert positions(str(tmp_path), vector).to_pylist() == [2, 4]
    absolute = DeletionVector("p", f"file:{path}", 1, len(data), 2)
    assert positions(str(tmp_path), absolute).to_pylist() == [2, 4]


def test_a_damaged_vector_is_refused() -> None:
    data = _array((0, _without_runs(_listed(0, [3, 7]))))
    with pytest.raises(SourceUnreadable, match="damaged"):
        positions("/table", _inline(data, 5))
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        positions("/table", _inline(_array((0, b""), magic=1), 0))
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        positions("/table", _inline(data[:-3], 2))


def test_only_the_difference_of_two_vectors_changes() -> None:
    old = _inline(_array((0, _without_runs(_listed(0, [1, 2])))), 2)
    new = _inline(_array((0, _without_runs(_listed(0, [2, 3, 4])))), 3)
    change = FileChange(DataFile("f", 1, 10), 0, ((old, -1), (new, 1)))
    expected = pa.table({"at": [1, 3, 4], "weight": [1, -1, -1]})
    assert change.corrections("/table").sort_by("at").equals(expected)
