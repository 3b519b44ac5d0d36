"""Rows of a query as Arrow: copied out by the server as text, parsed and decoded in pieces of bounded size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

from freshlake.errors import ValueNotRepresentable
from freshlake.sources.postgres.events import weighted_rows
from freshlake.sources.postgres.naming import quoted
from freshlake.sources.postgres.tables import Captured

if TYPE_CHECKING:
    import psycopg

PIECE_BYTES = 8 * 1024 * 1024

_PARSE = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)


def copy_table(
    cursor: psycopg.Cursor[Any], table: Captured, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """All rows of a table as the cursor's transaction sees them, each with weight 1."""
    columns = ", ".join(quoted(name) for name in table.names)
    query = f"SELECT 1, {columns} FROM {table.table.quoted_name}"
    return copy_query(cursor, table, query, piece_bytes=piece_bytes)


def copy_query(
    cursor: psycopg.Cursor[Any], table: Captured, query: str, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of a query that gives a weight and then the captured columns."""
    # quotes tell an empty text from NULL, which is nothing at all
    with cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)") as lines:
        for piece in _pieces(lines, piece_bytes):
            texts = _parsed(piece, 1 + len(table.columns))
            try:
                rows = weighted_rows(table, texts[1:], texts[0].cast(pa.int64()))
            except ValueNotRepresentable:
                # read to its end, or the transaction could not go on with other tables
                deque(lines, maxlen=0)
                raise
            yield rows


def _pieces(lines: Iterable[Any], piece_bytes: int) -> Iterator[bytes]:
    """Whole rows, gathered until they are large enough; the server sends one row at a time."""
    piece = bytearray()
    for line in lines:
        piece += line
        if len(piece) >= piece_bytes:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _parsed(piece: bytes, count: int) -> list[pa.Array]:
    names = [str(number) for number in range(count)]
    table = csv.read_csv(
        pa.BufferReader(piece),
        # one block, because a value may be longer than any fixed size
        read_options=csv.ReadOptions(column_names=names, block_size=len(piece) + 1, use_threads=False),
        parse_options=_PARSE,
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [column.combine_chunks() for column in table.columns]
