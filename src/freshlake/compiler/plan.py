"""The algebra: frozen relational nodes; scalar expressions are opaque values that only name the columns they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

WEIGHT = "__fl_weight"

TIES = "ties"
"""The fact of a window function whose result depends on the order of rows that its ORDER BY leaves equal."""

OPEN = "open"
"""The fact of an aggregate call of which two evaluations over the same rows may differ."""

PLACE = "place"
"""The fact of a window function whose result follows from a row's place in its partition: row_number, ntile."""


@dataclass(frozen=True)
class Column:
    """An output column: `name` is unique in the plan, `label` is what the user wrote, `type` is Spark's JSON type."""

    name: str
    type: str = ""
    nullable: bool = True
    label: str = ""
    metadata: str = "{}"
    attribute: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Expr:
    """A scalar expression: user code is a Catalyst `handle`; engine formulas are `text` alone."""

    text: str
    columns: tuple[str, ...] = ()
    handle: Any = field(default=None, compare=False, repr=False)
    is_column: bool = False
    equality: tuple[str, str] | None = None
    """The columns of `a = b`."""
    same: tuple[str, str] | None = None
    """The columns of `a <=> b`, where NULLs are equal."""
    null_of: Column | None = None
    """Set for a NULL of a column's type, which the engine writes."""
    facts: frozenset[str] = frozenset()
    digest: str | None = field(default=None, repr=False)
    """Of all that the handle means; the text is for people, and may leave parts of it out."""
    not_false: Expr | None = field(default=None, repr=False, compare=False)
    """The `a = b` of `(a = b) IS NOT FALSE`, which NOT IN becomes."""


@dataclass(frozen=True)
class Item:
    """One output of a projection; `expr` None passes the column of that name through."""

    name: str
    expr: Expr | None = None

    @property
    def source(self) -> str | None:
        """The input column this item copies, when it copies one."""
        if self.expr is None:
            return self.name
        return self.expr.columns[0] if self.expr.is_column else None

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,) if self.expr is None else self.expr.columns


@dataclass(frozen=True)
class Call:
    """One aggregate call: how Spark computes it (`handle`) and the parts a state needs."""

    name: str
    function: str
    text: str
    type: str
    slot: int = 0
    """Numbers the call's state columns; kept when other calls are pruned."""
    args: tuple[Expr, ...] = ()
    arg_types: tuple[str, ...] = ()
    condition: Expr | None = None
    distinct: bool = False
    columns: tuple[str, ...] = ()
    facts: frozenset[str] = frozenset()
    handle: Any = field(default=None, compare=False, repr=False)
    finish: Expr | None = None
    """Spark's own final step over the state columns of this call, when it has an exact state."""
    digest: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Order:
    """One part of an ordering; `direction` is SQL."""

    expr: Expr
    direction: str = "ASC NULLS FIRST"

    @property
    def sql(self) -> str:
        return f"{self.expr.text} {self.direction}"


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Plan:
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def children(self) -> tuple[Plan, ...]:
        return ()

    def with_children(self, children: tuple[Plan, ...]) -> Plan:
        assert not children
        return self


@dataclass(frozen=True)
class Scan(Plan):
    """A source table; `fields` are the table's own column names, in the order of `columns`."""

    source: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class NodeRef(Plan):
    """The output of a stored internal node."""

    node: str


@dataclass(frozen=True)
class Values(Plan):
    """A constant relation."""

    text: str
    handle: Any = field(default=None, compare=False, repr=False)
    digest: str | None = field(default=None, repr=False)


# Leaves that only appear in programs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prune:
    """A hint: rows of this leaf matter only where `field` is among the values of `key` in the step `ref`."""

    field: str
    ref: str
    key: str


@dataclass(frozen=True)
class State(Plan):
    """A source or node as it was before or after the refresh, as plain rows."""

    of: str
    fields: tuple[str, ...]
    when: When
    prune: tuple[Prune, ...] = ()
    stored: bool = False


@dataclass(frozen=True)
class Delta(Plan):
    """The change of a source, weighted."""

    source: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Ref(Plan):
    """The result of an earlier step."""

    step: str


# Operators -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unary(Plan):
    child: Plan

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.child,)

    def with_children(self, children: tuple[Plan, ...]) -> Plan:
        from dataclasses import replace

        return replace(self, child=children[0])


