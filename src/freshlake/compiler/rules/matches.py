"""Shared by the rules of outer, semi, anti and existence joins: which rows found their first match or lost their last.

A row l of L₀ turns by s = [m₁ > 0] − [m₀ > 0], where m₁ and m₀ are the numbers of its matches in R₁ and R₀ and
m₀ = m₁ − Σ of the matching weights of ΔR. Three ways lead to the turned rows F = Σ s·l:

keys   every conjunct is an equality of two columns or reads one input alone. T holds the keys of ΔR whose presence in
       R changed, and F = L₀ ⋈ T: L is read only at keys that turned.
NULLs  NOT IN, see `null_aware`.
rows   any other condition. The rows of L₀ that match a row of ΔR are the candidates; their matches are counted.

Neither needs consolidated inputs: a removed row that is still in the union with L₁ turns twice, with opposite weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import prune_by, restrict
from freshlake.compiler.rules.inner_join import join_weighted
from freshlake.compiler.rules.null_aware import matched, null_aware
from freshlake.compiler.rules.null_aware import turned as null_aware_turns
from freshlake.compiler.rules.rule import Derive
from freshlake.compiler.rules.weights import COLUMN, union

_FOUND = ("LeftSemi", "LeftAnti", "Existence")
"""Joins that show no column of R, so that any of the rows that match will do."""

NOW, MOVED = p.Column("__fl_now", "long"), p.Column("__fl_moved", "long")
TOO_MANY = "a scalar subquery returned more than one row"
_TURN = f"if({NOW.name} > 0, 1L, 0L) - if({NOW.name} - {MOVED.name} > 0, 1L, 0L)"


@dataclass(frozen=True)
class Condition:
    """The conjuncts of a join by what they read."""

    keys: tuple[p.Expr, ...]
    left: tuple[p.Expr, ...]
    right: tuple[p.Expr, ...]
    rest: tuple[p.Expr, ...]


def condition_of(join: p.Join) -> Condition:
    left, right = (set(c.names) for c in join.inputs)
    parts: dict[str, list[p.Expr]] = {"keys": [], "left": [], "right": [], "rest": []}
    for e in join.on:
        reads = set(e.columns)
        if reads <= left:
            parts["left"].append(e)
        elif reads <= right:
            parts["right"].append(e)
        else:
            parts["keys" if e.equality or e.same else "rest"].append(e)
    return Condition(**{name: tuple(found) for name, found in parts.items()})


def changes_of(join: p.Join, derive: Derive) -> tuple[p.Plan | None, p.Plan | None]:
    """ΔL and ΔR, each evaluated once however many terms read it."""
    left, right = (derive.delta(c) for c in join.inputs)
    return (
        left and derive.share(left, "change of the join's left input"),
        right and derive.share(right, "change of the join's right input"),
    )


def with_current(join: p.Join, change: p.Plan, derive: Derive) -> p.Plan:
    """ΔL joined, by the join's own kind, with the rows of R₁ that it can match."""
    left, right = join.inputs
    own = tuple(c for c in join.columns if c.name not in left.names)
    inputs = (change, _near(join, change, derive.after(right), derive))
    return shown(join, replace(join, columns=(*change.columns, *own), inputs=inputs))


def _near(join: p.Join, change: p.Plan, current: p.Plan, derive: Derive) -> p.Plan:
    """The rows of R₁ that match a row of ΔL: only the small side of a semi join can be sent to all of the other."""
    if join.kind in _FOUND and (compared := null_aware(join)) is not None:
        return matched(compared, change, current, derive)
    condition = condition_of(join)
    if not condition.keys and not condition.rest:
        return current
    hinted = prune_by([change, current], 0, join.on)[1]
    return matching(hinted, change, join.on)


def matching(rows: p.Plan, others: p.Plan, on: tuple[p.Expr, ...]) -> p.Plan:
    """The rows for which one of `others` satisfies the whole condition."""
    reads = {c for e in on for c in e.columns}
    partners = p.project(others, p.passing(others, only=[n for n in others.names if n in reads]))
    return p.Join(rows.columns, (rows, partners), "LeftSemi", on)


def inner_with(join: p.Join, change: p.Plan, derive: Derive) -> p.Plan:
    """L₀ ⋈ ΔR."""
    inner = p.InnerJoin(join.columns, join.inputs, join.on)
    return join_weighted(inner, prune_by([derive.before(join.inputs[0]), change], 1, join.on), 1)


def shown(join: p.Join, rows: p.Plan) -> p.Plan:
    """The join's columns and the weight; columns that `rows` lack are NULL."""
    items = [p.Item(c.name, None if c.name in rows.names else p.null(c)) for c in join.columns]
    return p.project(rows, (*items, p.Item(p.WEIGHT)), (*join.columns, COLUMN))


def turned(join: p.Join, change: p.Plan, derive: Derive, single: bool = False) -> p.Plan:
    """F: the rows of L₀ that turn when ΔR is `change`; the weight holds s. `single` fails where m₁ > 1."""
    condition = condition_of(join)
    if not single and (compared := null_aware(join)) is not None:
        return null_aware_turns(join, compared, change, lambda j: _keys_of(j, change, derive), derive)
    if condition.rest:
        return _turned_rows(join, change, derive, single)
    left = join.inputs[0]
    keys = derive.share(_turned_keys(join, condition, change, derive, single), "keys whose presence changed")
    on = (*condition.keys, *condition.left)
    return _applied(left, prune_by([derive.before(left), keys], 1, on), on, single)


