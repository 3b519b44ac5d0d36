"""Inner join: Δ(A ⋈ B ⋈ C) = ΔA ⋈ B₁ ⋈ C₁ + A₀ ⋈ ΔB ⋈ C₁ + A₀ ⋈ B₀ ⋈ ΔC.

Weights multiply. A₀ is A₁ minus ΔA, not consolidated, which joins do not mind: so only current states are read. A term
whose delta is empty is left out. Every term starts from its delta and follows the join conditions outwards, so that the
small side always drives. Each occurrence of a table in a self join is an input of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p
from freshlake.compiler.current_time import is_now
from freshlake.compiler.restrict import prune_by
from freshlake.compiler.rules import current_time
from freshlake.compiler.rules.rule import Derive, Linearity, Rule
from freshlake.compiler.rules.weights import COLUMN, is_weighted, union


def _delta(join: p.InnerJoin, derive: Derive) -> p.Plan | None:
    deltas = [derive.delta(c) for c in join.inputs]
    # the time comes first, so that its term reads current states only
    changed = sorted((i for i, d in enumerate(deltas) if d is not None), key=lambda i: not is_now(join.inputs[i]))
    if sum(not is_now(join.inputs[i]) for i in changed) > 1:
        deltas = [d and derive.share(d, f"change of join input {i + 1}") for i, d in enumerate(deltas)]
    terms = [_term(join, changed[:k], i, deltas[i], derive) for k, i in enumerate(changed)]
    return union(terms) if terms else None


def _term(join: p.InnerJoin, earlier: Sequence[int], at: int, change: p.Plan | None, derive: Derive) -> p.Plan:
    assert change is not None
    inputs = []
    for i, child in enumerate(join.inputs):
        if i == at:
            inputs.append(change)
        elif i not in earlier:
            inputs.append(derive.after(child))
        else:
            inputs.append(current_time.at(child, p.When.BEFORE) if is_now(child) else derive.before(child))
    pruned = prune_by(inputs, at, join.on)
    moved = current_time.entering_and_leaving(join, at, pruned) if is_now(join.inputs[at]) else None
    return join_weighted(*moved, 0) if moved else join_weighted(join, pruned, at)


def join_weighted(join: p.InnerJoin, inputs: Sequence[p.Plan], first: int) -> p.Plan:
    """Join in an order that starts at `first`; the weight is the product of the inputs' weights."""
    weights = []
    renamed = []
    for i, child in enumerate(inputs):
        if is_weighted(child):
            name = f"{p.WEIGHT}_{i}"
            weights.append(name)
            items = [p.Item(n) for n in child.names if n != p.WEIGHT] + [p.Item(name, p.column_expr(p.WEIGHT))]
            child = p.project(child, items)
        renamed.append(child)
    ordered = _connected(renamed, first, join.on)
    joined = p.InnerJoin(tuple(c for i in ordered for c in i.columns), tuple(ordered), join.on)
    product = p.Item(p.WEIGHT, p.text(" * ".join(weights), *weights))
    return p.project(joined, (*(p.Item(n) for n in join.names), product), [COLUMN])


def _connected(inputs: Sequence[p.Plan], first: int, on: Sequence[p.Expr]) -> list[p.Plan]:
    """Greedy: next comes an input that an equality ties to those joined already, else any conjunct, else any input."""
    waiting = [c for i, c in enumerate(inputs) if i != first]
    ordered = [inputs[first]]
    have = set(inputs[first].names)
    while waiting:
        best = max(waiting, key=lambda c: _ties(c, have, on))
        waiting.remove(best)
        ordered.append(best)
        have |= set(best.names)
    return ordered


def _ties(plan: p.Plan, have: set[str], on: Sequence[p.Expr]) -> int:
    names = set(plan.names)
    score = 0
    for e in on:
        if set(e.columns) & names and set(e.columns) <= names | have:
            score = max(score, 2 if e.equality or e.same else 1)
    return score


INNER_JOIN = Rule("inner_join", p.InnerJoin, _delta, Linearity.BILINEAR, "ΔA ⋈ B₁ + A₀ ⋈ ΔB")