@dataclass(frozen=True)
class Project(Unary):
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Filter(Unary):
    on: tuple[Expr, ...]


@dataclass(frozen=True)
class Aggregate(Unary):
    keys: tuple[Item, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Group(Unary):
    """An aggregation written by the engine: key columns and text formulas."""

    keys: tuple[str, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Generate(Unary):
    generator: Expr
    outer: bool
    new: tuple[str, ...]


@dataclass(frozen=True)
class Expand(Unary):
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class Window(Unary):
    """Window functions of one partitioning and order, added to the columns of the input."""

    items: tuple[Item, ...]
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    ties: tuple[Order, ...] = ()
    """What decides between rows that `order` leaves equal, where a function sees the difference."""


@dataclass(frozen=True)
class Sort(Unary):
    order: tuple[Order, ...]
    is_global: bool


@dataclass(frozen=True)
class Limit(Unary):
    """The first rows, or with `offset` all but the first."""

    count: int
    offset: bool = False


@dataclass(frozen=True)
class TopK(Unary):
    """The rows from place `start` up to `end` (None: to the last) in an order."""

    order: tuple[Order, ...]
    start: int = 0
    end: int | None = None
    ties: tuple[Order, ...] = ()
    """What decides between rows that `order` leaves equal."""


@dataclass(frozen=True)
class Multi(Plan):
    inputs: tuple[Plan, ...]

    @property
    def children(self) -> tuple[Plan, ...]:
        return self.inputs

    def with_children(self, children: tuple[Plan, ...]) -> Plan:
        from dataclasses import replace

        return replace(self, inputs=children)


@dataclass(frozen=True)
class InnerJoin(Multi):
    """n-way inner or cross join: the rows of the product on which every conjunct is true."""

    on: tuple[Expr, ...]
    unread: frozenset[str] = field(default=frozenset(), repr=False)
    """Columns that only the conjuncts read: whatever they hold in a change is dropped above."""


@dataclass(frozen=True)
class SemiJoin(Multi):
    """Rows of the first input whose key columns match (null-safe) a row of the second."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Given(Multi):
    """The first input; nothing when the second is known to be empty before the plan runs. Only in programs."""


@dataclass(frozen=True)
class Join(Multi):
    """A two-way join of another kind (outer, semi, anti, existence, single)."""

    kind: str
    on: tuple[Expr, ...]
    exists: str | None = None


@dataclass(frozen=True)
class Union(Multi):
    """UNION ALL by position; its own column names."""


@dataclass(frozen=True)
class SetOp(Multi):
    kind: str
    all: bool


@dataclass(frozen=True)
class Loop(Multi):
    """A recursive CTE: anchor and step; `limit` is the number of levels beyond which Spark gives up."""

    id: int
    limit: int = 100
    depth: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class LoopRef(Plan):
    id: int


LINEAR = (Scan, NodeRef, Values, Project, Filter, Union, InnerJoin, Join, Generate, Expand)
"""Operators whose change follows from their inputs' changes and states, so nothing of them is stored below the root."""

NONLINEAR = (Aggregate, Window, SetOp, TopK, Loop)
"""Operators whose change needs their own old output: each is a stored node."""


def text(sql: str, *columns: str) -> Expr:
    """An engine formula."""
    return Expr(sql, tuple(columns))


def null(column: Column) -> Expr:
    """NULL of the column's type."""
    return Expr("NULL", null_of=column)


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def column_expr(name: str) -> Expr:
    return Expr(quote(name), (name,), is_column=True)


def passing(child: Plan, *extra: Item, only: Iterable[str] | None = None) -> tuple[Item, ...]:
    """Pass-through items for the child's columns (or `only` those), followed by `extra`."""
    names = child.names if only is None else tuple(only)
    return tuple(Item(n) for n in names) + extra


def project(child: Plan, items: Iterable[Item], types: Iterable[Column] = ()) -> Project:
    """A projection whose columns are looked up among the child's (or `types`) where possible."""
    known = {c.name: c for c in child.columns} | {c.name: c for c in types}
    items = tuple(items)
    columns = tuple(_column_of(item, known) for item in items)
    return Project(columns, child, items)


def _column_of(item: Item, known: dict[str, Column]) -> Column:
    from dataclasses import replace

    if item.name in known:
        return known[item.name]
    source = item.source
    if source is not None and source in known:
        return replace(known[source], name=item.name)
    return Column(item.name)
