"""Read the functions of a Catalyst window: handles, and whether they see the order of rows that the ORDER BY ties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from freshlake.compiler.bind_call import is_open
from freshlake.compiler.bind_expression import ExpressionBinder
from freshlake.compiler.plan import PLACE, TIES, Item

_BY_PLACE = frozenset(["RowNumber", "NTile"])
_BY_PEERS = frozenset(["Rank", "DenseRank", "PercentRank", "CumeDist"])


def bind_window_functions(expressions: list[Any], binder: ExpressionBinder) -> tuple[Item, ...]:
    items = binder.named(expressions)
    return tuple(_with_facts(i, e.child()) for i, e in zip(items, expressions, strict=True))


def _with_facts(item: Item, window: Any) -> Item:
    assert item.expr is not None
    return replace(item, expr=replace(item.expr, facts=item.expr.facts | _facts(window)))


def _facts(window: Any) -> frozenset[str]:
    function = window.windowFunction()
    kind = function.getClass().getSimpleName()
    if kind in _BY_PEERS:
        return frozenset()
    if kind in _BY_PLACE:
        return frozenset({TIES, PLACE})
    if kind == "AggregateExpression" and _has_whole_peers(window.windowSpec().frameSpecification()):
        return frozenset({TIES} if is_open(function.aggregateFunction()) else ())
    return frozenset({TIES})


def _has_whole_peers(frame: Any) -> bool:
    """Rows that are equal in the order are all in the frame or all out of it."""
    if frame.frameType().getClass().getSimpleName().startswith("RangeFrame"):
        return True
    ends = [side.getClass().getSimpleName() for side in (frame.lower(), frame.upper())]
    return [e.rstrip("$") for e in ends] == ["UnboundedPreceding", "UnboundedFollowing"]
