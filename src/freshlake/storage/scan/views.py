"""Columns of Arrow's view types, which other writers note in their files and Arrow itself cannot pick rows from."""

from __future__ import annotations

import pyarrow as pa


def without_views(rows: pa.Table) -> pa.Table:
    """The same rows with plain strings and binaries, also inside lists, structs and maps."""
    schema = pa.schema([field.with_type(_plain(field.type)) for field in rows.schema])
    return rows if schema == rows.schema else rows.cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind
