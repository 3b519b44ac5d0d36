"""NOT IN without correlation: a join on `(a = b) IS NOT FALSE`, where one NULL on the right matches every row.

With n rows in R, z of them NULL, and c equal to a, a row of L has a match if a is NULL and n > 0, or if a is not NULL
and z > 0 or c > 0. With s(x) = [x₁ > 0] − [x₀ > 0], it turns by

    s(n)                            where a is NULL
    [z₀ = 0] · s(c) + s(z) · [c₁ = 0]   elsewhere

So L is read at the keys that turned; at its NULLs when R begins or ceases to be empty; and as a whole only when the
first NULL comes to R or the last one goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from freshlake.compiler import plan as p
from freshlake.compiler.restrict import prune_by
from freshlake.compiler.rules.inner_join import join_weighted
from freshlake.compiler.rules.rule import Derive
from freshlake.compiler.rules.weights import COLUMN, union

_COUNTS = ("__fl_rows", "__fl_rows_moved", "__fl_nulls", "__fl_nulls_moved")
_BEGINS, _VOIDS, _FREE = "__fl_begins", "__fl_voids", "__fl_free"


@dataclass(frozen=True)
class NullAware:
    """`equality` is the a = b of the condition, and `left` and `right` are its columns."""

    equality: p.Expr
    left: str
    right: str

    def partners(self, rows: p.Plan) -> p.Plan:
        return p.project(rows, [p.Item(self.right)])


def null_aware(join: p.Join) -> NullAware | None:
    """The comparison of a join that compares in this way and in no other; conditions on L alone may stand beside it."""
    left, right = (set(c.names) for c in join.inputs)
    others = [e for e in join.on if not (e.columns and set(e.columns) <= left)]
    equality = others[0].not_false if len(others) == 1 else None
    if equality is None or equality.equality is None:
        return None
    a, b = equality.equality if equality.equality[0] in left else reversed(equality.equality)
    return NullAware(equality, a, b) if a in left and b in right else None


def matched(compared: NullAware, change: p.Plan, current: p.Plan, derive: Derive) -> p.Plan:
    """As few rows of R₁ as find every row of ΔL a match that has one: those that are equal, any row, and a NULL."""
    b = p.quote(compared.right)
    rows = compared.partners(prune_by([change, current], 0, (compared.equality,))[1])
    equal = p.Join(rows.columns, (rows, change), "LeftSemi", (compared.equality,))
    (column,), count, nulls = rows.columns, _COUNTS[0], _COUNTS[2]
    items = (
        p.Item(column.name, p.text(f"min({b})", column.name)),
        p.Item(count, p.text("count(*)")),
        p.Item(nulls, p.text(f"count_if({b} is null)", column.name)),
    )
    counted = p.Group((column, p.Column(count, "long"), p.Column(nulls, "long")), current, (), items)
    totals = derive.share(counted, "one value of the right input, and how many rows and NULLs it has")
    some = p.project(_where(totals, f"{count} > 0", count), [p.Item(column.name)])
    null = p.project(_where(totals, f"{nulls} > 0", nulls), [p.Item(column.name, p.null(column))], [column])
    return union([equal, some, null])


def turned(
    join: p.Join, compared: NullAware, change: p.Plan, keys: Callable[[p.Join], p.Plan], derive: Derive
) -> p.Plan:
    """F: the rows of L₀ that turn; `keys` gives the keys of an equality join whose presence in R changed."""
    left, right = join.inputs
    own = tuple(e for e in join.on if set(e.columns) <= set(left.names))
    current = derive.after(right)
    counts = derive.share(_counts(compared, current, change), "rows and NULLs of the right input, and what moved")
    begins = derive.select(counts, _BEGINS, "whether the right input begins or ceases to be empty")
    voids = derive.select(counts, _VOIDS, "whether its first NULL came or its last one went")
    equal = replace(join, on=(compared.equality,))
    free = _where(counts, _FREE, _FREE)
    moved = keys(equal)
    moved = p.project(p.InnerJoin((*moved.columns, *free.columns), (moved, free), ()), p.passing(moved))
    moved = derive.share(moved, "keys whose presence changed, while there is no NULL")
    by_key = prune_by([derive.before(left), moved], 1, (compared.equality, *own))
    rows = p.Filter(by_key[0].columns, derive.before(left), own) if own else derive.before(left)
    a = p.quote(compared.left)
    void = _turning(left, _where(rows, f"{a} is not null", compared.left), voids, "__fl_nulls")
    partners = compared.partners(current)
    return union(
        [
            join_weighted(p.InnerJoin(left.columns, join.inputs, (compared.equality, *own)), by_key, 1),
            _turning(left, _where(rows, f"{a} is null", compared.left), begins, "__fl_rows"),
            p.Join(void.columns, (void, partners), "LeftAnti", (compared.equality,)),
        ]
    )


def _counts(compared: NullAware, current: p.Plan, change: p.Plan) -> p.Plan:
    null = f"if({p.quote(compared.right)} is null, 1L, 0L)"
    there = ("1L", "0L", null, "0L")
    moved = ("0L", p.WEIGHT, "0L", f"{null} * {p.WEIGHT}")
    types = [p.Column(name, "long") for name in _COUNTS]

    def counted(rows: p.Plan, formulas: tuple[str, ...], *reads: str) -> p.Plan:
        items = [p.Item(n, p.text(f, compared.right, *reads)) for n, f in zip(_COUNTS, formulas, strict=True)]
        return p.project(rows, items, types)

    both = union([counted(current, there), counted(change, moved, p.WEIGHT)])
    sums = tuple(p.Item(n, p.text(f"coalesce(sum({n}), 0L)", n)) for n in _COUNTS)
    totals = p.Group(tuple(types), both, (), sums)
    rows, rows_moved, nulls, nulls_moved = _COUNTS
    flags = {
        _BEGINS: f"({rows} > 0) <> ({rows} - {rows_moved} > 0)",
        _VOIDS: f"({nulls} > 0) <> ({nulls} - {nulls_moved} > 0)",
        _FREE: f"{nulls} - {nulls_moved} = 0",
    }
    items = [p.Item(name, p.text(formula, *_COUNTS)) for name, formula in flags.items()]
    return p.project(totals, p.passing(totals, *items), [p.Column(name, "boolean") for name in flags])


def _turning(left: p.Plan, rows: p.Plan, flag: p.Plan, count: str) -> p.Plan:
    """All of the rows with the turn s of a count that has just become positive, or 0."""
    turn = p.project(flag, [p.Item(p.WEIGHT, p.text(f"if({count} > 0, 1L, -1L)", count))], [COLUMN])
    return join_weighted(p.InnerJoin(left.columns, (rows, turn), ()), [rows, turn], 1)


def _where(rows: p.Plan, condition: str, *reads: str) -> p.Plan:
    return p.Filter(rows.columns, rows, (p.text(condition, *reads),))
