"""What the rules of stored nodes share: reading the stored rows of some keys, and the change that replaces them."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import restrict
from freshlake.compiler.rules.weights import COLUMN, negate, weighted
from freshlake.compiler.split import Node


def looked_up(stored: p.Plan, keys: p.Plan | None, names: Sequence[str]) -> p.Plan:
    """The stored rows of some keys, perhaps with others: a look-up on the driver may find more than was asked for."""
    if keys is None or not names:
        return stored
    restricted = restrict(stored, keys, [(n, n) for n in names])
    assert isinstance(restricted, p.SemiJoin)
    inner = restricted.inputs[0]
    return inner if isinstance(inner, p.SemiJoin) else restricted


def difference(node: Node, new: p.Plan, old: p.Plan) -> p.Plan:
    """The change that puts `new` in the place of the stored rows `old`."""
    names = tuple(p.Item(c.name) for c in node.columns)
    replaced = p.project(shown(node, new), names, node.output)
    stored = p.project(old, names, node.output)
    return p.Union((*node.output, COLUMN), (weighted(replaced), negate(stored)))


def shown(node: Node, rows: p.Plan) -> p.Plan:
    """Apply the projections above the operator, hidden columns carried along."""
    for above in reversed(node.above):
        own = {i.name for i in above.items}
        hidden = tuple(p.Item(n) for n in node.hidden if n not in own)
        rows = p.project(rows, (*above.items, *hidden), (*above.columns, *node.output))
    return p.project(rows, tuple(p.Item(c.name) for c in node.columns), node.output)
