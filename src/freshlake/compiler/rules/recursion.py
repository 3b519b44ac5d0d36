"""Recursion: ΔX = D⁰ + D¹ + …, where D⁰ = ΔB + ΔS(X₀) and Dⁱ⁺¹ = S₁(Dⁱ).

X = B ⊎ S(X), and the step S is linear in X: so ΔX = ΔB + (S₁ − S₀)(X₀) + S₁(ΔX), unrolled until nothing is left.
Weights are signed and rows are a bag, so rows that go need no other treatment than rows that come. X₀ is stored.

Every row is stored with its level, so that the limit on levels holds as it does in Spark.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Build, NodeRule
from freshlake.compiler.rules.stored import shown
from freshlake.compiler.rules.weights import COLUMN, union
from freshlake.compiler.split import Node, stored_names
from freshlake.compiler.walk import transform


def _delta(node: Node, build: Build) -> p.Plan | None:
    loop = node.operator
    assert isinstance(loop, p.Loop)
    anchor, step = loop.inputs
    found = [build.delta(anchor), build.delta(_over_stored(step, node, loop, build))]
    # by position, as the levels of a recursion are
    seeds = [
        _renamed(change, part.names, loop)
        for change, part in zip(found, loop.inputs, strict=True)
        if change is not None
    ]
    if not seeds:
        return None
    return shown(node, build.loop(union(seeds), loop, "levels of the recursion that the change reaches"))


def _over_stored(step: p.Plan, node: Node, loop: p.Loop, build: Build) -> p.Plan:
    """The step over what was stored before, which is no change of its own."""
    stored = build.stored(node)
    names = stored_names(node)

    def replaced(plan: p.Plan) -> p.Plan:
        if not (isinstance(plan, p.LoopRef) and plan.id == loop.id):
            return plan
        pairs = zip(plan.names, loop.names, strict=True)
        return p.project(stored, [p.Item(ref, p.column_expr(names[name])) for ref, name in pairs], plan.columns)

    return transform(step, replaced)


def _renamed(change: p.Plan, names: tuple[str, ...], loop: p.Loop) -> p.Plan:
    pairs = zip(names, loop.names, strict=True)
    items = [p.Item(name, p.column_expr(source)) for source, name in pairs]
    return p.project(change, (*items, p.Item(p.WEIGHT)), (*loop.columns, COLUMN))


def _rows(node: Node, build: Build) -> p.Plan:
    assert node.operator is not None
    return shown(node, build.after(node.operator))


RECURSION = NodeRule(
    "recursion", p.Loop, _delta, _rows, "ΔX = ΔB + ΔS(X₀) + S₁(ΔX)", lambda _: "rounds over what is stored"
)
