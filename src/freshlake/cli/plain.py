"""Records, rows and values as plain data that JSON can hold, without losing what they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any


def plain(value: Any) -> Any:
    """`value` in terms of dict, list, str, int, float, bool and None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        # JSON has no word for these
        return value if math.isfinite(value) else str(value)
    return _composite(value)


def _composite(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal | PurePath | timedelta):
        return str(value)
    if is_record(value):
        return {name: plain(item) for name, item in fields(value).items()}
    if isinstance(value, Sequence | Set):
        return [plain(item) for item in value]
    return str(value)


def is_record(value: Any) -> bool:
    """A dataclass, a Spark row or a mapping: something with named fields."""
    return isinstance(value, Mapping) or hasattr(value, "asDict") or dataclasses.is_dataclass(value)


def fields(record: Any) -> dict[str, Any]:
    """The named fields of a record, in order."""
    if isinstance(record, Mapping):
        return {str(name): value for name, value in record.items()}
    if hasattr(record, "asDict"):
        return dict(record.asDict())
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
