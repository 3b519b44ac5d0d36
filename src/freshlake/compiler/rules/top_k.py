"""Top-k: Δτ(X) = τ(stored ⊎ ΔX) − stored, as long as the stored rows and the change tell which rows come first.

Every row that is neither stored nor inserted comes after the last stored row. So the first k rows are known if the
result was shorter than k, which means that all rows are stored, or if at least k rows up to the old last one are left.
Only otherwise, when a stored row goes and none as good comes, X₁ is read again: Δτ(X) = τ(X₁) − stored.

With OFFSET m, the first m + k rows are a stored node of their own, and the rows behind place m are taken from it.
OFFSET without LIMIT is computed again from all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p
from freshlake.compiler.rules.rule import Build, NodeRule
from freshlake.compiler.rules.stored import difference, given, only_if, shown
from freshlake.compiler.rules.weights import COLUMN, negate, union, weighted
from freshlake.compiler.split import Node

_COPIES, _STALE = "__fl_copies", "__fl_stale"
_TYPES = (p.Column(_COPIES, "long"), p.Column(_STALE, "boolean"))


def _delta(node: Node, build: Build) -> p.Plan | None:
    top = node.operator
    assert isinstance(top, p.TopK)
    change = build.delta(top.child)
    if change is None or top.start == top.end:
        return None
    change = build.share(change, "change of the rows to order")
    old = build.share(given(build.stored(node), change), "stored rows")
    if top.start or top.end is None:
        return given(difference(node, top.with_children((build.after(top.child),)), old), change)
    return _first(node, top, change, old, build)


def _first(node: Node, top: p.TopK, change: p.Plan, old: p.Plan, build: Build) -> p.Plan:
    names = (*top.names, p.WEIGHT)
    both = union([_only(weighted(old), names), _only(change, names)])
    net = build.net(given(both, change), "stored rows and the change, together")
    placed = build.share(given(_placed(top, net, old), change), "the first rows, as far as they are known")
    stale = build.select(placed, _STALE, "whether rows are missing among them")
    known = p.Filter(placed.columns, placed, (p.text(f"{_COPIES} > 0", _COPIES),))
    fresh = p.project(known, (*p.passing(top), p.Item(p.WEIGHT, p.column_expr(_COPIES))), [COLUMN])
    again = weighted(only_if(stale, _STALE, top.with_children((build.after(top.child),))))
    new = shown(node, union([fresh, _only(again, names)]))
    return given(union([new, negate(_only(old, new.names[:-1]))]), change)


def _placed(top: p.TopK, net: p.Plan, old: p.Plan) -> p.Plan:
    """The candidates, each with as many copies as belong to the first k rows; all rows known up to the last stored one
    must be at least k for that, unless everything is stored."""
    k = top.end
    ranked = _ranked(top, net, old)
    last = (
        p.Item("__fl_last", p.text("max(if(__fl_mark = 1, __fl_rank, null)) over ()")),
        p.Item("__fl_full", p.text(f"sum(__fl_mark) over () = {k}")),
    )
    bounded = p.project(ranked, p.passing(ranked, *last))
    within = p.Item("__fl_within", p.text(f"sum(if(__fl_rank <= __fl_last, {_COPIES}, 0L)) over ()"))
    counted = p.project(bounded, p.passing(bounded, within))
    missing = f"__fl_full and __fl_within < {k}"
    copies = f"if({missing}, 0L, least({_COPIES}, greatest({k} - (__fl_upto - {_COPIES}), 0L)))"
    items = (p.Item(_COPIES, p.text(copies)), p.Item(_STALE, p.text(f"{missing} and __fl_place = 1")))
    return p.project(counted, (*p.passing(top), *items), [*top.columns, *_TYPES])


def _ranked(top: p.TopK, net: p.Plan, old: p.Plan) -> p.Plan:
    """At most k candidates and the stored rows as marks among them, in order."""
    there = p.Filter(net.columns, net, (p.text(f"{p.WEIGHT} > 0", p.WEIGHT),))
    first = p.TopK(there.columns, there, top.order, 0, top.end, top.ties)
    candidates = (*p.passing(top), p.Item(_COPIES, p.column_expr(p.WEIGHT)), p.Item("__fl_mark", p.text("0L")))
    marks = (*p.passing(top), p.Item(_COPIES, p.text("0L")), p.Item("__fl_mark", p.text("1L")))
    rows = union([p.project(first, candidates), p.project(old, marks)])
    order = (*top.order, *top.ties)
    keyed = p.project(rows, p.passing(rows, *(p.Item(f"__fl_o{i}", o.expr) for i, o in enumerate(order))))
    by = ", ".join(f"__fl_o{i} {o.direction}" for i, o in enumerate(order))
    upto = f"sum({_COPIES}) over (order by {by}, __fl_mark rows between unbounded preceding and current row)"
    places = (
        p.Item("__fl_rank", p.text(f"rank() over (order by {by})")),
        p.Item("__fl_place", p.text(f"row_number() over (order by {by}, __fl_mark)")),
        p.Item("__fl_upto", p.text(upto)),
    )
    return p.project(keyed, p.passing(rows, *places))


def _only(plan: p.Plan, names: Sequence[str]) -> p.Plan:
    return p.project(plan, [p.Item(n) for n in names])


def _rows(node: Node, build: Build) -> p.Plan:
    top = node.operator
    assert isinstance(top, p.TopK)
    return shown(node, top.with_children((build.after(top.child),)))


def _strategy(node: Node) -> str:
    top = node.operator
    assert isinstance(top, p.TopK)
    if top.end is None:
        return "everything, as OFFSET has no LIMIT"
    return f"the rows behind place {top.start} of a stored node" if top.start else f"the first {top.end} rows"


TOP_K = NodeRule("top_k", p.TopK, _delta, _rows, "Δτ(X) = τ(stored ⊎ ΔX) − stored", _strategy)
