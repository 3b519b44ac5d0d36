"""What changed between two schemas, column by column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from freshlake.storage.scan.columns import physical

_COLUMN_ID = "delta.columnMapping.id"


@dataclass(frozen=True)
class SchemaChange:
    """Columns that are new, and old columns that are no longer what they were; `reasons` says how."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed)

    def __add__(self, other: SchemaChange) -> SchemaChange:
        return SchemaChange(
            tuple(dict.fromkeys(self.added + other.added)),
            tuple(dict.fromkeys(self.changed + other.changed)),
            tuple(dict.fromkeys(self.reasons + other.reasons)),
        )


def table_schema(metadata: Mapping[str, Any]) -> StructType:
    """The Spark schema of a `metaData` action."""
    return StructType.fromJson(json.loads(metadata["schemaString"]))


def compare(old: StructType, new: StructType) -> SchemaChange:
    """What became of each column. Comments and nullability do not matter to the rows."""
    mapped = all(_COLUMN_ID in field.metadata for schema in (old, new) for field in schema)
    before, after = ({_identity(field, mapped): field for field in schema} for schema in (old, new))
    changes = SchemaChange()
    for key, field in before.items():
        changes += _gone(field, after) if key not in after else _altered(field, after[key])
    return changes + _new([field for key, field in after.items() if key not in before], old)


def same_files(schemas: Sequence[StructType], columns: Sequence[str]) -> bool:
    """Whether the columns are called the same inside the files all along: a table may stop mapping its columns."""
    wanted = {name.lower() for name in columns}
    called: dict[str, set[str]] = {}
    for schema in schemas:
        for field in schema:
            if field.name.lower() in wanted:
                called.setdefault(field.name.lower(), set()).add(physical(StructType([field])).simpleString())
    return all(len(names) == 1 for names in called.values())


def _identity(field: StructField, mapped: bool) -> Any:
    """With column mapping a column is known by its id, so a rename is seen as one; otherwise by its name."""
    return field.metadata[_COLUMN_ID] if mapped else field.name.lower()


def _gone(field: StructField, after: Mapping[Any, StructField]) -> SchemaChange:
    how = "replaced" if field.name.lower() in {f.name.lower() for f in after.values()} else "dropped"
    return SchemaChange(changed=(field.name,), reasons=(f"column {field.name} was {how}",))


def _altered(old: StructField, new: StructField) -> SchemaChange:
    changes = SchemaChange()
    if old.name.lower() != new.name.lower():
        changes += SchemaChange((new.name,), (old.name,), (f"column {old.name} was renamed to {new.name}",))
    if _shape(old.dataType) != _shape(new.dataType) or _text_type(old) != _text_type(new):
        before, after = _text_type(old), _text_type(new)
        changes += SchemaChange((), (old.name,), (f"column {old.name} changed from {before} to {after}",))
    return changes


def _new(fields: list[StructField], old: StructType) -> SchemaChange:
    known = {field.name.lower() for field in old}
    names = tuple(field.name for field in fields if field.name.lower() not in known)
    return SchemaChange(names, (), tuple(f"column {name} was added" for name in names))


def _shape(kind: DataType) -> str:
    return kind.simpleString().lower()


def _text_type(field: StructField) -> str:
    return str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING") or field.dataType.simpleString())
