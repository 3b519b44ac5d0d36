"""Dates, timestamps and intervals: arithmetic, date_trunc, extract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freshlake.dialect import types as t
from freshlake.dialect.intervals import DAY, Interval
from freshlake.dialect.tree import binary, call, cast, exp, number, string
from freshlake.dialect.typed import AFTER, CAST, Typed, is_literal
from freshlake.dialect.types import Type

if TYPE_CHECKING:
    from freshlake.dialect.calling import Call
    from freshlake.dialect.expressions import Expressions

_FIELDS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "weekofyear",
    "day": "day",
    "doy": "dayofyear",
}
_CLOCK = {"hour": "hour", "minute": "minute"}
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def moment_arithmetic(x: Expressions, sign: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    a, b = left.type, right.type
    if sign == "+" and (a == t.INTERVAL or a.is_int) and b.is_moment:
        left, right, a, b = right, left, b, a
    if sign in "+-":
        if a == t.DATE and b.is_int:
            return Typed(call("date_add" if sign == "+" else "date_sub", left.node, right.node), t.DATE)
        if sign == "-" and a == b == t.DATE:
            return Typed(call("datediff", left.node, right.node), t.INT4)
        if sign == "-" and a == b and a.is_moment:
            return Typed(binary(exp.Sub, left.node, right.node), t.INTERVAL)
        if a.is_moment and b == t.INTERVAL:
            return _shifted(x, sign, left, right, node)
        if a == b == t.INTERVAL and not _has_months(left) and not _has_months(right):
            return Typed(binary(exp.Add if sign == "+" else exp.Sub, left.node, right.node), t.INTERVAL)
    if sign == "*" and {a, b} >= {t.INTERVAL} and (a.is_int or b.is_int):
        return _repeated(x, left, right, node)
    raise x.refuse(f"{a} {sign} {b}", "this operator has no translation for these types", CAST, node)


def _has_months(value: Typed) -> bool:
    return value.interval is not None and value.interval.months != 0


def _shifted(x: Expressions, sign: str, moment: Typed, by: Typed, node: exp.Expr) -> Typed:
    """A date becomes a timestamp, as in PostgreSQL; months are added before days."""
    zoned = moment.type == t.TIMESTAMPTZ
    if zoned and (by.interval is None or abs(by.interval.micros) >= DAY):
        reason = "24 hours and one day differ where clocks change, and Spark takes them for the same"
        raise x.refuse("timestamptz with such an interval", reason, "write whole days, or cast to timestamp", node)
    base = cast(moment.node, "TIMESTAMP_NTZ") if moment.type == t.DATE else moment.node
    steps = [exp.Var(this=s) for s in by.interval.spark()] if by.interval is not None else [by.node]
    for step in steps:
        base = binary(exp.Add if sign == "+" else exp.Sub, base, step)
    return Typed(base, t.TIMESTAMPTZ if zoned else t.TIMESTAMP)


def _repeated(x: Expressions, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    interval, times = (left, right) if left.type == t.INTERVAL else (right, left)
    if interval.interval is not None and len(interval.interval.spark()) > 1:
        reason = "Spark has no interval with months and days"
        raise x.refuse("a multiple of such an interval", reason, "use months only, or days only", node)
    if _has_months(interval):
        reason = "whether the result has months is not known where it is used"
        raise x.refuse("a multiple of months", reason, "write the number of months into the interval", node)
    return Typed(binary(exp.Mul, interval.node, times.node), t.INTERVAL)


# date_trunc ----------------------------------------------------------------------------------------------------------


def date_trunc(x: Expressions, c: Call) -> Typed:
    unit = c.args[0] if len(c.args) == 2 else None
    word = str(unit.this).lower() if unit is not None and is_literal(unit, text=True) else ""
    if word not in _UNITS:
        shown = f"date_trunc('{word}')" if word else "date_trunc of this form"
        raise x.refuse(shown, "this unit has no proven translation", f"use one of {', '.join(_UNITS)}", c.node)
    value = x.typed(c.args[1], "date_trunc")
    if value.type == t.TIMESTAMP:
        return Typed(_truncated(value.node, word), t.TIMESTAMP)
    if value.type in (t.DATE, t.TIMESTAMPTZ):
        return Typed(call("date_trunc", string(word.upper()), value.node), t.TIMESTAMPTZ)
    raise x.refuse(f"date_trunc of {value.type}", "only dates and timestamps have a translation", CAST, c.node)


def _truncated(value: exp.Expr, unit: str) -> exp.Expr:
    """Spark's own date_trunc goes through the session's time zone, where some hours do not exist."""
    if unit in ("hour", "minute", "second"):
        seconds = exp.Extract(this=exp.Var(this="SECOND"), expression=value.copy())
        fraction = binary(exp.Sub, seconds, call("second", value))
        minutes = call("minute", value) if unit == "hour" else number(0)
        rest = fraction if unit == "second" else seconds
        return binary(exp.Sub, value, call("make_dt_interval", number(0), number(0), minutes, rest))
    day = cast(value, "DATE")
    return cast(day if unit == "day" else call("trunc", day, string(unit.upper())), "TIMESTAMP_NTZ")


# extract -------------------------------------------------------------------------------------------------------------


def extract(x: Expressions, field: str, operand: exp.Expr, node: exp.Expr) -> Typed:
    value = x.typed(operand, "extract")
    kind = value.type
    done: exp.Expr | None = None
    if field == "epoch":
        done = _epoch(value)
        if done is not None:
            return Typed(done, t.numeric(20, 6))
    elif kind.is_moment:
        done = _field(field, value.node, kind)
    if done is None:
        raise x.refuse(f"extract({field} from {kind})", "this field has no proven translation", AFTER, node)
    return Typed(done, t.numeric(8, 6) if field == "second" else t.numeric(10, 0))


def _field(field: str, value: exp.Expr, kind: Type) -> exp.Expr | None:
    if field in _FIELDS:
        return call(_FIELDS[field], value)
    if field == "dow":
        return exp.Sub(this=call("dayofweek", value), expression=number(1))
    if field == "isodow":
        return exp.Add(this=call("weekday", value), expression=number(1))
    if field == "isoyear":
        return exp.Extract(this=exp.Var(this="YEAROFWEEK"), expression=value.copy())
    if kind == t.DATE:
        return None
    if field in _CLOCK:
        return call(_CLOCK[field], value)
    return exp.Extract(this=exp.Var(this="SECOND"), expression=value.copy()) if field == "second" else None


def _epoch(value: Typed) -> exp.Expr | None:
    """Seconds with six digits, from the difference to 1970."""
    node = value.node
    if value.type == t.TIMESTAMPTZ:
        micros = call("unix_micros", node)
        return cast(binary(exp.Mul, micros, exp.Literal.number("0.000001")), "DECIMAL(20, 6)")
    if value.type == t.DATE:
        node = cast(node, "TIMESTAMP_NTZ")
    if value.type in (t.DATE, t.TIMESTAMP):
        node = binary(exp.Sub, node, exp.Var(this="TIMESTAMP_NTZ'1970-01-01'"))
    elif value.type != t.INTERVAL or (value.interval or Interval()).months:
        return None
    seconds = exp.Cast(this=node.copy(), to=exp.DataType.build("INTERVAL SECOND", dialect="spark"))
    return cast(seconds, "DECIMAL(20, 6)")


def date_part(x: Expressions, c: Call) -> Typed:
    """The older form of extract; its result is a double."""
    if len(c.args) != 2 or not is_literal(c.args[0], text=True):
        raise x.refuse("date_part of this form", "the field must be a constant", "use extract(field from …)", c.node)
    found = extract(x, str(c.args[0].this).lower(), c.args[1], c.node)
    return Typed(cast(found.node, "DOUBLE"), t.FLOAT8)