def _keys_of(join: p.Join, change: p.Plan, derive: Derive) -> p.Plan:
    return _turned_keys(join, condition_of(join), change, derive, single=False)


def _turned_keys(join: p.Join, condition: Condition, change: p.Plan, derive: Derive, single: bool) -> p.Plan:
    """T = Δδ(π R) on the key columns of R."""
    right = join.inputs[1]
    names = tuple(dict.fromkeys(n for e in condition.keys for n in e.columns if n in right.names))
    moved = _where(change, condition.right)
    current = restrict(_where(derive.after(right), condition.right), moved, [(n, n) for n in names])
    columns = [c for c in right.columns if c.name in names]
    items = [p.Item(c.name) for c in columns]
    return _turns(columns, [_counted(current, items, now=True), _counted(moved, items, now=False)], single)


def _turned_rows(join: p.Join, change: p.Plan, derive: Derive, single: bool) -> p.Plan:
    left, right = join.inputs
    near = matching(prune_by([derive.before(left), change], 1, join.on)[0], change, join.on)
    candidates = derive.share(near, "rows that the change of the other input can match")
    reads = {c for e in join.on for c in e.columns}
    items = [i for c in left.columns if c.name in reads for i in _fingerprint(c)]
    keyed = p.project(candidates, p.passing(candidates, *items))
    names = tuple(i.name for i in items)
    each = _distinct(keyed, names, [c for c in left.columns if c.name in reads])
    counts = []
    for rows, now in ((prune_by([candidates, derive.after(right)], 0, join.on)[1], True), (change, False)):
        pairs = p.InnerJoin((*each.columns, *rows.columns), (each, rows), join.on)
        counts.append(_counted(pairs, [p.Item(n) for n in names], now))
    turns = _turns([p.Column(n) for n in names], counts, single)
    renamed = [p.Item(f"{n}_", p.column_expr(n)) for n in names]
    rest = [p.Item(n) for n in turns.names if n not in names]
    on = tuple(p.text(f"{n} <=> {n}_", n, f"{n}_") for n in names)
    return _applied(left, [keyed, p.project(turns, (*renamed, *rest), [COLUMN])], on, single)


def _distinct(rows: p.Plan, names: tuple[str, ...], columns: Sequence[p.Column]) -> p.Plan:
    """One row for each fingerprint: counting again for every copy would only multiply the counts."""
    values = [p.Item(c.name, p.text(f"first({p.quote(c.name)})", c.name)) for c in columns]
    return p.Group((*(p.Column(n) for n in names), *columns), rows, names, tuple(values))


def _fingerprint(column: p.Column) -> Iterable[p.Item]:
    """What tells rows apart that the condition may tell apart: equality alone merges 0.0 with -0.0, 'a' with 'A'."""
    name, quoted, kind = f"__fl_p_{column.name}", p.quote(column.name), column.type
    if kind.startswith(("string", "char", "varchar")):
        yield p.Item(name, p.text(f"cast({quoted} as binary)", column.name))
        return
    if kind.startswith("{"):
        yield p.Item(f"{name}_text", p.text(f"to_json(named_struct('v', {quoted}))", column.name))
    if kind in ("float", "double"):
        yield p.Item(f"{name}_text", p.text(f"cast({quoted} as string)", column.name))
    yield p.Item(name, p.column_expr(column.name))


def _counted(rows: p.Plan, items: Sequence[p.Item], now: bool) -> p.Plan:
    """Matches there are now, or matches that the change brought and took."""
    weight = p.text("1L") if now else p.column_expr(p.WEIGHT)
    counts = (p.Item(NOW.name, weight), p.Item(MOVED.name, p.text("0L")))
    if not now:
        counts = (p.Item(NOW.name, p.text("0L")), p.Item(MOVED.name, weight))
    return p.project(rows, (*items, *counts), [NOW, MOVED])


def _turns(columns: Sequence[p.Column], counts: Sequence[p.Plan], single: bool) -> p.Plan:
    sums = [p.Item(c.name, p.text(f"coalesce(sum({c.name}), 0L)", c.name)) for c in (NOW, MOVED)]
    keys = tuple(c.name for c in columns)
    totals = p.Group((*columns, NOW, MOVED), union(counts), keys, tuple(sums))
    turn = p.Item(p.WEIGHT, p.text(_TURN, NOW.name, MOVED.name))
    items = [*(p.Item(k) for k in keys), turn, *([p.Item(NOW.name)] if single else [])]
    turns = p.project(totals, items, [COLUMN])
    test = f"{p.WEIGHT} <> 0" + (f" or {NOW.name} > 1" if single else "")
    return p.Filter(turns.columns, turns, (p.text(test, *turns.names[len(keys) :]),))


def _applied(left: p.Plan, sides: Sequence[p.Plan], on: tuple[p.Expr, ...], single: bool) -> p.Plan:
    """The rows of L₀ with their turn; weights multiply."""
    extra = (NOW,) if single else ()
    joined = join_weighted(p.InnerJoin((*left.columns, *extra), tuple(sides), on), sides, 1)
    if not single:
        return joined
    many = p.text(f"if({NOW.name} > 1, raise_error('{TOO_MANY}'), {p.WEIGHT})", NOW.name, p.WEIGHT)
    return p.project(joined, (*p.passing(left), p.Item(p.WEIGHT, many)), [COLUMN])


def _where(rows: p.Plan, on: tuple[p.Expr, ...]) -> p.Plan:
    return p.Filter(rows.columns, rows, on) if on else rows
