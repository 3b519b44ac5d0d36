"""Refresh programs on DuckDB: the rules alone, without Spark, storage or sources, thousands of cases a minute."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from freshlake.compiler import plan as p
from freshlake.compiler.compile import normal_form
from freshlake.compiler.current_time import NOW
from freshlake.compiler.derive import Changed, differential, full
from freshlake.compiler.passes.drop_empty import drop_empty
from freshlake.compiler.program import RefreshProgram, Step, StepKind
from freshlake.compiler.recursion import LEVEL
from freshlake.compiler.split import Node, split

Row = tuple[Any, ...]
Bag = Counter[Row]

_TYPES = {"long": "BIGINT", "": "BIGINT", "boolean": "BOOLEAN"}


def text(sql: str) -> str:
    """Engine formulas are Spark SQL; the little they use is translated word by word."""
    sql = re.sub(r"\b(\d+)L\b", r"\1", sql.replace("`", '"')).replace("<=>", "IS NOT DISTINCT FROM")
    sql = sql.replace("raise_error(", "error(")
    return f"coalesce({sql}, 0)" if sql.startswith("count_if(") else sql  # DuckDB counts nothing as NULL


@dataclass
class Duck:
    """One connection and the relations behind the leaves of plans."""

    leaf: Callable[[p.Plan], str]

    def sql(self, plan: p.Plan) -> str:
        match plan:
            case p.Project():
                return f"SELECT {self._items(plan.items)} FROM {self._of(plan.child)}"
            case p.Filter():
                return f"SELECT * FROM {self._of(plan.child)} WHERE {_all(plan.on)}"
            case p.Aggregate():
                keys = [f"{text(k.expr.text) if k.expr else _q(k.name)}" for k in plan.keys]
                shown = [f"{k} AS {_q(i.name)}" for k, i in zip(keys, plan.keys, strict=True)]
                shown += [f"{text(c.text)} AS {_q(c.name)}" for c in plan.calls]
                return self._grouped(shown, plan.child, keys)
            case p.Group():
                keys = [_q(k) for k in plan.keys]
                return self._grouped([*keys, *(self._item(i) for i in plan.items)], plan.child, keys)
            case p.InnerJoin():
                assert len(plan.inputs) > 1 or not plan.on, "Spark has no place for a condition without a join"
                return f"SELECT * FROM {', '.join(self._of(c) for c in plan.inputs)} WHERE {_all(plan.on)}"
            case p.SemiJoin():
                left, right = plan.inputs
                on = " AND ".join(f"l.{_q(a)} IS NOT DISTINCT FROM r.{_q(b)}" for a, b in plan.pairs)
                found = f"SELECT 1 FROM {self._of(right, 'r')} WHERE {on}"
                return f"SELECT l.* FROM {self._of(left, 'l')} WHERE EXISTS ({found})"
            case p.Join():
                return self._join(plan)
            case p.Union():
                return " UNION ALL ".join(self._renamed(c, plan.names) for c in plan.inputs)
        return self._other(plan)

    def _other(self, plan: p.Plan) -> str:
        match plan:
            case p.Loop() | p.LoopRef():
                return self._loop(plan)
            case p.Generate():
                made = ", ".join(f"unnest({text(plan.generator.text)}) AS {_q(n)}" for n in plan.new)
                return f"SELECT *, {made} FROM {self._of(plan.child)}"
            case p.Expand():
                branches = []
                for row in plan.rows:
                    shown = ", ".join(f"{text(e.text)} AS {_q(n)}" for e, n in zip(row, plan.names, strict=True))
                    branches.append(f"SELECT {shown} FROM {self._of(plan.child)}")
                return " UNION ALL ".join(branches)
            case p.Window():
                by = ", ".join(_q(n) for n in plan.partition)
                every = f"({f'PARTITION BY {by} ' if by else ''}{_order(plan.order, plan.ties)})"
                shown = ", ".join(f"{text(i.expr.text)} AS {_q(i.name)}" for i in plan.items if i.expr)
                return f"SELECT *, {shown} FROM {self._of(plan.child)} WINDOW every AS {every}"
            case p.TopK():
                size = "" if plan.end is None else f" LIMIT {plan.end - plan.start}"
                start = f" OFFSET {plan.start}" if plan.start else ""
                return f"SELECT * FROM {self._of(plan.child)} {_order(plan.order, plan.ties)}{size}{start}"
            case p.Sort():
                return f"SELECT * FROM {self._of(plan.child)} {_order(plan.order)}"
            case p.Limit():
                return f"SELECT * FROM {self._of(plan.child)} {'OFFSET' if plan.offset else 'LIMIT'} {plan.count}"
            case p.SetOp():
                word = f" {plan.kind.upper()}{' ALL' if plan.all else ''} "
                return word.join(self._renamed(c, plan.names) for c in plan.inputs)
        return f"SELECT * FROM {self.leaf(plan)}"

    def _join(self, join: p.Join) -> str:
        left, right = (self._of(c, a) for c, a in zip(join.inputs, "lr", strict=True))
        found = f"EXISTS (SELECT 1 FROM {right} WHERE {_all(join.on)})"
        match join.kind:
            case "LeftSemi" | "LeftAnti":
                return f"SELECT * FROM {left} WHERE {'NOT ' if join.kind == 'LeftAnti' else ''}{found}"
            case "Existence":
                return f"SELECT *, {found} AS {_q(join.exists or '')} FROM {left}"
            case "LeftSingle":
                count = f"(SELECT count(*) FROM {right} WHERE {_all(join.on)})"
                checked = f"SELECT *, if({count} > 1, error('more than one row'), 0) AS __checked FROM {left}"
                shown = ", ".join(_q(n) for i in join.inputs for n in i.names)
                return f"SELECT {shown} FROM ({checked}) AS l LEFT JOIN {right} ON {_all(join.on)} AND __checked = 0"
        word = {"LeftOuter": "LEFT", "RightOuter": "RIGHT", "FullOuter": "FULL"}[join.kind]
        return f"SELECT * FROM {left} {word} JOIN {right} ON {_all(join.on)}"

    def _loop(self, plan: p.Loop | p.LoopRef) -> str:
        names = [f"c{i}" for i in range(len(plan.columns))]
        columns = ", ".join(f"{n} AS {_q(c)}" for n, c in zip(names, plan.names, strict=True))
        shown = f"SELECT {columns} FROM loop{plan.id}"
        if isinstance(plan, p.LoopRef):
            return shown
        parts = " UNION ALL ".join(self._renamed(c, names) for c in plan.inputs)
        return f"WITH RECURSIVE loop{plan.id}({', '.join(names)}) AS ({parts}) {shown}"

    def _grouped(self, shown: list[str], child: p.Plan, keys: list[str]) -> str:
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(shown) or '1 AS one'} FROM {self._of(child)}{group}"

    def _of(self, plan: p.Plan, alias: str | None = None) -> str:
        return f"({self.sql(plan)}){f' AS {alias}' if alias else ''}"

    def _renamed(self, plan: p.Plan, names: Sequence[str]) -> str:
        pairs = zip(plan.names, names, strict=True)
        shown = ", ".join(f"{_q(a)} AS {_q(b)}" for a, b in pairs)
        return f"SELECT {shown or '1 AS one'} FROM {self._of(plan)}"

    def _items(self, items: Iterable[p.Item]) -> str:
        return ", ".join(self._item(i) for i in items) or "1 AS one"

    def _item(self, item: p.Item) -> str:
        return _q(item.name) if item.expr is None else f"{text(item.expr.text)} AS {_q(item.name)}"


def _all(conjuncts: Sequence[p.Expr]) -> str:
    return " AND ".join(f"({text(e.text)})" for e in conjuncts) or "true"


def _order(*orders: Sequence[p.Order]) -> str:
    parts = [text(o.sql) for order in orders for o in order]
    return f"ORDER BY {', '.join(parts)}" if parts else ""


def _q(name: str) -> str:
    return f'"{name}"'


@dataclass
class Maintained:
    """A query kept up to date by its programs; sources and stored nodes are bags on the Python side."""

    query: p.Plan
    sources: dict[str, tuple[tuple[str, ...], Bag]]
    """Name → (fields, rows)."""
    hints: bool = True
    """Whether leaves use their pruning hints; the result must not depend on it."""
    lookups: bool = False
    """Whether stored rows are looked up by their hints alone, which may find more rows than the keys ask for."""
    stored: dict[str, Bag] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    read: set[str] = field(default_factory=set)
    """Sources whose state the last refresh read."""

    def __post_init__(self) -> None:
        output = tuple(replace(c, label=c.name) for c in self.query.columns)
        self.nodes = split(normal_form(self.query, output), output, differential=True)
        self.stored = _Run(self, {}, self.sources).run(full(self.nodes, replaced=False))

    def refresh(self, changes: Mapping[str, Sequence[tuple[Row, int]]]) -> dict[str, Bag]:
        """Apply weighted changes, which need not be minimal; returns the change of every stored node."""
        self.read.clear()
        after = {n: (fields, _applied(rows, changes.get(n, ()))) for n, (fields, rows) in self.sources.items()}
        inserts = frozenset(n for n, rows in changes.items() if all(w > 0 for _, w in rows))
        program = differential(self.nodes, Changed(frozenset(changes), inserts))
        deltas = _Run(self, changes, after).run(program)
        self.sources = after
        for name, delta in deltas.items():
            self.stored[name] = _applied(self.stored[name], delta.items())
        return deltas

    def rows(self) -> Bag:
        """The visible rows of the root as stored."""
        shown = len(self.nodes[-1].visible)
        bag: Bag = Counter()
        for row, count in self.stored[""].items():
            bag[row[:shown]] += count
        return bag

    def expected(self) -> Bag:
        """The query as it was written, over the sources as they are."""
        with _connect() as connection:
            for name, (fields, rows) in self.sources.items():
                _load(connection, name, fields, ["BIGINT"] * len(fields), rows.elements())

            def leaf(plan: p.Plan) -> str:
                assert isinstance(plan, p.Scan)
                return _aliased(plan.source, plan.fields, plan.names)

            names = ", ".join(_q(c.name) for c in self.query.columns)
            query = f"SELECT {names} FROM ({Duck(leaf).sql(self.query)})"
            return Counter(connection.execute(query).fetchall())


def _connect() -> Any:
    return duckdb.connect(config={"threads": "1"})


def _applied(rows: Bag, change: Iterable[tuple[Row, int]]) -> Bag:
    total = Counter(rows)
    for row, weight in change:
        total[row] += weight
    negative = {row: count for row, count in total.items() if count < 0}
    assert not negative, f"rows removed that are not there: {negative}"
    return Counter({row: count for row, count in total.items() if count})


def _load(connection: Any, name: str, fields: Sequence[str], types: Sequence[str], rows: Iterable[Row]) -> None:
    columns = ", ".join(f"{_q(f)} {t}" for f, t in zip(fields, types, strict=True))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_q(name)} ({columns})")
    values = [f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in rows]
    if values:
        connection.execute(f"INSERT INTO {_q(name)} VALUES {', '.join(values)}")


def _aliased(name: str, fields: Sequence[str], names: Sequence[str]) -> str:
    columns = ", ".join(f"{_q(f)} AS {_q(n)}" for f, n in zip(fields, names, strict=True))
    return f"(SELECT {columns} FROM {_q(name)})"


def _looked_up(plan: p.Plan) -> p.Plan:
    """A semi join over stored rows is replaced by a look-up on the driver, as `refresh.run` does."""
    leaf = plan.inputs[0] if isinstance(plan, p.SemiJoin) else plan
    looked = isinstance(leaf, p.State) and leaf.stored and leaf.when is p.When.BEFORE
    return leaf if looked else plan


@dataclass
class _Run:
    """One program, once."""

    kept: Maintained
    changes: Mapping[str, Sequence[tuple[Row, int]]]
    after: Mapping[str, tuple[tuple[str, ...], Bag]]
    results: dict[str, Bag] = field(default_factory=dict)
    connection: Any = None

    def run(self, program: RefreshProgram) -> dict[str, Bag]:
        with _connect() as self.connection:
            for name, (fields, rows) in self.after.items():
                _load(self.connection, name, fields, ["BIGINT"] * len(fields), rows.elements())
            for name, change in self.changes.items():
                fields = (*self.after[name][0], p.WEIGHT)
                rows = [(*row, weight) for row, weight in change]
                _load(self.connection, f"delta {name}", fields, ["BIGINT"] * len(fields), rows)
            if NOW in self.kept.sources:
                fields, rows = self.kept.sources[NOW]
                _load(self.connection, f"{p.When.BEFORE} {NOW}", fields, ["BIGINT"] * len(fields), rows.elements())
            for name, bag in self.kept.stored.items():
                self._load_node(f"before {name}", name, bag)
            for step in program.steps:
                self._step(step)
        return self.results

    def _node(self, name: str) -> Node:
        return next(n for n in self.kept.nodes if n.id == name)

    def _load_node(self, table: str, name: str, bag: Bag) -> None:
        columns = self._node(name).columns
        types = [_TYPES.get(c.type, c.type.upper()) for c in columns]
        _load(self.connection, table, [c.field for c in columns], types, bag.elements())

    def _loop(self, step: Step) -> None:
        """Round by round in a table of the step's name, which holds all rounds in the end."""
        assert step.body is not None
        level, rounds = step.plan.names.index(LEVEL), []
        self._step(replace(step, kind=StepKind.MATERIALIZE))
        while found := self._summed(step.name):
            assert all(row[level] <= step.limit for row in found), "no end within the limit"
            rounds.append(found)
            self._put(step, [found])
            self._step(replace(step, kind=StepKind.MATERIALIZE, plan=step.body, name=f"{step.name}_next"))
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {step.name} AS FROM {step.name}_next")
        self._put(step, rounds)

    def _summed(self, table: str) -> Bag:
        found: Bag = Counter()
        for *row, weight in self.connection.execute(f"SELECT * FROM {table}").fetchall():
            found[tuple(row)] += weight
        return Counter({row: weight for row, weight in found.items() if weight})

    def _put(self, step: Step, rounds: Sequence[Bag]) -> None:
        kinds = [_TYPES.get(c.type, c.type.upper()) for c in step.plan.columns]
        rows = [(*row, weight) for found in rounds for row, weight in found.items()]
        _load(self.connection, step.name, step.plan.names, kinds, rows)

    def _step(self, step: Step) -> None:
        if step.kind is StepKind.LOOP:
            self._loop(step)
            return
        plan = drop_empty(step.plan, self._is_empty)
        if plan is not None and self.kept.lookups:
            plan = _looked_up(plan)
        if plan is None:
            kinds = [_TYPES.get(c.type, c.type.upper()) for c in step.plan.columns]
            _load(self.connection, step.name, step.plan.names, kinds, ())
        else:
            names = ", ".join(_q(n) for n in step.plan.names)
            query = f"SELECT {names} FROM ({Duck(self._leaf).sql(plan)})"
            if step.kind is StepKind.SELECT:
                assert step.flag is not None
                query = f"SELECT * FROM ({query}) WHERE {_q(step.flag)}"
            if step.kind is StepKind.NET:
                rest = ", ".join(_q(n) for n in step.plan.names[:-1])
                query = f"SELECT {rest}, sum({p.WEIGHT}) AS {p.WEIGHT} FROM ({query}) GROUP BY ALL"
                query = f"SELECT * FROM ({query}) WHERE {p.WEIGHT} <> 0"
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {step.name} AS {query}")
        if step.node is not None:
            self._finish(step, step.node)

    def _finish(self, step: Step, node: str) -> None:
        """Consolidate; what claims to be consolidated and positive must be so."""
        rows = self.connection.execute(f"SELECT * FROM {step.name}").fetchall()
        delta: Bag = Counter()
        weighted = p.WEIGHT in step.plan.names
        for row in rows:
            delta[row[:-1] if weighted else row] += row[-1] if weighted else 1
        if step.consolidated and weighted:
            assert all(row[-1] > 0 for row in rows), f"called insert-only, but removes rows: {rows}"
        self.results[node] = Counter({row: weight for row, weight in delta.items() if weight})
        self._load_node(f"after {node}", node, _applied(self.kept.stored.get(node, Counter()), delta.items()))
        fields = (*(c.field for c in self._node(node).columns), p.WEIGHT)
        types = [*(_TYPES.get(c.type, c.type.upper()) for c in self._node(node).columns), "BIGINT"]
        entries = [(*row, weight) for row, weight in self.results[node].items()]
        _load(self.connection, f"delta {node}", fields, types, entries)

    def _is_empty(self, leaf: p.Plan) -> bool:
        return self.connection.execute(f"SELECT count(*) FROM {self._leaf(leaf)}").fetchone()[0] == 0

    def _leaf(self, leaf: p.Plan) -> str:
        match leaf:
            case p.Ref():
                return f"(SELECT * FROM {leaf.step})"
            case p.Delta():
                return _aliased(f"delta {leaf.source}", (*self._fields(leaf), p.WEIGHT), leaf.names)
            case p.State():
                # of a source only the time is known as it was, the rest is what it is now without its change
                assert leaf.stored or leaf.when is p.When.AFTER or leaf.of == NOW
                table = f"{leaf.when} {leaf.of}" if leaf.stored or leaf.when is p.When.BEFORE else leaf.of
                assert leaf.fields, "rows without columns are not counted when they are read"
                self.kept.read |= set() if leaf.stored else {leaf.of}
                return self._hinted(leaf, _q(table))
        raise TypeError(type(leaf).__name__)

    def _fields(self, leaf: p.Delta) -> Sequence[str]:
        if leaf.source in self.after:
            return leaf.fields
        stored = {c.name: c.field for c in self._node(leaf.source).columns}
        return [stored[n] for n in leaf.fields]

    def _hinted(self, leaf: p.State, table: str) -> str:
        """Keys only prune: rows outside the hints may be left out or not."""
        tests = []
        for hint in leaf.prune if self.kept.hints else ():
            keys = f"(SELECT {_q(hint.key)} AS k FROM {self._hint_table(hint.ref)})"
            tests.append(f"EXISTS (SELECT 1 FROM {keys} WHERE k IS NOT DISTINCT FROM t.{_q(hint.field)})")
        columns = ", ".join(f"t.{_q(f)} AS {_q(n)}" for f, n in zip(leaf.fields, leaf.names, strict=True))
        return f"(SELECT {columns} FROM {table} AS t WHERE {' AND '.join(tests) or 'true'})"

    def _hint_table(self, ref: str) -> str:
        if not ref.startswith("delta:"):
            return ref
        _, source, names = ref.split(":")
        delta = p.Delta((), source, tuple(names.split(",")))
        return _aliased(f"delta {source}", self._fields(delta), delta.fields)
