"""The current time as a source: a relation of one row that every refresh pins, and where its value may be used."""

from __future__ import annotations

from freshlake.compiler import plan as p

NOW = "now"
"""The key of the source; keys of tables are paths."""
TITLE = "current time"
CURRENT_TIMESTAMP = "current_timestamp"
CURRENT_DATE = "current_date"
LOCALTIMESTAMP = "localtimestamp"


def field_of(function: str, zone: str | None) -> str:
    """The field of the source that holds a function's value: `current_date Europe/Berlin`, say."""
    return function if zone is None else f"{function} {zone}"


def is_now(plan: p.Plan) -> bool:
    return isinstance(plan, p.Scan) and plan.source == NOW


def in_result(plan: p.Plan) -> tuple[p.Column, ...]:
    """Fields of the current time whose value gets into rows or groups, so that all of them change with it: one for
    each function, which its label names.

    Inside conditions the value only decides which rows there are, and few of them come and go between two moments.
    """
    found: dict[p.Column, None] = {}
    found |= dict.fromkeys(_carried(plan, found).values())
    return tuple({c.label: c for c in reversed(found)}.values())[::-1]


def _carried(plan: p.Plan, found: dict[p.Column, None]) -> dict[str, p.Column]:
    """Output columns that are made from the time, with the field that gave it."""
    below = [_carried(c, found) for c in plan.children]
    merged = {name: function for columns in below for name, function in columns.items()}
    match plan:
        case p.Scan() if is_now(plan):
            return {c.name: c for c in plan.columns}
        case p.Project():
            return {i.name: merged[r] for i in plan.items for r in i.reads if r in merged}
        case p.Filter() | p.InnerJoin() | p.Join():
            return {n: merged[n] for n in plan.names if n in merged}
        case p.Union():
            places = [zip(plan.names, c.names, strict=True) for c in plan.inputs]
            return {name: merged[n] for pairs in places for name, n in pairs if n in merged}
        case p.Aggregate():
            reads = {r for k in plan.keys for r in k.reads} | {c for call in plan.calls for c in call.columns}
            found |= {merged[r]: None for r in reads if r in merged}
            return {}
    found |= dict.fromkeys(merged.values())
    return {}
