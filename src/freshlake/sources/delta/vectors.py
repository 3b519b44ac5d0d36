"""Deletion vectors: positions of deleted rows, decoded from Delta's roaring bitmaps."""

from __future__ import annotations

import base64
import os
import struct
import uuid
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from freshlake.errors import SourceUnreadable
from freshlake.storage.scan.actions import DeletionVector
from freshlake.storage.scan.paths import locate

_PORTABLE = 1681511377
_NO_RUNS, _RUNS = 12346, 12347
_MAX_LISTED, _BITMAP_BYTES = 4096, 8192  # a container lists so many values; beyond that it is a bitmap
_UUID_CHARS = 20  # a UUID in base 85; what stands before it is a folder
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)


def vector_path(table: str, vector: DeletionVector) -> str | None:
    """The file that holds a vector; None when it is stored inside the log."""
    if vector.storage == "i":
        return None
    if vector.storage == "p":
        return locate(table, vector.location)
    folder, encoded = vector.location[:-_UUID_CHARS], vector.location[-_UUID_CHARS:]
    name = f"deletion_vector_{uuid.UUID(bytes=_decode85(encoded))}.bin"
    return os.path.join(table, folder, name)


@lru_cache(maxsize=64)
def positions(table: str, vector: DeletionVector) -> pa.Array:
    """The deleted positions of a file, ascending."""
    try:
        found = _bitmaps(_data(table, vector))
    except (struct.error, ValueError) as error:
        raise SourceUnreadable(f"a deletion vector of {table} cannot be read", detail=str(error)) from error
    if len(found) != vector.cardinality:
        detail = f"{len(found)} positions instead of {vector.cardinality}"
        raise SourceUnreadable(f"a deletion vector of {table} is damaged", detail=detail)
    return found


def _data(table: str, vector: DeletionVector) -> bytes:
    path = vector_path(table, vector)
    if path is None:
        return _decode85(vector.location)[: vector.size]
    with open(path, "rb") as file:
        file.seek(vector.offset or 0)
        (size,) = struct.unpack(">i", file.read(4))
        if size != vector.size:
            raise ValueError(f"{path} holds {size} bytes instead of {vector.size}")
        return file.read(size)


def _decode85(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(_TO_B85))


def _bitmaps(data: bytes) -> pa.Array:
    magic, count = struct.unpack_from("<iq", data)
    if magic != _PORTABLE:
        raise ValueError(f"unknown format {magic}")
    parts, at = [], 12
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, at)
        low, at = _bitmap(data, at + 4)
        parts.append(pc.add(low, high << 32))
    return _joined(parts)


def _bitmap(data: bytes, at: int) -> tuple[pa.Array, int]:
    """One 32-bit roaring bitmap in the portable format, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = int.from_bytes(data[at + 4 : at + 4 + (count + 7) // 8], "little")
        head, has_offsets = at + 4 + (count + 7) // 8, count >= 4
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, at + 4)
        flags, head, has_offsets = 0, at + 8, True
    else:
        raise ValueError(f"unknown bitmap {cookie}")
    cursor = head + 4 * count + (4 * count if has_offsets else 0)
    parts = []
    for i in range(count):
        key, less_one = struct.unpack_from("<HH", data, head + 4 * i)
        values, cursor = _container(data, cursor, less_one + 1, bool(flags >> i & 1))
        parts.append(pc.add(values, key << 16))
    return _joined(parts), cursor


def _container(data: bytes, at: int, cardinality: int, run: bool) -> tuple[pa.Array, int]:
    if run:
        (count,) = struct.unpack_from("<H", data, at)
        pairs = struct.unpack_from(f"<{2 * count}H", data, at + 2)
        spans = [pa.arange(first, first + more + 1) for first, more in zip(pairs[::2], pairs[1::2], strict=True)]
        return _joined(spans), at + 2 + 4 * count
    if cardinality <= _MAX_LISTED:
        return pa.array(struct.unpack_from(f"<{cardinality}H", data, at), pa.int64()), at + 2 * cardinality
    bits = pa.Array.from_buffers(pa.bool_(), 1 << 16, [None, pa.py_buffer(data[at : at + _BITMAP_BYTES])])
    return pc.cast(pc.indices_nonzero(bits), pa.int64()), at + _BITMAP_BYTES


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())
