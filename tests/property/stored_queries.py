"""Random windows, top-k, set operations, generators, grouping sets, recursions and pivots, each with one result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random

from tests.property.query import (
    Col,
    Counted,
    Exploded,
    Item,
    Pivoted,
    Project,
    Query,
    Recursive,
    Table,
    Top,
    Unpivoted,
    Windowed,
)
from tests.property.values import TYPES, literal, predicate, scalar

STORED_OPERATORS = (
    "window",
    "top",
    "set_operation",
    "explode",
    "grouping_sets",
    "qualify",
    "recursion",
    "pivot",
    "unpivot",
)


@dataclass
class StoredQueries(ABC):
    rng: Random
    tables: list[Table]

    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def source(self, deep: int) -> Query: ...

    @abstractmethod
    def exact(self, query: Query) -> list[Col]: ...

    @abstractmethod
    def make_aggregate(self, child: Query, operator: str, sets: bool = False) -> Query: ...

    @abstractmethod
    def _matching(self, query: Query, wanted: Col, inexact: bool) -> Item: ...

    def make_other(self, operator: str, below: int) -> Query:
        match operator:
            case "top":
                return self.make_top(self.source(below))
            case "set_operation":
                return self.make_counted(self.source(below), self.source(below))
            case "explode":
                return self.make_exploded(self.source(below))
            case "grouping_sets":
                kind = self.rng.choice(("aggregate", "extremum", "recompute"))
                return self.make_aggregate(self.source(below), kind, sets=True)
            case "window" | "qualify":
                return self.make_window(self.source(below), qualify=operator == "qualify")
            case "recursion":
                return self.make_recursion(self.source(below), self.source(below))
            case "pivot":
                return self.make_pivot(self.source(below))
            case "unpivot":
                return self.make_unpivot(self.source(below))
        return self.make_aggregate(self.source(below), operator)

    def sortable(self, query: Query) -> list[Col]:
        """Columns whose order leaves nothing open: 0.0 and -0.0 are equal, but not the same."""
        return [c for c in self.exact(query) if c.kind != "double"]

    def narrowed(self, query: Query) -> Query:
        """Only columns that can be ordered and counted."""
        kept = self.sortable(query)
        if len(kept) == len(query.cols):
            return query
        return Project(query, tuple(Item(c.name, c) for c in kept)) if kept else query

    def ordering(self, cols: list[Col]) -> tuple[str, ...]:
        ways = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        return tuple(f"{c.name}{self.rng.choice(ways)}" for c in cols)

    def make_window(self, child: Query, qualify: bool) -> Query:
        rng, child = self.rng, self.narrowed(child)
        cols = self.sortable(child)
        if not cols:
            return child
        partition = [
            self._key(c) for c in rng.sample(cols, rng.randint(0 if rng.random() < 0.2 else 1, min(2, len(cols))))
        ]
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        items = tuple(self._window_function(cols, by) for _ in range(rng.randint(1, 2)))
        counts = [i.col.name for i in items if i.col.kind == "int" and i.col.exact]
        where = f"{rng.choice(counts)} {rng.choice(('= 1', '<= 2', '> 1'))}" if qualify and counts else None
        return Windowed(child, items, where)

    def _key(self, col: Col) -> str:
        return col.name if self.rng.random() < 0.8 else scalar(self.rng, col)

    def _window_function(self, cols: list[Col], by: str) -> Item:
        """Functions that see ties are ordered by all columns."""
        rng, c = self.rng, self.rng.choice(cols)
        some = ", ".join(self.ordering(rng.sample(cols, rng.randint(1, len(cols)))))
        every = ", ".join(self.ordering(rng.sample(cols, len(cols))))
        rows = rng.choice(
            ("1 PRECEDING AND CURRENT ROW", "CURRENT ROW AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING")
        )
        text, kind = rng.choice(
            [
                (f"rank() OVER ({by}ORDER BY {some})", "int"),
                (f"dense_rank() OVER ({by}ORDER BY {some})", "int"),
                (f"count(*) OVER ({by}ORDER BY {some})", "int"),
                (f"count({c.name}) OVER ({by})", "int"),
                (f"max({c.name}) OVER ({by}ORDER BY {some})", c.kind),
                (f"row_number() OVER ({by}ORDER BY {every})", "int"),
                (f"ntile(2) OVER ({by}ORDER BY {every})", "int"),
                (f"lag({c.name}) OVER ({by}ORDER BY {every})", c.kind),
                (f"first_value({c.name}) OVER ({by}ORDER BY {every})", c.kind),
                (f"min({c.name}) OVER ({by}ORDER BY {every} ROWS BETWEEN {rows})", c.kind),
            ]
        )
        return Item(text, Col(self.name(), kind))

    def make_top(self, child: Query) -> Query:
        rng, child = self.rng, self.narrowed(child)
        cols = self.sortable(child)
        if not cols:
            return child
        order = self.ordering(rng.sample(cols, len(cols)))
        return Top(child, order, rng.choice((0, 1, 2, 3, 5, 50)), rng.choice((0, 0, 0, 1, 2)))

    def make_counted(self, left: Query, right: Query) -> Query:
        rng, usable = self.rng, self.sortable(left)
        if not usable:
            return left
        kept = rng.sample(usable, rng.randint(1, min(2, len(usable))))
        places = [self._matching(right, c, inexact=False) for c in kept]
        sides = (Project(left, tuple(Item(c.name, c) for c in kept)), Project(right, tuple(places)))
        return Counted(*sides, rng.choice(("INTERSECT", "EXCEPT")), rng.random() < 0.6)

    def make_recursion(self, left: Query, right: Query) -> Query:
        rng, starts = self.rng, self.sortable(left)
        ways = [
            (end, step, on)
            for end in starts
            for step in self.sortable(right)
            for on in self.sortable(right)
            if end.kind == step.kind == on.kind and end.kind != "bool"
        ]
        if not ways or left.size > 20 or right.size > 20:
            return left
        start, (end, step, on) = rng.choice(starts), rng.choice(ways)
        columns = (Col(self.name(), start.kind), Col(self.name(), end.kind), Col(self.name(), "int"))
        sql_type = {"int": "BIGINT", "dec": "DECIMAL(38,10)"}.get(end.kind) or TYPES[end.kind]
        return Recursive(left, right, start.name, end.name, step.name, on.name, sql_type, columns)

    def make_pivot(self, child: Query) -> Query:
        rng, cols = self.rng, self.sortable(child)
        if len(cols) < 2:
            return child
        by, value, *rest = rng.sample(cols, len(cols))
        keys = tuple(rest[: rng.randint(0, 2)])
        calls = [(f"count({value.name})", "int"), (f"max({value.name})", value.kind)]
        calls += [(f"sum({value.name})", value.kind)] if value.kind in ("int", "dec") else []
        call, kind = rng.choice(calls)
        chosen = sorted({literal(rng, by.kind, nulls=0.0) for _ in range(3)})
        values = tuple(Item(text, Col(self.name(), kind)) for text in chosen)
        narrow = Project(child, tuple(Item(c.name, c) for c in (*keys, by, value)))
        return Pivoted(narrow, keys, call, by.name, values)

    def make_unpivot(self, child: Query) -> Query:
        rng, cols = self.rng, self.sortable(child)
        kind = rng.choice([c.kind for c in cols]) if cols else ""
        alike = [c for c in cols if c.kind == kind]
        if not alike:
            return child
        columns = tuple(c.name for c in rng.sample(alike, rng.randint(1, min(3, len(alike)))))
        kept = tuple(c for c in child.cols if c.name not in columns)
        return Unpivoted(child, kept, columns, Col(self.name(), "str"), Col(self.name(), kind), rng.random() < 0.5)

    def make_exploded(self, child: Query) -> Query:
        rng, cols = self.rng, self.sortable(child)
        if not cols:
            return child
        c = rng.choice(cols)
        array = rng.choice(
            (
                f"array({c.name}, {c.name})",
                f"CASE WHEN {predicate(rng, cols)} THEN array({c.name}, NULL) END",
                f"filter(array({c.name}), v -> v IS NOT NULL)",
            )
        )
        return Exploded(child, array, Col(self.name(), c.kind), rng.random() < 0.5)
