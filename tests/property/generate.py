"""One seed, one history: random tables, queries up to depth 5 and rounds of mixed changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.property.case import DIFFERENTIAL, Act, Case, Change, SourceTable, Turn
from tests.property.query import (
    Aggregate,
    Col,
    Distinct,
    Filter,
    Item,
    Join,
    Match,
    Project,
    Query,
    Scalar,
    Shared,
    Table,
    Union,
    depth,
)
from tests.property.stored_queries import STORED_OPERATORS, StoredQueries
from tests.property.values import BASE, KINDS, TYPES, computed, literal, predicate, scalar
from tests.property.wider_queries import WIDER_OPERATORS, WiderQueries

MAX_DEPTH = 5
MAX_ROWS = 1500.0

OPERATORS = (
    "filter",
    "project",
    "union_all",
    "join",
    "aggregate",
    "global_aggregate",
    "recompute",
    "distinct",
    "union",
    "shared",
    "extremum",
    "nested",
    "self_join",
    "cross",
    "outer_join",
    "outer_chain",
    "match",
    "no_match",
    "match_value",
    "scalar",
    *STORED_OPERATORS,
)
"""What stands at or near the root of a query, taken in turn, so that consecutive seeds cover all of them."""

JOINS = ("join", "self_join", "cross", "outer_join", "outer_chain", "match", "no_match", "match_value", "scalar")

_FLAVOURS = (
    "",
    "",
    "",
    " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    " PARTITIONED BY ({part})",
)


def generate(seed: int, queries: int = 18, turns: int = 4, operators: Sequence[str] = OPERATORS) -> Case:
    """The same history for the same arguments, in every process."""
    rng = Random(f"freshlake {seed}")
    types = BASE if operators is OPERATORS else tuple(sorted(TYPES))
    tables = tuple(_table(rng, i, types) for i in range(rng.choice((2, 2, 3))))
    made = _Queries(rng, [Table(t.name, _cols(t), max(4.0, float(len(t.rows)))) for t in tables])
    for i in range(queries):
        made.add(f"q{i}", operators[(seed * queries + i) % len(operators)])
    changes = _Changes(rng, {t.name: t for t in tables})
    rounds = tuple(_turn(rng, changes, tuple(made.queries), last=i == turns - 1) for i in range(turns))
    return Case(tables, made.queries, rounds)


# Tables and changes --------------------------------------------------------------------------------------------------


def _table(rng: Random, number: int, types: Sequence[str]) -> SourceTable:
    kinds = [rng.choice(("int", "big")), "str", *rng.sample(types, rng.randint(1, 4))]
    columns = [(f"{'abcdefgh'[i]}{number}", TYPES[kind]) for i, kind in enumerate(kinds)]
    if rng.random() < 0.4:
        columns.insert(0, (f"id{number}", "INT"))
    flavour = rng.choice(_FLAVOURS).format(part=f"b{number}")
    width = rng.choice((0, 4, 6, 8, 10, 14, 30 if number == 0 else 8))
    empty = SourceTable(f"t{number}", tuple(columns), flavour, ())
    return SourceTable(empty.name, empty.columns, flavour, _rows(rng, empty, width, start=0))


def _rows(rng: Random, table: SourceTable, count: int, start: int) -> tuple[str, ...]:
    rows: list[str] = []
    for i in range(count):
        if rows and rng.random() < 0.2 and not _is_keyed(table):
            rows.append(rng.choice(rows))
            continue
        values = [str(start + i) if _is_key(name) else _cast(rng, kind) for name, kind in table.columns]
        rows.append(f"({', '.join(values)})")
    return tuple(rows)


def _cast(rng: Random, sql_type: str) -> str:
    value = literal(rng, _type_name(sql_type))
    return f"CAST({value} AS {sql_type})" if value == "NULL" else value


def _is_key(name: str) -> bool:
    return name.startswith("id")


def _is_keyed(table: SourceTable) -> bool:
    return _is_key(table.columns[0][0])


def _type_name(sql_type: str) -> str:
    return next(n for n, s in TYPES.items() if s == sql_type)


def _cols(table: SourceTable) -> tuple[Col, ...]:
    return tuple(Col(n, KINDS.get(_type_name(s), _type_name(s))) for n, s in table.columns)


@dataclass
class _Changes:
    rng: Random
    tables: dict[str, SourceTable]
    next_key: int = 100

    def change(self) -> Change:
        rng = self.rng
        table = self.tables[rng.choice(sorted(self.tables))]
        kinds = {
            self.insert: 6,
            self.update: 6,
            self.delete: 4,
            self.merge: 3,
            self.copy: 1,
            self.delete_all: 1,
            self.touch: 1,
            self.overwrite: 1,
            self.optimize: 0.5,
        }
        make = rng.choices(list(kinds), weights=list(kinds.values()))[0]
        return Change(table.name, make(table))

    def insert(self, table: SourceTable) -> str:
        self.next_key += 20
        rows = _rows(self.rng, table, self.rng.randint(1, 4), self.next_key)
        return f"INSERT INTO {table.name} VALUES {', '.join(rows)}"

    def update(self, table: SourceTable) -> str:
        """Moves rows to other groups and join partners."""
        rng = self.rng
        free = [(n, s) for n, s in table.columns if not _is_key(n)]
        chosen = rng.sample(free, rng.randint(1, min(2, len(free))))
        sets = ", ".join(f"{n} = {self._value(n, s)}" for n, s in chosen)
        return f"UPDATE {table.name} SET {sets} WHERE {predicate(rng, list(_cols(table)))}"

    def _value(self, name: str, sql_type: str) -> str:
        kind = _type_name(sql_type)
        if self.rng.random() < 0.3 and sql_type not in ("INT", "BIGINT", TYPES["dec"]):
            return scalar(self.rng, Col(name, KINDS.get(kind, kind)))
        return _cast(self.rng, sql_type)

    def touch(self, table: SourceTable) -> str:
        """Rewrites rows without changing them."""
        name = table.columns[-1][0]
        return f"UPDATE {table.name} SET {name} = {name} WHERE {predicate(self.rng, list(_cols(table)))}"

    def delete(self, table: SourceTable) -> str:
        return f"DELETE FROM {table.name} WHERE {predicate(self.rng, list(_cols(table)))}"

    def delete_all(self, table: SourceTable) -> str:
        return f"DELETE FROM {table.name}"

    def copy(self, table: SourceTable) -> str:
        """Duplicates of rows that are there."""
        return f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE {predicate(self.rng, list(_cols(table)))}"

    def overwrite(self, table: SourceTable) -> str:
        where = predicate(self.rng, list(_cols(table)))
        return f"INSERT OVERWRITE {table.name} SELECT * FROM {table.name} WHERE {where}"

    def optimize(self, table: SourceTable) -> str:
        return f"OPTIMIZE {table.name}"

    def merge(self, table: SourceTable) -> str:
        rng = self.rng
        on, kind = rng.choice([(n, s) for n, s in table.columns if s in ("INT", "BIGINT", "STRING")])
        keys = rng.sample(["0", "1", "2", "3", "NULL"], rng.randint(1, 3))
        if kind == "STRING":
            keys = rng.sample(["'a'", "'b'", "'B'", "'new'", "NULL"], rng.randint(1, 3))
        source = f"SELECT CAST(k AS {kind}) AS k FROM VALUES {', '.join(f'({k})' for k in keys)} AS v(k)"
        others = [(n, s) for n, s in table.columns if n != on]
        target, t_kind = rng.choice(others)
        matched = rng.choice(("DELETE", f"UPDATE SET {target} = {_cast(rng, t_kind)}"))
        values = ", ".join("s.k" if n == on else _cast(rng, s) for n, s in table.columns)
        return (
            f"MERGE INTO {table.name} AS t USING ({source}) AS s ON t.{on} <=> s.k WHEN MATCHED THEN {matched} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(n for n, _ in table.columns)}) VALUES ({values})"
        )


def _turn(rng: Random, changes: _Changes, queries: tuple[str, ...], last: bool) -> Turn:
    count = rng.choice((0, 1, 2, 2, 3)) if not last else rng.choice((2, 3))
    acts = []
    for query in queries:
        mode = DIFFERENTIAL if last else rng.choices((DIFFERENTIAL, "AUTO", "FULL", None), (80, 7, 5, 8))[0]
        acts.append(Act(query, mode, fold=rng.random() < 0.08))
    made = tuple(changes.change() for _ in range(count))
    return Turn(made, tuple(acts), reconnect=not last and rng.random() < 0.15)


# Queries -------------------------------------------------------------------------------------------------------------


@dataclass
class _Queries(StoredQueries, WiderQueries):
    queries: dict[str, Query] = field(default_factory=dict)
    number: int = 0

    def add(self, name: str, operator: str) -> None:
        for _ in range(20):
            query = self.topped(self.make(operator, self.rng.randint(1, MAX_DEPTH - 1)))
            if query.size <= MAX_ROWS and 1 <= depth(query) <= MAX_DEPTH:
                break
        else:
            query = Filter(self.rng.choice(self.tables), "true")
        self.queries[name] = query
        self.tables.append(Table(name, query.cols, query.size))

    def topped(self, query: Query) -> Query:
        """Sometimes a filter or a projection above the operator itself."""
        if depth(query) < MAX_DEPTH and self.rng.random() < 0.25:
            return self.make_filter(query) if self.rng.random() < 0.5 else self.make_project(query)
        return query

    def name(self) -> str:
        self.number += 1
        return f"x{self.number}"

    def source(self, deep: int) -> Query:
        """A table, or anything of at most this depth."""
        if deep <= 0 or self.rng.random() < 0.25:
            return self.rng.choice(self.tables)
        common = ("filter", "project", "join", "join", "aggregate", "extremum", "union_all", "distinct", "shared")
        common += ("outer_join", "match")
        common += STORED_OPERATORS
        made = self.make(self.rng.choice(common), deep)
        return made if made.size <= MAX_ROWS / 10 else self.rng.choice(self.tables)

    def make(self, operator: str, deep: int) -> Query:
        below = deep - 1
        if operator in JOINS:
            return self.make_joined(operator, below)
        if operator in WIDER_OPERATORS:
            return self.make_wider(operator, below)
        match operator:
            case "filter":
                return self.make_filter(self.source(below))
            case "project":
                return self.make_project(self.source(below))
            case "union_all" | "union":
                return self.make_union(self.source(below), self.source(below), all_rows=operator == "union_all")
            case "distinct":
                return self.make_distinct(self.source(below))
            case "shared":
                return self.make_shared(self.source(below))
            case "nested":
                inner = self.make_aggregate(self.source(below - 1), "aggregate")
                return self.make_aggregate(inner, self.rng.choice(("aggregate", "extremum", "recompute")))
        return self.make_other(operator, below)

    def make_joined(self, operator: str, below: int) -> Query:
        match operator:
            case "join":
                return self.make_join(self.source(below), self.source(below))
            case "self_join":
                child = self.source(0)
                return self.make_join(child, child)
            case "cross":
                return self.make_join(self.source(below), self.source(0), cross=True)
            case "outer_join":
                return self.make_outer(self.source(below), self.source(below))
            case "outer_chain":
                return self.make_outer(self.make_outer(self.source(0), self.source(below - 1)), self.source(0))
            case "match" | "no_match" | "match_value":
                return self.make_match(self.source(below), self.source(below), operator)
        return self.make_scalar(self.source(below), self.source(below))

    def exact(self, query: Query) -> list[Col]:
        return [c for c in query.cols if c.exact and c.kind != "list"]

    def make_filter(self, child: Query) -> Query:
        cols = self.exact(child)
        return Filter(child, predicate(self.rng, cols)) if cols else child

    def make_project(self, child: Query) -> Query:
        rng, cols = self.rng, self.exact(child)
        kept = rng.sample(child.cols, rng.randint(1, len(child.cols)))
        items = [Item(c.name, c) for c in kept]
        for _ in range(rng.randint(0, 2) if cols else 0):
            text, kind = computed(rng, cols)
            items.append(Item(text, Col(self.name(), kind)))
        return Project(child, tuple(items))

    def make_distinct(self, child: Query) -> Query:
        cols = self.exact(child)
        if not cols:
            return child
        kept = self.rng.sample(cols, self.rng.randint(1, min(3, len(cols))))
        narrow = len(kept) == len(child.cols) and tuple(kept) == child.cols
        return Distinct(child if narrow else Project(child, tuple(Item(c.name, c) for c in kept)))

    def make_union(self, left: Query, right: Query, all_rows: bool) -> Query:
        rng = self.rng
        usable = [c for c in left.cols if all_rows or (c.exact and c.kind != "list")]
        usable = [c for c in usable if c.kind != "list"]
        if not usable:
            return left
        kept = rng.sample(usable, rng.randint(1, min(3, len(usable))))
        places = [self._matching(right, c, all_rows) for c in kept]
        return Union(Project(left, tuple(Item(c.name, c) for c in kept)), Project(right, tuple(places)), all_rows)

    def _matching(self, query: Query, wanted: Col, inexact: bool) -> Item:
        found = [c for c in query.cols if c.kind == wanted.kind and (c.exact or inexact)]
        if found:
            col = self.rng.choice(found)
            return Item(col.name, Col(self.name(), col.kind, col.exact))
        sql_type = {"int": "BIGINT"}.get(wanted.kind) or TYPES[wanted.kind]
        return Item(f"CAST(NULL AS {sql_type})", Col(self.name(), wanted.kind))

    def make_join(self, left: Query, right: Query, cross: bool = False) -> Query:
        on = None if cross else self._condition(left, right)
        return Join(left, right, self._joined(left, right), on)

    def make_outer(self, left: Query, right: Query) -> Query:
        kind = self.rng.choice(("LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        on = self._condition(left, right) if self.rng.random() < 0.9 else "true"
        if self.rng.random() < 0.2 and self.exact(left):
            on += f" AND l.{self.rng.choice(self.exact(left)).name} IS NOT NULL"
        return Join(left, right, self._joined(left, right), on, kind)

    def make_match(self, left: Query, right: Query, operator: str) -> Query:
        """EXISTS or IN, their negations, and both as values."""
        rng = self.rng
        pairs = [(a, b) for a in self.exact(left) for b in self.exact(right) if a.kind == b.kind]
        test = f"EXISTS (SELECT 1 FROM {{}} WHERE {self._condition(left, right)})"
        if pairs and rng.random() < 0.5:
            a, b = rng.choice(pairs)
            test = f"l.{a.name} IN (SELECT r.{b.name} FROM {{}})"
        if operator == "no_match":
            test = test.replace(" IN ", " NOT IN ", 1) if test.startswith("l.") else f"NOT {test}"
        if operator != "match_value":
            return Match(left, right, test)
        if rng.random() < 0.5 and self.exact(left):
            return Match(left, right, f"({test} OR l.{rng.choice(self.exact(left)).name} IS NULL)")
        shown = rng.choice((test, f"CASE WHEN {test} THEN 1 ELSE 0 END"))
        return Match(left, right, shown, Col(self.name(), "int" if shown.startswith("CASE") else "bool"))

    def make_scalar(self, left: Query, right: Query) -> Query:
        rng = self.rng
        text, kind, exact = "count(*)", "int", True
        if self.exact(right):
            c = rng.choice(self.exact(right))
            text, kind, exact = rng.choice([*self._extrema(c), (f"count({c.name})", "int", True)])
        pairs = [(a, b) for a in self.exact(left) for b in self.exact(right) if a.kind == b.kind]
        where = None
        if pairs and rng.random() < 0.7:
            a, b = rng.choice(pairs)
            where = f"l.{a.name} = r.{b.name}"
        return Scalar(left, right, Item(text, Col(self.name(), kind, exact)), where)

    def _joined(self, left: Query, right: Query) -> tuple[Item, ...]:
        """Columns of both sides; one whose name is free keeps it."""
        rng = self.rng
        items: list[Item] = []
        for side, query in (("l", left), ("r", right)):
            for c in rng.sample(query.cols, rng.randint(1, min(4, len(query.cols)))):
                taken = {i.col.name for i in items} | {x.name for x in (left if side == "r" else right).cols}
                name = c.name if c.name not in taken else self.name()
                items.append(Item(f"{side}.{c.name}", Col(name, c.kind, c.exact)))
        return tuple(items)

    def _condition(self, left: Query, right: Query) -> str:
        rng = self.rng
        pairs = [(a, b) for a in self.exact(left) for b in self.exact(right) if a.kind == b.kind]
        if not pairs:
            return "true"
        equal = rng.choices(("=", "<=>", "<"), (7, 2, 2))[0]
        a, b = rng.choice(pairs)
        terms = [f"l.{a.name} {equal} r.{b.name}"]
        if rng.random() < 0.3:
            a, b = rng.choice(pairs)
            terms.append(f"l.{a.name} {rng.choice(('=', '<=>', '<', '<>'))} r.{b.name}")
        if rng.random() < 0.2:
            c = rng.choice(self.exact(right))
            terms.append(f"r.{c.name} IS NOT NULL")
        return " AND ".join(terms)

    def make_shared(self, child: Query) -> Query:
        cols = self.exact(child)
        if not cols or self.rng.random() < 0.3 or child.size > 40:
            return Shared(child, (), predicate(self.rng, cols) if cols else None, union=True)
        return Shared(child, self._joined(child, child), self._condition(child, child), union=False)

    # Aggregates ------------------------------------------------------------------------------------------------------

    def make_aggregate(self, child: Query, operator: str, sets: bool = False) -> Query:
        rng, cols = self.rng, self.exact(child)
        keys: list[Item] = []
        if operator != "global_aggregate" and cols:
            for c in rng.sample(cols, rng.randint(1, min(2, len(cols)))):
                if rng.random() < 0.3:
                    keys.append(Item(scalar(rng, c), Col(self.name(), c.kind)))
                else:
                    keys.append(Item(c.name, c))
        calls = tuple(self.call(child, operator, first=i == 0) for i in range(rng.randint(1, 3)))
        having = None
        if rng.random() < 0.25:
            having = rng.choice(("count(*) > 1", "count(*) = 1", "NOT (count(*) > 2)"))
            counts = [c for c in calls if c.col.kind == "int" and c.col.exact]
            if sets:  # Spark's analyser loses the column of a FILTER that HAVING repeats over grouping sets
                counts = [c for c in counts if "FILTER" not in c.text]
            if counts and rng.random() < 0.5:
                having = f"{rng.choice(counts).text} > 1"
        return Aggregate(child, tuple(keys), calls, having, rng.choice(("ROLLUP", "CUBE")) if sets and keys else "")

    def call(self, child: Query, operator: str, first: bool) -> Item:
        rng, cols = self.rng, self.exact(child)
        if not cols:
            return Item("count(*)", Col(self.name(), "int"))
        c = rng.choice(cols)
        groups = {
            "aggregate": self._algebraic(c),
            "extremum": self._extrema(c),
            "recompute": self._recomputed(c),
        }
        options = groups.get(operator) if first else None
        # One call of the recomputing kind decides for all, so the other kinds mostly stay among themselves.
        if options is None:
            kinds = ["aggregate", "aggregate", "extremum"] + (["recompute"] if operator == "recompute" else [])
            options = groups[rng.choice(kinds if rng.random() < 0.9 else ["recompute"])]
        text, kind, exact = rng.choice(options)
        if rng.random() < 0.2 and text.endswith(")") and text.count("(") == 1:
            text = f"{text} FILTER (WHERE {predicate(rng, cols)})"
        return Item(text, Col(self.name(), kind, exact))

    def _algebraic(self, c: Col) -> list[tuple[str, str, bool]]:
        n = c.name
        options = [("count(*)", "int", True), (f"count({n})", "int", True), (f"count_if({n} IS NULL)", "int", True)]
        if c.kind in ("int", "dec"):
            options += [(f"sum({n})", c.kind, True)] * 3
            options += [(f"avg({n})", "double" if c.kind == "int" else "dec", True)]
            options += [(f"sum({n}) + count(*)", c.kind, True), (f"sum({n} + 1)", c.kind, True)]
        return options

    def _extrema(self, c: Col) -> list[tuple[str, str, bool]]:
        # 0.0 and -0.0 are one extremum, so which of them is shown is open
        exact = c.kind != "double"
        options = [(f"max({c.name})", c.kind, exact), (f"min({c.name})", c.kind, exact)]
        return options + ([(f"bool_or({c.name})", "bool", True)] if c.kind == "bool" else [])

    def _recomputed(self, c: Col) -> list[tuple[str, str, bool]]:
        n = c.name
        options = [(f"count(DISTINCT {n})", "int", True)] * 2
        if c.kind != "double":
            options += [
                (f"collect_set({n})", "list", False),
                (f"collect_list({n})", "list", False),
                (f"size(collect_set({n}))", "int", True),
            ]
        if c.kind in ("int", "dec", "double"):
            options += [(f"stddev({n})", "double", False), (f"sum(DISTINCT {n})", c.kind, c.kind != "double")]
        if c.kind == "double":
            options += [(f"sum({n})", "double", False), (f"avg({n})", "double", False)]
        return options
