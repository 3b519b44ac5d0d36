"""How each aggregate call is maintained: from exact state, with extremum recompute, or by recomputing its groups."""

from __future__ import annotations

import re
from enum import StrEnum

from freshlake.compiler.plan import Aggregate, Call, Column

ROWS = "__fl_n"
"""State column: number of input rows of the group."""

_SESSION = "spark.sessionWindow"
"""Spark's mark on a group key that it merges with neighbouring ones while it aggregates."""

_INTEGRAL = frozenset({"byte", "short", "integer", "long"})


class Tier(StrEnum):
    ALGEBRAIC = "algebraic"
    EXTREMUM = "extremum"
    RECOMPUTE = "recompute"


def decimal_of(kind: str) -> tuple[int, int] | None:
    """(precision, scale) wide enough for one value of an exact numeric type; None for other types."""
    if kind in _INTEGRAL:
        return (19, 0)
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind)
    return (int(match[1]), int(match[2])) if match else None


def tier(call: Call) -> Tier:
    if call.function == "Count" and not call.distinct:
        return Tier.ALGEBRAIC
    if call.function in ("Sum", "Average") and not call.distinct and call.finish and decimal_of(call.arg_types[0]):
        return Tier.ALGEBRAIC
    if call.function in ("Min", "Max"):
        return Tier.EXTREMUM
    return Tier.RECOMPUTE


def is_session(column: Column) -> bool:
    """Whether a group key is a session, which rows can join, split and prolong."""
    return _SESSION in column.metadata


def tier_of(aggregate: Aggregate) -> Tier:
    """The most demanding tier of the calls decides for the whole operator; no calls (DISTINCT) is a row count."""
    if any(is_session(c) for c in aggregate.columns):
        return Tier.RECOMPUTE
    tiers = {tier(c) for c in aggregate.calls}
    if Tier.RECOMPUTE in tiers:
        return Tier.RECOMPUTE
    return Tier.EXTREMUM if Tier.EXTREMUM in tiers else Tier.ALGEBRAIC


def state_columns(calls: tuple[Call, ...]) -> tuple[tuple[str, str], ...]:
    """(name, Spark JSON type) of the hidden state columns, the row count first."""
    columns = [(ROWS, "long")]
    for call in calls:
        i = call.slot
        if call.function in ("Sum", "Average"):
            scale = (decimal_of(call.arg_types[0]) or (0, 0))[1]
            columns.append((f"__fl_s{i}", f"decimal(38,{scale})"))
        if call.function in ("Min", "Max"):
            columns.append((f"__fl_m{i}", call.type))
        columns.append((f"__fl_n{i}", "long"))
    return tuple(columns)
