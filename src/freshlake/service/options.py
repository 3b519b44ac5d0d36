"""Options of a stream table: what the user gave, checked and as the catalog keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from pyspark.sql.types import StructType

from freshlake.catalog.enums import CdcMode, FoldPolicy, RefreshMode, Status
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.refusals import RESULT_TYPE
from freshlake.errors import InvalidArgument, Unsupported
from freshlake.refresh.shape import node_schema
from freshlake.schedule.expression import parse_schedule
from freshlake.schedule.state import Consistency, Policy
from freshlake.schedule.tiers import Declared
from freshlake.storage.layout import stored_schema as as_stored
from freshlake.storage.partitions import check_partitions
from freshlake.storage.read import stored_columns
from freshlake.words import word

INHERIT = "inherit"
"""The `cdc_mode` of a table that asks for nothing: each source is captured as it says itself."""

DEFAULTS: Mapping[str, Any] = {
    "schedule": "calculated",
    "refresh_mode": RefreshMode.AUTO,
    "fold_policy": FoldPolicy.AUTO,
    "append_only": False,
    "partition_by": (),
    "tier": Declared.HOT,
    "diamond_consistency": Consistency.ATOMIC,
    "diamond_schedule_policy": Policy.FASTEST,
    "never_full": False,
    "max_full_rows": 0,
    "max_full_seconds": 0,
    "fuse_rows": 0,
    "cdc_mode": INHERIT,
}
"""What an option means that is not given when a table is created or replaced."""

NAMES = (*DEFAULTS, "status")

Reader = Callable[[Any, int], dict[str, Any]]
"""From a value and the shortest schedule in seconds to columns of the catalog."""


def stored_as(name: str) -> str:
    """The column of the catalog that keeps an option."""
    return "requested_cdc_mode" if name == "cdc_mode" else name


def checked(given: Mapping[str, Any], *, floor_seconds: int) -> dict[str, Any]:
    """The columns of the catalog for the options that are given; None means not given."""
    columns: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            columns |= _READERS[name](value, floor_seconds)
    return columns


def partition_columns(names: Sequence[str], compiled: CompiledQuery) -> tuple[str, ...]:
    """Partition columns as the query spells them; raises where its result cannot be partitioned so."""
    labels = {column.field.lower(): column.field for column in compiled.root.visible}
    for name in names:
        if name.lower() not in labels:
            raise InvalidArgument(
                f"partition column {name} is not in the query's output", hint=f"use one of {', '.join(sorted(labels))}"
            )
    found = tuple(dict.fromkeys(labels[name.lower()] for name in names))
    stored = check_storable(compiled)
    check_partitions(stored, stored_columns(stored, found))
    return found


def check_storable(compiled: CompiledQuery) -> StructType:
    """The result as Delta stores it; raises where it cannot."""
    try:
        return as_stored(node_schema(compiled.root))
    except Unsupported as error:
        error.construct, error.detail = RESULT_TYPE.construct, error.detail or RESULT_TYPE.reason
        raise


def _schedule(text: str, floor_seconds: int) -> dict[str, Any]:
    parsed = parse_schedule(text, floor_seconds=floor_seconds)
    kept = None if str(parsed).lower() == "calculated" else str(parsed)
    return {"schedule": kept, "effective_schedule": kept}


def _status(text: str, _: int) -> dict[str, Any]:
    given = text.strip().upper()
    if given == Status.ACTIVE:
        return {"status": Status.ACTIVE, "consecutive_errors": 0, "retries": 0, "retry_at": None}
    if given == Status.SUSPENDED:
        return {"status": Status.SUSPENDED}
    raise InvalidArgument(f"'{text}' is not a status that can be set", hint="use ACTIVE or SUSPENDED")


def _yes_or_no(name: str) -> Reader:
    def read(value: bool | str, _: int) -> dict[str, Any]:
        words = {"true": True, "false": False}
        if str(value).lower() not in words:
            raise InvalidArgument(f"{name} cannot be '{value}'", hint="use true or false")
        return {name: words[str(value).lower()]}

    return read


def _limit(name: str, what: str = "rows", digits: int = 18) -> Reader:
    """A number of rows or of something else; 0 is no limit, which the catalog keeps as NULL."""

    def read(value: int | str, _: int) -> dict[str, Any]:
        text = str(value).strip().replace("_", "")
        if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > digits:
            raise InvalidArgument(f"{name} cannot be '{value}'", hint=f"use a number of {what}, or 0 for no limit")
        return {name: int(text) or None}

    return read


def needs_rules(mode: RefreshMode, never_full: bool) -> bool:
    """Whether a table must have another way to be refreshed than to recompute it."""
    if never_full and mode is RefreshMode.FULL:
        raise InvalidArgument(
            "never_full does not go together with the refresh mode FULL",
            hint="use the refresh mode AUTO, or never_full = false",
        )
    return never_full or mode in (RefreshMode.DIFFERENTIAL, RefreshMode.IMMEDIATE)


def scheduled(
    mode: RefreshMode, before: RefreshMode | None, given: Mapping[str, Any], *, floor_seconds: int
) -> dict[str, Any]:
    """What a mode means for the schedule: one in mode IMMEDIATE has none, and gets one when it leaves the mode."""
    if mode is RefreshMode.IMMEDIATE:
        if given.get("schedule") is not None:
            raise InvalidArgument(
                "a stream table in mode IMMEDIATE has no schedule", hint="it follows the writes of its sources"
            )
        return {"schedule": None, "effective_schedule": None}
    if before is RefreshMode.IMMEDIATE and "schedule" not in given:
        return _schedule(f"{max(60, floor_seconds)}s", floor_seconds)
    return {}


def _cdc_mode(text: str, _: int) -> dict[str, Any]:
    return {stored_as("cdc_mode"): None if text.strip().lower() == INHERIT else word(CdcMode, text, "a cdc_mode")}


def _partition_by(value: Sequence[str] | str, _: int) -> dict[str, Any]:
    names = value.split(",") if isinstance(value, str) else value
    return {"partition_by": tuple(name.strip() for name in names if name.strip())}


def _word(name: str, kind: type[StrEnum]) -> Reader:
    return lambda text, _: {name: word(kind, text, f"a {name}")}


_READERS: Mapping[str, Reader] = {
    "schedule": _schedule,
    "refresh_mode": lambda text, _: {"refresh_mode": RefreshMode.parse(text)},
    "fold_policy": lambda text, _: {"fold_policy": FoldPolicy.parse(text)},
    "status": _status,
    "append_only": _yes_or_no("append_only"),
    "partition_by": _partition_by,
    "tier": _word("tier", Declared),
    "diamond_consistency": _word("diamond_consistency", Consistency),
    "diamond_schedule_policy": _word("diamond_schedule_policy", Policy),
    "never_full": _yes_or_no("never_full"),
    "max_full_rows": _limit("max_full_rows"),
    "max_full_seconds": _limit("max_full_seconds", "seconds", 9),
    "fuse_rows": _limit("fuse_rows"),
    "cdc_mode": _cdc_mode,
}
