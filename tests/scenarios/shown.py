"""Rows as they are written in a scenario file: one line each, values side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Row

NULL = "NULL"


def shown(row: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(value, row))


def value(item: Any) -> str:
    """Numbers, dates and words as they are; text that could be taken for something else in quotes."""
    if item is None:
        return NULL
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str):
        plain = re.fullmatch(r"[^\s',\[\]{}]+", item) and item not in (NULL, "true", "false")
        return item if plain else "'" + item.replace("'", "''") + "'"
    if isinstance(item, Row):
        return "{" + ",".join(map(value, item)) + "}"
    if isinstance(item, Mapping):
        return "{" + ",".join(sorted(f"{value(k)}:{value(v)}" for k, v in item.items())) + "}"
    if isinstance(item, list):
        return "[" + ",".join(map(value, item)) + "]"
    return value(str(item))
