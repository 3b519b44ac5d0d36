"""What SQL leaves open: columns, and sometimes rows, for which a query may return one of several results.

Two evaluations may differ there and both be right, so comparing them would only raise false alarms. What depends on an
open value is open too; where open values decide which rows there are, all of them are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from freshlake.compiler import plan as p
from freshlake.compiler.aggregate_functions import Open, function_of


@dataclass
class Openness:
    """`columns` have open values, `lists` are arrays whose order alone is open."""

    columns: set[str] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)
    rows: bool = False
    """Whether it is open which rows there are."""

    def reads(self, names: tuple[str, ...] | set[str]) -> bool:
        return bool(set(names) & (self.columns | self.lists))


def openness(plan: p.Plan, ties: bool) -> Openness:
    """`ties` says whether orders that the query leaves incomplete count: not when they are completed alike."""
    found = Openness()
    _visit(plan, found, ties)
    return found


def _visit(plan: p.Plan, found: Openness, ties: bool) -> None:
    for child in plan.children:
        _visit(child, found, ties)
    match plan:
        case p.Project():
            _items(plan.items, found)
        case p.Filter():
            _filter(plan, found)
        case p.Aggregate():
            _aggregate(plan, found)
        case p.Window():
            _window(plan, found, ties)
        case p.TopK():
            _top(plan, found, ties)
        case p.Union() | p.Expand():
            _items(_branches(plan), found)
        case _:
            found.rows |= _decides_rows(plan, found)


def _decides_rows(plan: p.Plan, found: Openness) -> bool:
    match plan:
        case p.Generate():
            # an array of unknown order still has the same elements
            is_bag = plan.generator.text.startswith("explode(") and not set(plan.generator.columns) & found.columns
            return found.reads(plan.generator.columns) and not is_bag
        case p.InnerJoin() | p.Join():
            return any(found.reads(e.columns) for e in plan.on)
        case p.SetOp() | p.Loop():
            return any(found.reads(c.names) for c in plan.inputs)
    return False


def _branches(plan: p.Union | p.Expand) -> Iterator[p.Item]:
    """What each column is, in every branch."""
    for i, name in enumerate(plan.names):
        if isinstance(plan, p.Union):
            yield from (p.Item(name, p.column_expr(c.names[i])) for c in plan.inputs)
        else:
            yield from (p.Item(name, row[i]) for row in plan.rows)


def _items(items: Iterable[p.Item], found: Openness) -> None:
    for item in items:
        if item.source in found.lists:
            found.lists.add(item.name)
        elif found.reads(item.reads):
            found.columns.add(item.name)


def _filter(plan: p.Filter, found: Openness) -> None:
    if not any(found.reads(e.columns) for e in plan.on):
        return
    window = plan.child
    while isinstance(window, p.Project):
        window = window.child
    reads = {c for e in plan.on for c in e.columns}
    if isinstance(window, p.Window) and not _is_moved(window, found) and reads <= (kept := _by_place(window)):
        # the first rows of each partition: how many there are and their place in the order is not open
        found.columns |= set(plan.names) - (kept - {i.name for i in window.items})
    else:
        found.rows = True


def _by_place(window: p.Window) -> set[str]:
    """Columns whose values follow from a row's place in its partition."""
    places = {i.name for i in window.items if i.expr is not None and p.PLACE in i.expr.facts}
    return {*window.partition, *_columns(window.order), *places}


def _aggregate(plan: p.Aggregate, found: Openness) -> None:
    found.rows |= any(found.reads(k.reads) for k in plan.keys)
    for call in plan.calls:
        if found.reads(call.columns):
            found.columns.add(call.name)
        elif p.OPEN in call.facts:
            is_list = function_of(call.function).open is Open.ORDER
            (found.lists if is_list else found.columns).add(call.name)


def _window(plan: p.Window, found: Openness, ties: bool) -> None:
    moved, tied = _is_moved(plan, found), _are_open(plan.ties, found, ties)
    for item in plan.items:
        sees = item.expr is not None and p.TIES in item.expr.facts
        if moved or found.reads(item.reads) or (sees and tied):
            found.columns.add(item.name)


def _is_moved(window: p.Window, found: Openness) -> bool:
    """Whether it is open in which partition and at which place of it a row stands."""
    return found.reads(window.partition) or any(found.reads(o.expr.columns) for o in window.order)


def _are_open(completed: tuple[p.Order, ...], found: Openness, ties: bool) -> bool:
    """Ties that may differ, or that open values decide."""
    return bool(completed) and (ties or any(found.reads(o.expr.columns) for o in completed))


def _top(plan: p.TopK, found: Openness, ties: bool) -> None:
    found.rows |= any(found.reads(o.expr.columns) for o in plan.order)
    if _are_open(plan.ties, found, ties):
        found.columns |= set(plan.names) - _columns(plan.order)


def _columns(order: tuple[p.Order, ...]) -> set[str]:
    return {o.expr.columns[0] for o in order if o.expr.is_column}
