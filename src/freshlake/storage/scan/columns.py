"""Columns by name: which are wanted, and what the files call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from freshlake.errors import SourceSchemaChanged

PHYSICAL_NAME = "delta.columnMapping.physicalName"
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"\bchar\(")


def chosen(schema: StructType, columns: Sequence[str] | None) -> StructType:
    """The schema of the named columns, found without regard to case; all of them by default."""
    if columns is None:
        return schema
    fields = {field.name.lower(): field for field in schema}
    missing = [name for name in columns if name.lower() not in fields]
    if missing:
        raise SourceSchemaChanged(
            f"column {', '.join(missing)} does not exist", detail=f"columns: {', '.join(schema.names)}"
        )
    return StructType([fields[name.lower()] for name in columns])


def quoted(name: str) -> str:
    """A column name as an identifier for Spark."""
    return "`" + name.replace("`", "``") + "`"


def physical_name(field: StructField) -> str:
    """The column's name inside the data files: its own, unless the table maps columns by name."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name))


def physical(schema: StructType) -> StructType:
    """The schema as the data files have it. What Spark needs to pad CHAR columns stays."""
    return _with_fields(schema, lambda f: StructField(physical_name(f), f.dataType, f.nullable, _visible(f.metadata)))


def visible(schema: StructType) -> StructType:
    """The schema as a reader of the table sees it, without Delta's own notes."""
    return _with_fields(schema, lambda f: StructField(f.name, f.dataType, f.nullable, _visible(f.metadata)))


def is_char(field: StructField) -> bool:
    """Whether Spark pads the column, or a part of it, when it is read, so that the stored text is not the value."""
    return _CHAR.search(str(field.metadata.get(_CHAR_TYPE, ""))) is not None


def _visible(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if not key.startswith("delta.")}


def _with_fields(schema: StructType, change: Callable[[StructField], StructField]) -> StructType:
    def rebuilt(kind: DataType) -> DataType:
        if isinstance(kind, StructType):
            return StructType([change(StructField(f.name, rebuilt(f.dataType), f.nullable, f.metadata)) for f in kind])
        if isinstance(kind, ArrayType):
            return ArrayType(rebuilt(kind.elementType), kind.containsNull)
        if isinstance(kind, MapType):
            return MapType(rebuilt(kind.keyType), rebuilt(kind.valueType), kind.valueContainsNull)
        return kind

    return StructType([change(StructField(f.name, rebuilt(f.dataType), f.nullable, f.metadata)) for f in schema])
