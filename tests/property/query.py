"""Queries as a small tree that renders to SQL, so that a failing one can be made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Col:
    """An output column. What is not `exact` (float sums, unordered lists) may only be passed on, never compared."""

    name: str
    kind: str
    exact: bool = True


@dataclass(frozen=True)
class Item:
    """One output of a SELECT list; the text is the column's own name when it is passed on."""

    text: str
    col: Col

    def sql(self) -> str:
        passed = self.text.removeprefix("l.").removeprefix("r.") == self.col.name
        return self.text if passed else f"{self.text} AS {self.col.name}"


@dataclass(frozen=True)
class Query:
    @property
    def cols(self) -> tuple[Col, ...]:
        raise NotImplementedError

    @property
    def children(self) -> tuple[Query, ...]:
        return ()

    def with_children(self, children: tuple[Query, ...]) -> Query:
        assert not children
        return self

    @property
    def size(self) -> float:
        """A guess of the number of rows, to keep products small."""
        return self.children[0].size

    def sql(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Table(Query):
    """A plain table or another stream table."""

    name: str
    columns: tuple[Col, ...]
    rows: float = 12

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.columns

    @property
    def size(self) -> float:
        return self.rows

    def sql(self) -> str:
        return f"SELECT {_names(self.columns)} FROM {self.name}"


@dataclass(frozen=True)
class Unary(Query):
    child: Query

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.child,)

    def with_children(self, children: tuple[Query, ...]) -> Query:
        return replace(self, child=children[0])


@dataclass(frozen=True)
class Filter(Unary):
    condition: str

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.child.cols

    def sql(self) -> str:
        return f"SELECT {_names(self.cols)} FROM {_from(self.child)} WHERE {self.condition}"


@dataclass(frozen=True)
class Project(Unary):
    items: tuple[Item, ...]

    @property
    def cols(self) -> tuple[Col, ...]:
        return tuple(i.col for i in self.items)

    def sql(self) -> str:
        return f"SELECT {_list(self.items)} FROM {_from(self.child)}"


@dataclass(frozen=True)
class Distinct(Unary):
    @property
    def cols(self) -> tuple[Col, ...]:
        return self.child.cols

    def sql(self) -> str:
        return f"SELECT DISTINCT {_names(self.cols)} FROM {_from(self.child)}"


@dataclass(frozen=True)
class Aggregate(Unary):
    """Without keys it is one row, whatever the input."""

    keys: tuple[Item, ...]
    calls: tuple[Item, ...]
    having: str | None = None
    sets: str = ""
    """ROLLUP or CUBE."""

    @property
    def cols(self) -> tuple[Col, ...]:
        return tuple(i.col for i in (*self.keys, *self.calls))

    @property
    def size(self) -> float:
        return max(1.0, self.child.size * 0.6) if self.keys else 1.0

    def sql(self) -> str:
        text = f"SELECT {_list((*self.keys, *self.calls))} FROM {_from(self.child)}"
        if self.keys:
            keys = ", ".join(k.text for k in self.keys)
            text += f" GROUP BY {self.sets} ({keys})" if self.sets else f" GROUP BY {keys}"
        return f"{text} HAVING {self.having}" if self.having else text


@dataclass(frozen=True)
class Windowed(Unary):
    """All columns of the input, and window functions."""

    items: tuple[Item, ...]
    qualify: str | None = None

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.child.cols, *(i.col for i in self.items))

    def sql(self) -> str:
        text = f"SELECT {_names(self.child.cols)}, {_list(self.items)} FROM {_from(self.child)}"
        return f"SELECT * FROM ({text}) AS w WHERE {self.qualify}" if self.qualify else text


@dataclass(frozen=True)
class Top(Unary):
    order: tuple[str, ...]
    count: int
    skipped: int = 0

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.child.cols

    @property
    def size(self) -> float:
        return min(float(self.count), self.child.size)

    def sql(self) -> str:
        skipped = f" OFFSET {self.skipped}" if self.skipped else ""
        order = ", ".join(self.order)
        return f"SELECT {_names(self.cols)} FROM {_from(self.child)} ORDER BY {order} LIMIT {self.count}{skipped}"


@dataclass(frozen=True)
class Exploded(Unary):
    array: str
    col: Col
    outer: bool

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.child.cols, self.col)

    @property
    def size(self) -> float:
        return self.child.size * 2

    def sql(self) -> str:
        view = f"LATERAL VIEW {'OUTER ' if self.outer else ''}explode({self.array}) AS {self.col.name}"
        return f"SELECT {_names(self.cols)} FROM {_from(self.child)} {view}"


