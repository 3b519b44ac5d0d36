"""Window: Δω(X) = ω(X₁)|K − stored|K, where K are the partitions that ΔX touches.

A partition is computed again as a whole, since one row can change the result of every other. Without PARTITION BY there
is one partition: any change computes everything again. What is subtracted is what is stored, so that ties never leave a
row behind.
"""

from __future__ import annotations

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import restrict
from freshlake.compiler.rules.rule import Build, NodeRule
from freshlake.compiler.rules.stored import given, recomputed, shown, touched
from freshlake.compiler.split import Node


def _delta(node: Node, build: Build) -> p.Plan | None:
    window = node.operator
    assert isinstance(window, p.Window)
    change = build.delta(window.child)
    if change is None:
        return None
    if not window.partition:
        change = build.share(change, "change of the window's input")
    keys = touched(change, [p.Item(n) for n in window.partition], window.columns, build)
    child = build.after(window.child)
    if keys is not None:
        child = restrict(child, keys, [(n, n) for n in window.partition])
    replaced = recomputed(node, window.with_children((child,)), keys, window.partition, build)
    return given(replaced, change) if keys is None else replaced


def _rows(node: Node, build: Build) -> p.Plan:
    window = node.operator
    assert isinstance(window, p.Window)
    return shown(node, window.with_children((build.after(window.child),)))


def _strategy(node: Node) -> str:
    assert isinstance(node.operator, p.Window)
    return "touched partitions" if node.operator.partition else "everything, as there is no PARTITION BY"


WINDOW = NodeRule("window", p.Window, _delta, _rows, "Δω(X) = ω(X₁)|K − stored|K", _strategy)
