"""restrict(plan, K): read only what the keys K can touch.

The semi join with K is always applied on top; below it, K moves to a leaf wherever every row with such a key must come
from leaf rows with such a key: through projections that copy the column, filters, all branches of a union, and into the
inputs of an inner join that hold the column or one that an equality ties to it, through a generator by columns of its
input, and through grouping sets by columns that every set passes on. A join that keeps its left rows passes keys on to
its left input, and to its right one where an equality of its condition ties them: the matches of such a row have its
key. Keys of the padded side stay above, because padding would appear for rows whose matches were left out. An aggregate
passes on its group keys, a window its partition, a set operation every column; nothing passes a limit or a recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshlake.compiler import plan as p
from freshlake.compiler.aggregates import is_session
from freshlake.compiler.walk import origin


def restrict(plan: p.Plan, keys: p.Plan, pairs: Sequence[tuple[str, str]]) -> p.Plan:
    """`plan` ⋉ `keys` on the null-safe `pairs` (column of plan, column of keys)."""
    if not pairs:
        return plan
    pushed = _push(plan, keys, tuple(pairs))
    if isinstance(plan, p.State):
        return pushed
    return p.SemiJoin(plan.columns, (pushed, keys), tuple(pairs))


def _push(plan: p.Plan, keys: p.Plan, pairs: tuple[tuple[str, str], ...]) -> p.Plan:
    if not pairs:
        return plan
    match plan:
        case p.Project() | p.Filter() | p.Generate() | p.Expand():
            below = ((_copied(plan, c), k) for c, k in pairs)
            return replace(plan, child=_push(plan.child, keys, tuple((c, k) for c, k in below if c is not None)))
        case p.Aggregate() | p.Group() | p.Window():
            whole = _decided_by(plan)
            below = ((whole.get(c), k) for c, k in pairs)
            return replace(plan, child=_push(plan.child, keys, tuple((c, k) for c, k in below if c is not None)))
        case p.Union() | p.SetOp():
            inputs = []
            for child in plan.inputs:
                places = dict(zip(plan.names, child.names, strict=True))
                inputs.append(_push(child, keys, tuple((places[c], k) for c, k in pairs)))
            return replace(plan, inputs=tuple(inputs))
        case p.InnerJoin():
            wide = (*pairs, *_tied(pairs, plan.on))
            inputs = [_push(c, keys, tuple((n, k) for n, k in wide if n in c.names)) for c in plan.inputs]
            return replace(plan, inputs=tuple(inputs))
        case p.Join() if plan.kind != "FullOuter":
            left, right = plan.inputs
            kept = tuple((n, k) for n, k in pairs if n in left.names)
            tied = tuple((n, k) for n, k in _tied(kept, plan.on) if n in right.names)
            return replace(plan, inputs=(_push(left, keys, kept), _push(right, keys, tied)))
        case p.State():
            return p.SemiJoin(plan.columns, (_hinted(plan, keys, pairs), keys), pairs)
    return plan


def _decided_by(plan: p.Aggregate | p.Group | p.Window) -> dict[str, str]:
    """Output columns that hold a value of all input rows that a row is made from, with the name they have there."""
    match plan:
        case p.Aggregate():
            # a session is merged with its neighbours while it is aggregated
            merged = {c.name for c in plan.columns if is_session(c)}
            return {k.name: k.source for k in plan.keys if k.source is not None and k.name not in merged}
        case p.Group():
            return {name: name for name in plan.keys}
    return {name: name for name in plan.partition}


def _copied(plan: p.Plan, name: str) -> str | None:
    """The input column that every row made from an input row shows under this name."""
    match plan:
        case p.Project():
            return next(i.source for i in plan.items if i.name == name)
        case p.Generate():
            return None if name in plan.new else name
        case p.Expand():
            at = plan.names.index(name)
            sources = {row[at].columns[0] if row[at].is_column else None for row in plan.rows}
            return sources.pop() if len(sources) == 1 else None
    return name


def _tied(pairs: Sequence[tuple[str, str]], on: Sequence[p.Expr]) -> list[tuple[str, str]]:
    """Columns equal to a key column through one equality of the join: their rows need the same key values."""
    found = []
    for e in on:
        if e.equality or e.same:
            left, right = e.equality or e.same or ("", "")
            for c, k in pairs:
                if c in (left, right):
                    found.append((right if c == left else left, k))
    return found


def _hinted(state: p.State, keys: p.Plan, pairs: Sequence[tuple[str, str]]) -> p.State:
    fields = dict(zip(state.names, state.fields, strict=True))
    hints = []
    for column, key in pairs:
        found = origin(keys, key)
        if found is not None and isinstance(found[0], p.Delta | p.Ref):
            hints.append(p.Prune(fields[column], hint_ref(found[0]), _key_name(*found)))
    return replace(state, prune=(*state.prune, *hints))


def prune_by(inputs: Sequence[p.Plan], at: int, on: Sequence[p.Expr]) -> list[p.Plan]:
    """Give the leaves that an equality ties to the delta input `at` its key values as file-pruning hints."""
    result = list(inputs)
    driver = inputs[at]
    for e in on:
        pair = e.equality or e.same
        if pair is None:
            continue
        for mine, theirs in (pair, pair[::-1]):
            if mine not in driver.names:
                continue
            found = origin(driver, mine)
            if found is None or not isinstance(found[0], p.Delta | p.Ref):
                continue
            key = _key_name(*found)
            for i, child in enumerate(result):
                if i != at and theirs in child.names:
                    result[i] = _hint(child, theirs, found[0], key, e.same is None)
    return result


def _hint(plan: p.Plan, name: str, driver: p.Plan, key: str, strict: bool) -> p.Plan:
    """`strict`: whoever reads the plan drops rows in which the column is NULL."""
    match plan:
        case p.Project():
            source = next((i.source for i in plan.items if i.name == name), None)
            return replace(plan, child=_hint(plan.child, source, driver, key, strict)) if source else plan
        case p.Filter():
            return replace(plan, child=_hint(plan.child, name, driver, key, strict))
        case p.Union():
            at = plan.names.index(name)
            return replace(plan, inputs=tuple(_hint(c, c.names[at], driver, key, strict) for c in plan.inputs))
        case p.InnerJoin():
            inputs = tuple(_hint(c, name, driver, key, strict) if name in c.names else c for c in plan.inputs)
            return replace(plan, inputs=inputs)
        case p.Join() if strict or (plan.kind != "FullOuter" and name in plan.inputs[0].names):
            # rows that are padded only because their match was left out are NULL in this column
            inputs = tuple(_hint(c, name, driver, key, strict) if name in c.names else c for c in plan.inputs)
            return replace(plan, inputs=inputs)
        case p.Generate() if name not in plan.new:
            return replace(plan, child=_hint(plan.child, name, driver, key, strict))
        case p.State():
            hint = p.Prune(dict(zip(plan.names, plan.fields, strict=True))[name], hint_ref(driver), key)
            return replace(plan, prune=(*plan.prune, hint))
    return plan


def _key_name(leaf: p.Plan, name: str) -> str:
    return leaf.fields[leaf.names.index(name)] if isinstance(leaf, p.Delta) else name


def hint_ref(leaf: p.Plan) -> str:
    """How a hint names the leaf that holds its key values: a step, or the change of a source."""
    if isinstance(leaf, p.Ref):
        return leaf.step
    assert isinstance(leaf, p.Delta)
    return f"delta:{leaf.source}:{','.join(leaf.fields)}"
