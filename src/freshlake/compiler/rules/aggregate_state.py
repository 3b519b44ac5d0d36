"""Formulas of the aggregate state: per group the row count, non-null counts, exact sums and extrema.

Sums are decimal(38, s) of the input's own scale. A decimal is never multiplied by a BIGINT weight, which would lose
scale: up to 28 digits the weight is a decimal(9, 0), so the product keeps every digit; wider inputs are added once per
copy. `sum` keeps the scale of a decimal(38, s), `+` does not, so states are merged by summing a union.
"""

from __future__ import annotations

from collections.abc import Iterator

from freshlake.compiler import plan as p
from freshlake.compiler.aggregates import ROWS, SAFE, decimal_of, state_columns
from freshlake.compiler.rules.weights import COLUMN, is_weighted


def arguments(aggregate: p.Aggregate, child: p.Plan) -> p.Plan:
    """Keys, arguments and filters of the calls as plain columns of `child` (weighted or not)."""
    items = list(aggregate.keys)
    for call in aggregate.calls:
        items += [p.Item(f"__fl_a{call.slot}_{j}", arg) for j, arg in enumerate(call.args)]
        if call.condition is not None:
            items.append(p.Item(f"__fl_f{call.slot}", call.condition))
    if not is_weighted(child):
        return p.project(child, items, aggregate.columns)
    prepared = p.project(child, (*items, p.Item(p.WEIGHT)), aggregate.columns)
    return _one_row_per_copy(prepared) if any(_is_wide(c) for c in aggregate.calls) else prepared


def _is_wide(call: p.Call) -> bool:
    return call.function in ("Sum", "Average") and (decimal_of(call.arg_types[0]) or (0, 0))[0] > SAFE


def _one_row_per_copy(plan: p.Plan) -> p.Plan:
    copies = f"explode(array_repeat(if({p.WEIGHT} > 0, 1L, -1L), cast(abs({p.WEIGHT}) as int)))"
    rest = [n for n in plan.names if n != p.WEIGHT]
    single = p.project(plan, (*p.passing(plan, only=rest), p.Item("__fl_copy", p.text(copies, p.WEIGHT))))
    return p.project(single, (*p.passing(single, only=rest), p.Item(p.WEIGHT, p.column_expr("__fl_copy"))), [COLUMN])


def value(call: p.Call) -> str:
    """The call's argument, NULL where its FILTER does not hold."""
    arg = f"__fl_a{call.slot}_0"
    return f"if(__fl_f{call.slot}, {arg}, null)" if call.condition is not None else arg


def counted(call: p.Call) -> str:
    """True for rows the call counts: every argument is there and the FILTER holds."""
    tests = [f"__fl_a{call.slot}_{j} is not null" for j in range(len(call.args))]
    if call.condition is not None:
        tests.append(f"coalesce(__fl_f{call.slot}, false)")
    return " and ".join(tests) or "true"


def change_of_state(aggregate: p.Aggregate, change: p.Plan) -> p.Plan:
    """Σ over the weighted change, per group; extrema as best inserted (`__fl_i`) and best removed (`__fl_d`) values."""
    prepared = arguments(aggregate, change)
    extrema = [c for c in aggregate.calls if c.function in ("Min", "Max")]
    if extrema:
        prepared = _with_net_weights(prepared, aggregate, extrema)
    items = [p.Item(ROWS, p.text(f"sum({p.WEIGHT})", p.WEIGHT))]
    for call in aggregate.calls:
        items += [p.Item(name, p.text(formula)) for name, formula in _changes(call)]
    return _group(aggregate, prepared, items)


def _with_net_weights(prepared: p.Plan, aggregate: p.Aggregate, extrema: list[p.Call]) -> p.Plan:
    """The net weight of each (group, value), so that −v +v of an unrelated update cancels."""
    keys = [p.quote(k.name) for k in aggregate.keys]
    nets = []
    for call in extrema:
        # 0.0 and -0.0 are equal, but not the same
        signed = [f"cast({value(call)} as string)"] if call.type in ("float", "double") else []
        by = ", ".join([*keys, value(call), *signed])
        nets.append(p.Item(f"__fl_e{call.slot}", p.text(f"sum({p.WEIGHT}) over (partition by {by})")))
    return p.project(prepared, p.passing(prepared, *nets))


def _changes(call: p.Call) -> Iterator[tuple[str, str]]:
    i = call.slot
    if call.function in ("Sum", "Average"):
        precision, scale = decimal_of(call.arg_types[0]) or (38, 0)
        x = f"cast({value(call)} as decimal({precision},{scale}))"
        term = f"if({p.WEIGHT} > 0, {x}, -{x})" if precision > SAFE else f"{x} * cast({p.WEIGHT} as decimal(9,0))"
        yield f"__fl_s{i}", _sum(term, scale)
    if call.function in ("Min", "Max"):
        best = call.function.lower()
        yield f"__fl_i{i}", f"{best}(if(__fl_e{i} > 0, {value(call)}, null))"
        yield f"__fl_d{i}", f"{best}(if(__fl_e{i} < 0, {value(call)}, null))"
    yield f"__fl_n{i}", f"sum(if({counted(call)}, {p.WEIGHT}, 0L))"


def _sum(term: str, scale: int) -> str:
    """The zero has the type of the sum: with a plain 0 Spark makes room for ten digits before the point."""
    kind = f"decimal(38,{scale})"
    return f"coalesce(cast(sum({term}) as {kind}), cast(0 as {kind}))"


def whole_state(aggregate: p.Aggregate, child: p.Plan) -> p.Plan:
    """The state computed from plain rows: for the first load, a FULL refresh and recomputed groups."""
    items = [p.Item(ROWS, p.text("count(1)"))]
    for call in aggregate.calls:
        i = call.slot
        if call.function in ("Sum", "Average"):
            precision, scale = decimal_of(call.arg_types[0]) or (38, 0)
            term = f"cast({value(call)} as decimal({precision},{scale}))"
            items.append(p.Item(f"__fl_s{i}", p.text(_sum(term, scale))))
        if call.function in ("Min", "Max"):
            items.append(p.Item(f"__fl_m{i}", p.text(f"{call.function.lower()}({value(call)})")))
        items.append(p.Item(f"__fl_n{i}", p.text(f"count_if({counted(call)})")))
    return _group(aggregate, arguments(aggregate, child), items)


def merged_sums(aggregate: p.Aggregate, states: p.Plan, extra: tuple[p.Item, ...] = ()) -> p.Plan:
    """Add states of the same group."""
    items = []
    for name, kind in state_columns(aggregate.calls):
        if not name.startswith("__fl_m"):
            total = f"sum({name})" if kind == "long" else f"cast(sum({name}) as {kind})"
            items.append(p.Item(name, p.text(total, name)))
    return _group(aggregate, states, [*items, *extra])


def finished(aggregate: p.Aggregate, state: p.Plan) -> p.Plan:
    """Results from state by Spark's own final step; groups without rows vanish, a global aggregate never does."""
    live = p.Filter(state.columns, state, (p.text(f"{ROWS} > 0", ROWS),)) if aggregate.keys else state
    results = [p.Item(c.name, c.finish) for c in aggregate.calls]
    names = [n for n, _ in state_columns(aggregate.calls)]
    items = [*(p.Item(k.name) for k in aggregate.keys), *results, *(p.Item(n) for n in names)]
    return p.project(live, items, (*aggregate.columns, *state_schema(aggregate)))


def state_schema(aggregate: p.Aggregate) -> tuple[p.Column, ...]:
    return tuple(p.Column(n, t) for n, t in state_columns(aggregate.calls))


def _group(aggregate: p.Aggregate, child: p.Plan, items: list[p.Item]) -> p.Plan:
    keys = aggregate.columns[: len(aggregate.keys)]
    known = {c.name: c for c in state_schema(aggregate)}
    columns = (*keys, *(known.get(i.name, p.Column(i.name)) for i in items))
    return p.Group(columns, child, tuple(k.name for k in aggregate.keys), tuple(items))
