"""Key values as SQL conditions. Text, because a thousand literals made one by one through py4j take seconds."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
)

from freshlake.storage.scan.columns import quoted
from freshlake.storage.scan.files import KeyFilter

_SUFFIX: dict[type[DataType], str] = {ByteType: "Y", ShortType: "S", IntegerType: "", LongType: "L"}


def condition(field: StructField, key: KeyFilter, most: int) -> str:
    """True for every row that may have the keys; more than `most` values become their range."""
    column = quoted(field.name)
    values = [value for value in key.values if value is not None]
    terms = []
    if len(values) > most:
        terms.append(f"{column} BETWEEN {literal(field, min(values))} AND {literal(field, max(values))}")
    elif values:
        terms.append(f"{column} IN ({', '.join(literal(field, value) for value in values)})")
    if key.has_null or len(values) < len(key.values):
        terms.append(f"{column} IS NULL")
    return " OR ".join(terms) or "false"


def literal(field: StructField, value: Any) -> str:
    kind = field.dataType
    suffix = _SUFFIX.get(type(kind))
    if suffix is not None and isinstance(value, int):
        return f"{value}{suffix}"
    if isinstance(kind, DateType):
        return f"DATE'{value}'"
    if isinstance(value, str):
        if isinstance(kind, StringType) and value.isascii() and value.isalnum():
            return f"'{value}'"
        # the bytes of a string need no escaping
        return f"CAST(X'{value.encode().hex()}' AS {kind.simpleString()})"
    return f"CAST('{value}' AS {kind.simpleString()})"