@dataclass(frozen=True)
class Binary(Query):
    left: Query
    right: Query

    @property
    def children(self) -> tuple[Query, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Query, ...]) -> Query:
        return replace(self, left=children[0], right=children[1])


@dataclass(frozen=True)
class Join(Binary):
    """Inputs are `l` and `r`; no condition is a cross join."""

    items: tuple[Item, ...]
    on: str | None
    kind: str = "JOIN"

    @property
    def cols(self) -> tuple[Col, ...]:
        return tuple(i.col for i in self.items)

    @property
    def size(self) -> float:
        share = 1.0 if self.on is None else 0.3
        return max(1.0, self.left.size * self.right.size * share)

    def sql(self) -> str:
        word = "CROSS JOIN" if self.on is None else self.kind
        on = "" if self.on is None else f" ON {self.on}"
        return f"SELECT {_list(self.items)} FROM {_from(self.left, 'l')} {word} {_from(self.right, 'r')}{on}"


@dataclass(frozen=True)
class Match(Binary):
    """Rows of `l` by whether `r` has a match: as a filter (perhaps with an alternative), or shown as a column."""

    test: str
    """With `{}` in the place of the right side."""
    shown: Col | None = None

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.left.cols, self.shown) if self.shown else self.left.cols

    def sql(self) -> str:
        test = self.test.format(_from(self.right, "r"))
        names, rows = ", ".join(f"l.{c.name}" for c in self.left.cols), _from(self.left, "l")
        if self.shown:
            return f"SELECT {names}, {test} AS {self.shown.name} FROM {rows}"
        return f"SELECT {names} FROM {rows} WHERE {test}"


@dataclass(frozen=True)
class Scalar(Binary):
    """Rows of `l` with one value computed from `r`."""

    call: Item
    where: str | None

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.left.cols, self.call.col)

    def sql(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        value = f"(SELECT {self.call.text} FROM {_from(self.right, 'r')}{where})"
        names = ", ".join(f"l.{c.name}" for c in self.left.cols)
        return f"SELECT {names}, {value} AS {self.call.col.name} FROM {_from(self.left, 'l')}"


@dataclass(frozen=True)
class Union(Binary):
    """By position, under the names of the left side."""

    all: bool

    @property
    def cols(self) -> tuple[Col, ...]:
        pairs = zip(self.left.cols, self.right.cols, strict=True)
        return tuple(Col(a.name, a.kind, a.exact and b.exact) for a, b in pairs)

    @property
    def size(self) -> float:
        return self.left.size + self.right.size

    def sql(self) -> str:
        return f"({self.left.sql()}) UNION {'ALL ' if self.all else ''}({self.right.sql()})"


@dataclass(frozen=True)
class Counted(Binary):
    """INTERSECT or EXCEPT, by position, under the names of the left side."""

    word: str
    all: bool = True

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.left.cols

    def sql(self) -> str:
        return f"({self.left.sql()}) {self.word} {'ALL ' if self.all else ''}({self.right.sql()})"


@dataclass(frozen=True)
class Recursive(Binary):
    """Paths of at most three steps: they begin with rows of the left side, and each step is a row of the right one."""

    start: str
    end: str
    step: str
    """The column of the right side that is the next end of a path whose end is `on`."""
    on: str
    sql_type: str
    columns: tuple[Col, Col, Col]
    """Start, end, number of steps."""

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.columns

    @property
    def size(self) -> float:
        fan = max(1.0, self.right.size * 0.4)
        return self.left.size * (1 + fan + fan**2)

    def sql(self) -> str:
        first, last, steps = (c.name for c in self.columns)
        anchor = f"SELECT {self.start}, CAST({self.end} AS {self.sql_type}), 0 FROM {_from(self.left)}"
        again = (
            f"SELECT p.{first}, CAST(r.{self.step} AS {self.sql_type}), p.{steps} + 1 FROM p "
            f"JOIN {_from(self.right, 'r')} ON p.{last} = r.{self.on} WHERE p.{steps} < 2"
        )
        names = _names(self.cols)
        return f"WITH RECURSIVE p({names}) AS ({anchor} UNION ALL {again}) SELECT {names} FROM p"


@dataclass(frozen=True)
class Pivoted(Unary):
    """One column for each of some values."""

    keys: tuple[Col, ...]
    call: str
    by: str
    values: tuple[Item, ...]

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.keys, *(v.col for v in self.values))

    def sql(self) -> str:
        values = ", ".join(f"{v.text} AS {v.col.name}" for v in self.values)
        return f"SELECT {_names(self.cols)} FROM {_from(self.child)} PIVOT ({self.call} FOR {self.by} IN ({values}))"


