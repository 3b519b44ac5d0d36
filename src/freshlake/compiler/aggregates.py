"""How each aggregate call is maintained: from exact state, with extremum recompute, or by recomputing its groups."""

from __future__ import annotations

import re

from freshlake.compiler.aggregate_functions import Tier, function_of
from freshlake.compiler.plan import Aggregate, Call, Column

ROWS = "__fl_n"
"""State column: number of input rows of the group."""

_SESSION = "spark.sessionWindow"
"""Spark's mark on a group key that it merges with neighbouring ones while it aggregates."""

SAFE = 28
"""Digits of a value up to which ten billion of them, or one times a weight, fit the 38 digits of a state."""

_INTEGRAL = frozenset({"byte", "short", "integer", "long"})


def decimal_of(kind: str) -> tuple[int, int] | None:
    """(precision, scale) wide enough for one value of an exact numeric type; None for other types."""
    if kind in _INTEGRAL:
        return (19, 0)
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind)
    return (int(match[1]), int(match[2])) if match else None


def tier(call: Call) -> Tier:
    """What the table says of the function, for a call that Freshlake can finish from state of its own."""
    known = function_of(call.function).tier
    return known if call.finish is not None and not call.distinct else Tier.RECOMPUTE


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


__all__ = ["ROWS", "SAFE", "Tier", "decimal_of", "is_session", "state_columns", "tier", "tier_of"]
