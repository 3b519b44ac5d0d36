"""Columns of a view that fail when they are read: a definition may name them, and gets their values before it runs."""

from __future__ import annotations

from typing import Any

from freshlake.compiler.bridge import Bridge

_MARK = "is not captured, because no stream table reads it"


def guarded(column: str, label: str) -> str:
    """An expression of SQL for a column without values; whoever reads it learns why there are none."""
    words = f"column {label} {_MARK}".replace("\\", "\\\\").replace("'", "\\'")
    return f"coalesce({column}, raise_error('{words}'))"


def without_guards(items: list[Any], bridge: Bridge) -> list[Any]:
    """The same columns of a projection without what keeps readers from them."""
    return [_without_guard(item, bridge) for item in items]


def _without_guard(item: Any, bridge: Bridge) -> Any:
    if item.nodeName() != "Alias" or item.child().nodeName() != "Coalesce" or _MARK not in item.child().toString():
        return item
    return item.withNewChildren(bridge.seq([item.child().children().head()]))
