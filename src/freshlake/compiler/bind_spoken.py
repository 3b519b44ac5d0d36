"""Moments that a query writes as text: 'now', 'today', 'yesterday' and 'tomorrow' in the place of a date or a time.

Spark puts its clock's value there, for a typed literal (`DATE 'today'`) when it parses the text, for a cast, also one
that a comparison implies, whenever it optimizes a plan. Here they become what they mean: functions of the current time.
"""

from __future__ import annotations

import json
import re
from typing import Any

from freshlake.compiler.bridge import CATALYST, Bridge, JavaError
from freshlake.compiler.origin import text_of
from freshlake.compiler.refusals import TIME_PLACE

_KINDS = {"date": "Date", "timestamp": "Timestamp", "timestamp_ntz": "TimestampNTZ"}
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WORD = r"\s*(now|today|yesterday|tomorrow)\b[^'\"]*"
_TYPED = re.compile(rf"\b(DATE|TIMESTAMP(?:_NTZ|_LTZ)?)\s*R?(?P<quote>['\"])(?P<text>{_WORD})(?P=quote)", re.IGNORECASE)


def at_moments(e: Any, written: str, b: Bridge) -> Any:
    """The expression, `written` in Spark's JSON, with functions of the current time in the place of texts."""
    if not any(_may_be_spoken(node) for node in json.loads(written)):
        return e
    return _replaced(e, b)


def refuse_moments(rows: Any) -> None:
    """Rows of VALUES are computed when the query is analyzed."""
    found = _TYPED.search(text_of(rows) or "")
    if found is not None:
        raise TIME_PLACE.raised(shown=found[0])


def _may_be_spoken(node: dict[str, Any]) -> bool:
    kind = str(node["class"]).rpartition(".")[2]
    return kind in ("Cast", "Literal") and str(node["dataType"]) in _KINDS


def _replaced(e: Any, b: Bridge) -> Any:
    kind, found = e.getClass().getSimpleName(), None
    if kind == "Literal":
        found = _of_literal(e, b)
    elif kind == "Cast":
        found = _of_cast(e, b)
    if found is not None:
        return found
    children = b.items(e.children())
    replaced = [_replaced(child, b) for child in children]
    same = all(new is old for new, old in zip(replaced, children, strict=True))
    return e if same else e.withNewChildren(b.seq(replaced))


def _of_literal(literal: Any, b: Bridge) -> Any:
    written = _TYPED.fullmatch((text_of(literal) or "").strip())
    if written is None:
        return None
    zone = str(b.spark.conf.get("spark.sql.session.timeZone"))
    return _moment(written["text"], literal, zone, b)


def _of_cast(cast: Any, b: Bridge) -> Any:
    child = cast.child()
    if cast.dataType().typeName() not in _KINDS or child.dataType().typeName() != "string" or not child.foldable():
        return None
    try:
        value = child.eval(None)
    except JavaError:  # it may stand where it is never computed
        return None
    return None if value is None else _moment(value.toString(), cast, cast.timeZoneId().get(), b)


def _moment(text: str, e: Any, zone: str, b: Bridge) -> Any:
    """What a text says of the current time, in the type of `e`; None if it says something else."""
    word = re.match(_WORD, text, re.IGNORECASE)
    kind, times = e.dataType().typeName(), b.module(CATALYST + "util.DateTimeUtils")
    special = getattr(times, f"convertSpecial{_KINDS[kind]}")(text, times.getZoneId(zone))
    if word is None or special.isEmpty():
        return None
    at = b.module(CATALYST + "trees.CurrentOrigin")
    before = at.get()
    at.set(e.origin())  # so that a refusal can say where it stands
    try:
        return _function(word[1].lower(), e, b.some(zone), b)
    finally:
        at.set(before)


def _function(word: str, e: Any, zone: Any, b: Bridge) -> Any:
    x, kind = b.expressions, e.dataType().typeName()
    if word == "now" and kind != "date":
        return x.CurrentTimestamp() if kind == "timestamp" else x.LocalTimestamp(zone)
    day = x.CurrentDate(zone)
    if shift := _DAYS.get(word, 0):
        day = x.DateAdd(day, b.module(CATALYST + "expressions.Literal").apply(shift))
    return day if kind == "date" else x.Cast(day, e.dataType(), zone)