@dataclass(frozen=True)
class Unpivoted(Unary):
    """One row for each of some columns."""

    kept: tuple[Col, ...]
    columns: tuple[str, ...]
    name: Col
    value: Col
    nulls: bool

    @property
    def cols(self) -> tuple[Col, ...]:
        return (*self.kept, self.name, self.value)

    @property
    def size(self) -> float:
        return self.child.size * len(self.columns)

    def sql(self) -> str:
        nulls = "INCLUDE NULLS " if self.nulls else ""
        columns = ", ".join(self.columns)
        unpivot = f"UNPIVOT {nulls}({self.value.name} FOR {self.name.name} IN ({columns}))"
        return f"SELECT {_names(self.cols)} FROM {_from(self.child)} {unpivot}"


@dataclass(frozen=True)
class Shared(Unary):
    """A common table expression that its body reads twice, as `l` and `r` (a join) or one after the other (a union)."""

    items: tuple[Item, ...]
    on: str | None
    union: bool

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.child.cols if self.union else tuple(i.col for i in self.items)

    @property
    def size(self) -> float:
        return self.child.size * 2 if self.union else max(1.0, self.child.size**2 * 0.3)

    def sql(self) -> str:
        names = _names(self.child.cols)
        body = (
            f"SELECT {names} FROM shared UNION ALL SELECT {names} FROM shared{f' WHERE {self.on}' if self.on else ''}"
            if self.union
            else f"SELECT {_list(self.items)} FROM shared AS l JOIN shared AS r ON {self.on}"
        )
        return f"WITH shared AS ({self.child.sql()}) {body}"


@dataclass(frozen=True)
class Written(Query):
    """A text with a place for each of its inputs, which are `l`, `r` and `m` in it."""

    parts: tuple[Query, ...]
    text: str
    columns: tuple[Col, ...]
    growth: float = 1.0

    @property
    def cols(self) -> tuple[Col, ...]:
        return self.columns

    @property
    def children(self) -> tuple[Query, ...]:
        return self.parts

    def with_children(self, children: tuple[Query, ...]) -> Query:
        return replace(self, parts=children)

    @property
    def size(self) -> float:
        return max(part.size for part in self.parts) * self.growth

    def sql(self) -> str:
        return self.text.format(*(_from(part, alias) for part, alias in zip(self.parts, "lrm", strict=False)))


def _names(cols: tuple[Col, ...]) -> str:
    return ", ".join(c.name for c in cols)


def _list(items: tuple[Item, ...]) -> str:
    return ", ".join(i.sql() for i in items)


def _from(query: Query, alias: str = "s") -> str:
    return f"{query.name} AS {alias}" if isinstance(query, Table) else f"({query.sql()}) AS {alias}"


def walk(query: Query) -> Iterator[Query]:
    yield query
    for child in query.children:
        yield from walk(child)


def depth(query: Query) -> int:
    return 0 if isinstance(query, Table) else 1 + max(depth(c) for c in query.children)


def reads(query: Query) -> frozenset[str]:
    """Names of the tables and stream tables below."""
    return frozenset(q.name for q in walk(query) if isinstance(q, Table))


def smaller(query: Query) -> Iterator[Query]:
    """Simpler queries, most promising first: a part of it alone, then the same with one thing left out."""
    yield from (q for q in walk(query) if q is not query and not isinstance(q, Table))
    yield from _simplified(query)


def _simplified(query: Query) -> Iterator[Query]:
    """Queries with the same columns as before, so that they fit where this one stands, and at the root fewer calls."""
    yield from _plainer(query)
    for i, child in enumerate(query.children):
        for simple in _simplified(child):
            if {c.name for c in child.cols} <= {c.name for c in simple.cols}:
                yield query.with_children((*query.children[:i], simple, *query.children[i + 1 :]))


def _plainer(query: Query) -> Iterator[Query]:
    match query:
        case Filter() | Distinct() | Top():
            yield query.child
        case Match() if not query.shown:
            yield query.left
        case Windowed():
            if query.qualify:
                yield replace(query, qualify=None)
            yield from (replace(query, items=items) for items in _without_one(query.items))
        case Union():
            yield from (c for c in query.children if [x.name for x in c.cols] == [x.name for x in query.cols])
        case Aggregate():
            if query.having:
                yield replace(query, having=None)
            if query.sets:
                yield replace(query, sets="")
            yield from (replace(query, calls=calls) for calls in _without_one(query.calls))
        case Project():
            yield from (replace(query, items=items) for items in _without_one(query.items))


def _without_one(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    if len(items) > 1:
        yield from (items[:i] + items[i + 1 :] for i in range(len(items)))
