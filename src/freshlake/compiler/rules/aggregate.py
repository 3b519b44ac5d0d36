"""Aggregate: Δγ(X) = γ(X₁)|K − stored|K, where K are the groups that ΔX touches.

algebraic   S₁ = S₀ + Σ ΔX per group; the input is never read.
extremum    the same; a group is recomputed only when its stored extremum lost a copy and no better value came.
recompute   every other function: the groups in K are aggregated again from the current input.

What is subtracted is always what is stored, so ties and float sums never leave a row behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.compiler import plan as p
from freshlake.compiler.aggregates import Tier, is_session, state_columns
from freshlake.compiler.restrict import restrict
from freshlake.compiler.rules import aggregate_state as state
from freshlake.compiler.rules.rule import Build, NodeRule
from freshlake.compiler.rules.stored import difference, keys_at_hand, looked_up, only_if, recomputed, shown, touched
from freshlake.compiler.rules.weights import union
from freshlake.compiler.split import Node


def _delta(node: Node, build: Build) -> p.Plan | None:
    aggregate = node.operator
    assert isinstance(aggregate, p.Aggregate)
    change = build.delta(aggregate.child)
    if change is None:
        return None
    if node.tier is Tier.RECOMPUTE:
        return _recompute(node, aggregate, change, build)
    groups, keys = state.change_of_state(aggregate, change), keys_at_hand(change, aggregate.keys, aggregate.columns)
    if keys is None:
        groups = keys = build.share(groups, "change of the groups' state")
    old = build.share(looked_up(build.stored(node), keys, _key_names(aggregate)), "stored rows of those groups")
    if node.tier is Tier.ALGEBRAIC:
        merged = state.merged_sums(aggregate, union([_states(aggregate, old), _states(aggregate, groups)]))
        return difference(node, state.finished(aggregate, merged), old)
    return _extremum(node, aggregate, groups, old, build)


def _rows(node: Node, build: Build) -> p.Plan:
    aggregate = node.operator
    assert isinstance(aggregate, p.Aggregate)
    child = build.after(aggregate.child)
    if node.tier is Tier.RECOMPUTE:
        return shown(node, aggregate.with_children((_with_sessions(aggregate, child),)))
    return shown(node, state.finished(aggregate, state.whole_state(aggregate, child)))


def _recompute(node: Node, aggregate: p.Aggregate, change: p.Plan, build: Build) -> p.Plan:
    """A session can grow into its neighbours, so sessions are found by the other keys alone."""
    sessions = {c.name for c in aggregate.columns if is_session(c)}
    keys = tuple(k for k in aggregate.keys if k.name not in sessions)
    groups = touched(change, keys, aggregate.columns, build)
    new = aggregate.with_children((_with_sessions(aggregate, _child_of(aggregate, keys, groups, build)),))
    return recomputed(node, _keyed(aggregate, new), groups, [k.name for k in keys], build)


def _with_sessions(aggregate: p.Aggregate, child: p.Plan) -> p.Plan:
    """Spark knows a session by a mark on its column, which a stored node does not keep."""
    marked = [c for c in aggregate.columns if is_session(c)]
    if not marked:
        return child
    again = {c.name: p.Item(c.name, p.column_expr(c.name)) for c in marked}
    return p.project(child, [again.get(n, p.Item(n)) for n in child.names], marked)


def _keyed(aggregate: p.Aggregate, new: p.Plan) -> p.Plan:
    """Keys were computed below the semi join, so the aggregate groups by their columns."""
    assert isinstance(new, p.Aggregate)
    return p.Aggregate(new.columns, new.child, tuple(p.Item(k.name) for k in aggregate.keys), new.calls)


def _child_of(aggregate: p.Aggregate, keys: Sequence[p.Item], groups: p.Plan | None, build: Build) -> p.Plan:
    """The current input of the touched groups, with the group keys as columns."""
    child = build.after(aggregate.child)
    extra = tuple(k for k in aggregate.keys if k.expr is not None)
    wide = p.project(child, p.passing(child, *extra), aggregate.columns) if extra else child
    return wide if groups is None else restrict(wide, groups, [(k.name, k.name) for k in keys])


def _key_names(aggregate: p.Aggregate) -> tuple[str, ...]:
    return tuple(k.name for k in aggregate.keys)


def _states(aggregate: p.Aggregate, rows: p.Plan) -> p.Plan:
    names = [k.name for k in aggregate.keys] + [n for n, _ in state_columns(aggregate.calls)]
    return p.project(rows, tuple(p.Item(n) for n in names))


def _extremum(node: Node, aggregate: p.Aggregate, groups: p.Plan, old: p.Plan, build: Build) -> p.Plan:
    extrema = [c for c in aggregate.calls if c.function in ("Min", "Max")]
    merged = build.share(_merged_extrema(aggregate, extrema, groups, old), "merged state of those groups")
    stale = build.select(merged, "__fl_stale", "groups whose extremum lost its last copy")
    fresh = p.Filter(merged.columns, merged, (p.text("not __fl_stale", "__fl_stale"),))
    again = state.whole_state(_by_column(aggregate), _child_of(aggregate, aggregate.keys, stale, build))
    if not aggregate.keys:
        # nothing restricts the recomputation, so it is tied to the row that says it is needed
        again = only_if(stale, "__fl_stale", again)
    new = union([_states(aggregate, fresh), _states(aggregate, again)])
    return difference(node, state.finished(aggregate, new), old)


def _by_column(aggregate: p.Aggregate) -> p.Aggregate:
    return p.Aggregate(
        aggregate.columns, aggregate.child, tuple(p.Item(k.name) for k in aggregate.keys), aggregate.calls
    )


def _merged_extrema(aggregate: p.Aggregate, extrema: list[p.Call], groups: p.Plan, old: p.Plan) -> p.Plan:
    """Stored and changed state side by side per group, the new extremum, and whether it must be recomputed."""
    keys = [k.name for k in aggregate.keys]
    sums = [n for n, _ in state_columns(aggregate.calls) if not n.startswith("__fl_m")]
    slots = [c.slot for c in extrema]
    left = [p.Item(n) for n in (*keys, *sums)]
    right = list(left)
    for i in slots:
        left += [p.Item(f"__fl_m{i}"), *(p.Item(f"__fl_{x}{i}", p.text(f"if(false, __fl_m{i}, null)")) for x in "id")]
        right += [
            p.Item(f"__fl_m{i}", p.text(f"if(false, __fl_i{i}, null)")),
            p.Item(f"__fl_i{i}"),
            p.Item(f"__fl_d{i}"),
        ]
    both = union([p.project(old, left), p.project(groups, right)])
    picks = []
    for call in extrema:
        best, i = call.function.lower(), call.slot
        picks += [p.Item(f"__fl_{x}{i}", p.text(f"{best}(__fl_{x}{i})")) for x in "mid"]
    merged = state.merged_sums(aggregate, both, tuple(picks))
    tests, news = [], []
    for call in extrema:
        i, better, pick = call.slot, *((">", "greatest") if call.function == "Max" else ("<", "least"))
        tests.append(
            f"(__fl_n{i} > 0 and coalesce(__fl_d{i} {better}= __fl_m{i}, false)"
            f" and not coalesce(__fl_i{i} {better} __fl_m{i}, false))"
        )
        news.append(p.Item(f"__fl_m{i}", p.text(f"if(__fl_n{i} = 0, null, {pick}(__fl_m{i}, __fl_i{i}))")))
    items = [p.Item(n) for n in (*keys, *sums)] + news + [p.Item("__fl_stale", p.text(" or ".join(tests)))]
    known = (*aggregate.columns, *state.state_schema(aggregate), p.Column("__fl_stale", "boolean"))
    return p.project(merged, items, known)


def _strategy(node: Node) -> str:
    return str(node.tier)


AGGREGATE = NodeRule("aggregate", p.Aggregate, _delta, _rows, "Δγ(X) = γ(X₁)|K − stored|K", _strategy)
