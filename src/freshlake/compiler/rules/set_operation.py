"""INTERSECT ALL and EXCEPT ALL: Δ(L ∘ R) = (L₁ ∘ R₁)|K − stored|K, where K are the rows in ΔL or ΔR.

How often a row is in the result depends only on how often it is in L and in R: min(l, r) or max(l − r, 0). So only rows
of a change are counted again, in both inputs, with NULLs equal to each other.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import restrict
from freshlake.compiler.rules.rule import Build, NodeRule
from freshlake.compiler.rules.stored import recomputed, shown, touched
from freshlake.compiler.rules.weights import union
from freshlake.compiler.split import Node


def _delta(node: Node, build: Build) -> p.Plan | None:
    operation = node.operator
    assert isinstance(operation, p.SetOp)
    changes = [
        _named(change, side, operation) for side in operation.inputs if (change := build.delta(side)) is not None
    ]
    if not changes:
        return None
    keys = touched(union(changes), [p.Item(n) for n in operation.names], operation.columns, build)
    assert keys is not None
    counted = []
    for side in operation.inputs:
        pairs = list(zip(side.names, operation.names, strict=True))
        counted.append(restrict(build.after(side), keys, pairs))
    return recomputed(node, operation.with_children(tuple(counted)), keys, operation.names, build)


def _named(change: p.Plan, side: p.Plan, operation: p.SetOp) -> p.Plan:
    """Inputs are matched by place; a change may have its columns in another order."""
    pairs = zip(side.names, operation.names, strict=True)
    return p.project(change, [p.Item(n, p.column_expr(s)) for s, n in pairs], operation.columns)


def _rows(node: Node, build: Build) -> p.Plan:
    operation = node.operator
    assert isinstance(operation, p.SetOp)
    return shown(node, operation.with_children(tuple(build.after(c) for c in operation.inputs)))


def _strategy(node: Node) -> str:
    return "touched rows counted"


SET_OPERATION = NodeRule("set_operation", p.SetOp, _delta, _rows, "Δ(L ∘ R) = (L₁ ∘ R₁)|K − stored|K", _strategy)
