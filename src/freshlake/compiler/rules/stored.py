"""What the rules of stored nodes share: the keys that a change touches, their stored rows, the change that replaces
them, and computing something only when it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import restrict
from freshlake.compiler.rules.rule import Build
from freshlake.compiler.rules.weights import COLUMN, negate, weighted
from freshlake.compiler.split import Node
from freshlake.compiler.walk import is_at_hand, origin


def keys_at_hand(change: p.Plan, keys: Sequence[p.Item], types: Sequence[p.Column]) -> p.Plan | None:
    """The keys of the change's rows, if their values can be read from it without running it first."""
    if not is_at_hand(change):
        return None
    found = p.project(change, keys, types)
    return found if all(origin(found, k.name) for k in keys) else None


def touched(change: p.Plan, keys: Sequence[p.Item], types: Sequence[p.Column], build: Build) -> p.Plan | None:
    """The keys K of both signs of a change, each at least once; None without keys, when everything is touched."""
    if not keys:
        return None
    found = keys_at_hand(change, keys, types)
    if found is not None:
        return found
    rows = p.project(change, keys, types)
    return build.share(p.Group(rows.columns, rows, rows.names, ()), "keys that the change touches")


def recomputed(node: Node, new: p.Plan, keys: p.Plan | None, names: Sequence[str], build: Build) -> p.Plan:
    """Q(X₁)|K − stored|K, where `new` is the operator over the current input of the keys K."""
    old = build.share(looked_up(build.stored(node), keys, names), "stored rows of those keys")
    if keys is not None:
        # a lookup may return more keys than asked for; of those that are not computed again nothing may be removed
        old = p.SemiJoin(old.columns, (old, keys), tuple((k, k) for k in names))
    return difference(node, new, old)


def given(rows: p.Plan, by: p.Plan) -> p.Plan:
    """`rows`, for which an empty `by` means that there are none to compute."""
    return p.Given(rows.columns, (rows, by))


def only_if(flagged: p.Plan, flag: str, rows: p.Plan) -> p.Plan:
    """`rows`, tied to the one row that says they are needed: without it they are not even read."""
    mark = p.project(flagged, [p.Item("__fl_again", p.column_expr(flag))])
    return p.InnerJoin((*rows.columns, *mark.columns), (rows, mark), ())


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
    """Apply the projections and filters above the operator, hidden columns and the weight carried along."""
    carried = (*node.hidden, *((p.WEIGHT,) if p.WEIGHT in rows.names else ()))
    for above in reversed(node.above):
        if isinstance(above, p.Filter):
            rows = p.Filter(rows.columns, rows, above.on)
            continue
        own = {i.name for i in above.items}
        extra = tuple(p.Item(n) for n in carried if n not in own)
        rows = p.project(rows, (*above.items, *extra), (*above.columns, *node.output))
    kept = (*(c.name for c in node.columns), *(n for n in carried if n == p.WEIGHT))
    return p.project(rows, tuple(p.Item(n) for n in kept), node.output)
