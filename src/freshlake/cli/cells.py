"""Values as people read them: fields of Freshlake's own records, and the values of a query as SQL writes them."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from rich.text import Text

from freshlake.catalog.names import DEFAULT_SCHEMA
from freshlake.cli.plain import plain

_COLOURS = {
    "DIFFERENTIAL": "green",
    "NO_DATA": "dim",
    "FULL": "yellow",
    "REINITIALIZE": "yellow",
    "SKIPPED": "dim",
    "ACTIVE": "green",
    "COMPLETED": "green",
    "SUSPENDED": "yellow",
    "WARNING": "yellow",
    "ERROR": "red",
    "FAILED": "red",
}
_HEADINGS = {
    "duration_ms": "ms",
    "spark_jobs": "jobs",
    "rows_inserted": "rows +",
    "rows_deleted": "rows −",
    "rows_updated": "rows ±",
    "refresh_mode": "mode",
    "staleness_seconds": "stale",
    "is_stale": "too old",
    "effective_schedule": "effective",
    "schedule_note": "note",
}
# Fields that hold the name of a table.
_NAMES = ("table", "source")


def heading(name: str) -> str:
    """rows_inserted → rows +, duration_ms → ms, unfolded_versions → unfolded versions."""
    return _HEADINGS.get(name, name.replace("_", " "))


def field(name: str, value: Any) -> Text:
    """One field of a record; known words have their colour."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, datetime):
        return Text(value.astimezone().strftime("%Y-%m-%d %H:%M:%S"))
    if isinstance(value, int | float):
        return Text(duration(round(value)) if name.endswith("_seconds") else f"{round(value):,}")
    if isinstance(value, tuple | list):
        return Text(", ".join(map(str, value)))
    text = _text(value)
    return Text(text.removeprefix(f"{DEFAULT_SCHEMA}.") if name in _NAMES else text, style=_COLOURS.get(text, ""))


def sql(value: Any) -> Text:
    """One value of a query, in full."""
    if value is None:
        return Text("NULL", style="dim")
    return Text(f"{value:f}" if isinstance(value, Decimal) else _text(value))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def duration(seconds: int) -> str:
    """The two largest units: 45s, 3m 5s, 2h 10m, 4d 1h."""
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count or unit == "s")


def _text(value: Any) -> str:
    simple = plain(value)
    return simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False)
