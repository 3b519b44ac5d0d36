"""Random plans over integer tables, with text-only expressions, for the rules alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from freshlake.compiler import plan as p
from tests.property.duck import Bag, Maintained, Row

SOURCES = {"a": ("g", "x"), "b": ("g", "y", "z"), "c": ("x",)}
_DOMAIN = (0, 1, 2, 3, None)
_MAX_JOINED = 2
KINDS = ("LeftOuter", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "Existence", "LeftSingle")


@dataclass
class Plans:
    rng: Random
    number: int = 0

    def name(self, stem: str) -> str:
        self.number += 1
        return f"{stem}_{self.number}"

    def plan(self, depth: int, joins: int = _MAX_JOINED) -> p.Plan:
        if depth <= 0:
            return self.scan()
        make = self.rng.choice(
            [self.filter, self.project, self.union, self.aggregate, self.aggregate, self.having]
            + [
                self.window,
                self.window,
                self.qualify,
                self.top,
                self.top,
                self.expand,
                self.generate,
                self.set_operation,
            ]
            + ([self.join, self.join, self.shared, self.other_join, self.other_join, self.other_join] if joins else [])
        )
        return make(depth - 1, joins)

    def scan(self) -> p.Plan:
        source = self.rng.choice(sorted(SOURCES))
        fields = SOURCES[source]
        return p.Scan(tuple(p.Column(self.name(f), "long") for f in fields), source, fields)

    def predicate(self, names: tuple[str, ...]) -> p.Expr:
        rng = self.rng
        a, b = rng.choice(names), rng.choice(names)
        options = [
            f"{a} > {rng.randint(0, 2)}",
            f"{a} is null",
            f"not ({a} = 1)",
            f"{a} in (1, null)",
            f"{a} <> 2 or {b} = 0",
        ]
        chosen = rng.choice(options)
        return p.text(chosen, *dict.fromkeys((a, b) if " or " in chosen else (a,)))

    def filter(self, depth: int, joins: int) -> p.Plan:
        child = self.plan(depth, joins)
        return p.Filter(child.columns, child, (self.predicate(child.names),))

    def project(self, depth: int, joins: int) -> p.Plan:
        child = self.plan(depth, joins)
        kept = self.rng.sample(child.names, self.rng.randint(1, len(child.names)))
        items = [p.Item(n) if self.rng.random() < 0.6 else p.Item(self.name("r"), p.column_expr(n)) for n in kept]
        if self.rng.random() < 0.5:
            a = self.rng.choice(child.names)
            items.append(p.Item(self.name("e"), p.text(self.rng.choice((f"{a} % 2", f"coalesce({a}, 9)")), a)))
        return p.project(child, items, [p.Column(i.name, "long") for i in items])

    def union(self, depth: int, joins: int) -> p.Plan:
        inputs = [self.plan(depth, 0) for _ in range(self.rng.choice((2, 2, 3)))]
        width = min(len(i.names) for i in inputs)
        narrow = [p.project(i, [p.Item(n) for n in self.rng.sample(i.names, width)]) for i in inputs]
        return p.Union(tuple(p.Column(self.name("u"), "long") for _ in range(width)), tuple(narrow))

    def join(self, depth: int, joins: int) -> p.Plan:
        left, right = self.plan(depth, joins - 1), self.plan(min(depth, 1), 0)
        return self._joined(left, right)

    def _joined(self, left: p.Plan, right: p.Plan) -> p.Plan:
        on = tuple(self._tie(left, right) for _ in range(self.rng.choice((0, 1, 1, 1, 2))))
        joined = p.InnerJoin((*left.columns, *right.columns), (left, right), on)
        kept = self.rng.sample(joined.names, min(4, len(joined.names)))
        return p.project(joined, [p.Item(n) for n in kept])

    def other_join(self, depth: int, joins: int) -> p.Plan:
        """Outer, semi, anti, existence and single joins."""
        kind = self.rng.choice(KINDS)
        left = self.plan(depth, joins - 1)
        if kind == "LeftSingle":
            return self._single(left)
        right = self.plan(min(depth, 2), joins - 1 if self.rng.random() < 0.3 else 0)
        if self.rng.random() < 0.15:  # one plan object on both sides, as a common table expression is
            left = self._renamed(right)
            right = self._renamed(right)
        return self._other(kind, left, right, self._condition(left, right))

    def _renamed(self, plan: p.Plan) -> p.Plan:
        return p.project(plan, [p.Item(self.name("s"), p.column_expr(n)) for n in plan.names])

    def _other(self, kind: str, left: p.Plan, right: p.Plan, on: tuple[p.Expr, ...]) -> p.Plan:
        if kind in ("LeftSemi", "LeftAnti"):
            return p.Join(left.columns, (left, right), kind, on)
        if kind == "Existence":
            flag = p.Column(self.name("f"), "boolean")
            joined = p.Join((*left.columns, flag), (left, right), kind, on, flag.name)
            shown = p.Item(self.name("i"), p.text(f"if({flag.name}, 1, 0)", flag.name))
            return p.project(joined, [*self._some(left.names), shown], [p.Column(shown.name, "long")])
        joined = p.Join((*left.columns, *right.columns), (left, right), kind, on)
        return p.project(joined, self._some(joined.names))

    def _some(self, names: tuple[str, ...]) -> list[p.Item]:
        return [p.Item(n) for n in self.rng.sample(names, min(4, len(names)))]

    def _condition(self, left: p.Plan, right: p.Plan) -> tuple[p.Expr, ...]:
        """Equalities alone, mixed with others, conditions on one side, constants, NOT IN's, or nothing."""
        rng = self.rng
        a, b = rng.choice(left.names), rng.choice(right.names)
        equal = p.Expr(f"{a} = {b}", (a, b), equality=(a, b))
        unknown = replace(p.text(f"({a} = {b}) or ({a} = {b}) is null", a, b), not_false=equal)
        options: list[tuple[p.Expr, ...]] = [
            (),
            (self._equal(left, right),),
            (self._equal(left, right),),
            (self._equal(left, right), self._equal(left, right)),
            (self._equal(left, right), self.predicate(right.names)),
            (self._equal(left, right), self.predicate(left.names)),
            (self._equal(left, right), self._tie(left, right)),
            (self._tie(left, right), self._tie(left, right)),
            (self._tie(left, right),),
            (self._tie(left, right), self.predicate(left.names)),
            (self.predicate(left.names),),
            (self.predicate(right.names),),
            (p.text(rng.choice(("true", "1 = 2"))),),
            (unknown,),
            (unknown, self._equal(left, right)),
        ]
        return rng.choice(options)

    def _equal(self, left: p.Plan, right: p.Plan) -> p.Expr:
        a, b = self.rng.choice(left.names), self.rng.choice(right.names)
        sides = (a, b) if self.rng.random() < 0.7 else (b, a)
        return p.Expr(f"{sides[0]} = {sides[1]}", sides, equality=sides)

    def _single(self, left: p.Plan) -> p.Plan:
        """A right side that has at most one row for each row of the left."""
        child = self.scan()
        key = child.names[0]
        keys = (p.Item(key),) if self.rng.random() < 0.6 else ()
        best = self.call(child.names, 0)
        columns = [p.Column(k.name, "long") for k in keys] + [p.Column(best.name, best.type)]
        right: p.Plan = p.Aggregate(tuple(columns), child, keys, (best,))
        if self.rng.random() < 0.3:
            right = p.Filter(right.columns, right, (self.predicate(right.names),))
        a = self.rng.choice(left.names)
        on: tuple[p.Expr, ...] = ()
        if keys:
            on = (p.Expr(f"{a} = {key}", (a, key), equality=(a, key)),)
            if self.rng.random() < 0.4:
                on = (*on, self._tie(left, right))
        return self._other("LeftSingle", left, right, on)

    def _tie(self, left: p.Plan, right: p.Plan) -> p.Expr:
        a, b = self.rng.choice(left.names), self.rng.choice(right.names)
        sign = self.rng.choice(("=", "=", "=", "<=>", "<"))
        pair = (a, b)
        return p.Expr(
            f"{a} {sign} {b}", pair, equality=pair if sign == "=" else None, same=pair if sign == "<=>" else None
        )

    def shared(self, depth: int, joins: int) -> p.Plan:
        """One plan object read twice, as a common table expression is."""
        child = self.plan(min(depth, 2), 0)
        sides = [p.project(child, [p.Item(self.name("s"), p.column_expr(n)) for n in child.names]) for _ in range(2)]
        return self._joined(*sides)

    def having(self, depth: int, joins: int) -> p.Plan:
        child = self.aggregate(depth, joins)
        return p.Filter(child.columns, child, (self.predicate(child.names),))

    def generate(self, depth: int, joins: int) -> p.Plan:
        """Rows of an array; an empty one and NULL give none."""
        child = self.plan(depth, joins)
        a, new = self.rng.choice(child.names), self.name("x")
        made = self.rng.choice((f"range({a})", f"if({a} = 1, [{a}, {a}, null], [7])", f"if({a} > 1, null, [{a}])"))
        return p.Generate((*child.columns, p.Column(new, "long")), child, p.text(made, a), False, (new,))

    def expand(self, depth: int, joins: int) -> p.Plan:
        """As GROUPING SETS does: some columns pass, others are NULL in some sets, and the set has a number."""
        child = self.plan(depth, joins)
        keys = self.rng.sample(child.names, self.rng.randint(1, min(2, len(child.names))))
        rows = []
        for number in range(self.rng.randint(1, 3)):
            hidden = {k for k in keys if self.rng.random() < 0.5}
            passed = [p.column_expr(n) for n in child.names]
            shown = [p.text("null::bigint") if k in hidden else p.column_expr(k) for k in keys]
            rows.append((*passed, *shown, p.text(str(number))))
        made = tuple(p.Column(self.name("s"), "long") for _ in (*keys, "number"))
        return p.Expand((*child.columns, *made), child, tuple(rows))

    def set_operation(self, depth: int, joins: int) -> p.Plan:
        inputs = [self.plan(depth, 0), self.plan(min(depth, 1), 0)]
        width = min(2, *(len(i.names) for i in inputs))
        narrow = [p.project(i, [p.Item(n) for n in self.rng.sample(i.names, width)]) for i in inputs]
        columns = tuple(p.Column(self.name("u"), "long") for _ in range(width))
        return p.SetOp(columns, tuple(narrow), self.rng.choice(("Intersect", "Except")), True)

    def order(self, names: Sequence[str]) -> tuple[p.Order, ...]:
        ways = [f"{way} NULLS {place}" for way in ("ASC", "DESC") for place in ("FIRST", "LAST")]
        return tuple(p.Order(p.column_expr(n), self.rng.choice(ways)) for n in names)

    def window(self, depth: int, joins: int) -> p.Plan:
        """Functions that see ties are ordered by all columns, so that the query has one result."""
        child, rng = self.plan(depth, joins), self.rng
        partition = tuple(rng.sample(child.names, rng.randint(0, min(2, len(child.names)))))
        x = rng.choice(child.names)
        if rng.random() < 0.5:
            order = self.order(rng.sample(child.names, len(child.names)))
            texts = (
                *("row_number() over every", f"lag({x}) over every", f"first_value({x}) over every"),
                f"count({x}) over (every rows between 1 preceding and current row)",
            )
        else:
            order = self.order(rng.sample(child.names, rng.randint(1, len(child.names))))
            by = f"partition by {', '.join(partition)} " if partition else ""
            over = f"over ({by}order by {', '.join(o.sql for o in order)})"
            texts = (f"rank() {over}", f"dense_rank() {over}", f"count({x}) {over}", f"max({x}) over ({by})")
        items = []
        for made in rng.sample(texts, rng.randint(1, 2)):
            expr = p.Expr(made, child.names, facts=frozenset({p.TIES} if " every" in made else ()))
            items.append(p.Item(self.name("w"), expr))
        columns = (*child.columns, *(p.Column(i.name, "long") for i in items))
        window = p.Window(columns, child, tuple(items), partition, order)
        shown = rng.sample(window.names, rng.randint(1, len(window.names)))
        return window if rng.random() < 0.4 else p.project(window, [p.Item(n) for n in shown])

    def qualify(self, depth: int, joins: int) -> p.Plan:
        child = self.window(depth, joins)
        return p.Filter(child.columns, child, (self.predicate(child.names),))

    def top(self, depth: int, joins: int) -> p.Plan:
        """Ordered by all columns, or only those it is ordered by are shown, so that the query has one result."""
        child, rng = self.plan(depth, joins), self.rng
        names = rng.sample(child.names, rng.choice((len(child.names), rng.randint(1, len(child.names)))))
        cut: p.Plan = p.Sort(child.columns, child, self.order(names), True)
        if rng.random() < 0.3:
            cut = p.Limit(cut.columns, cut, rng.randint(0, 3), offset=True)
        if rng.random() < 0.9:
            cut = p.Limit(cut.columns, cut, rng.choice((0, 1, 2, 3, 3, 5, 8)))
        else:
            cut = p.Limit(cut.columns, cut, rng.randint(0, 3), offset=True)
        return p.project(cut, [p.Item(n) for n in rng.sample(names, rng.randint(1, len(names)))])

    def aggregate(self, depth: int, joins: int) -> p.Plan:
        child = self.plan(depth, joins)
        keys = []
        for n in self.rng.sample(child.names, self.rng.randint(0, min(2, len(child.names)))):
            keys.append(p.Item(n) if self.rng.random() < 0.6 else p.Item(self.name("k"), p.text(f"{n} % 2", n)))
        few = 0 if keys and self.rng.random() < 0.2 else 1
        calls = tuple(self.call(child.names, i) for i in range(self.rng.randint(few, 3)))
        columns = [p.Column(i.name, "long") for i in keys] + [p.Column(c.name, c.type) for c in calls]
        aggregate = p.Aggregate(tuple(columns), child, tuple(keys), calls)
        shown = self.rng.sample(aggregate.names, self.rng.randint(1, len(aggregate.names)))
        return aggregate if self.rng.random() < 0.4 else p.project(aggregate, [p.Item(n) for n in shown])

    def call(self, names: tuple[str, ...], slot: int) -> p.Call:
        rng, x = self.rng, self.rng.choice(names)
        function = rng.choice(("Count", "Sum", "Min", "Max", "Max") + (("Mode",) if rng.random() < 0.3 else ()))
        condition = self.predicate(names) if rng.random() < 0.2 else None
        finish = {
            "Count": p.text(f"__fl_n{slot}"),
            "Sum": p.text(f"cast(if(__fl_n{slot} = 0, null, __fl_s{slot}) as bigint)"),
            "Min": p.text(f"__fl_m{slot}"),
            "Max": p.text(f"__fl_m{slot}"),
        }.get(function)
        shown = f"count(distinct {x})" if function == "Mode" else f"{function.lower()}({x})"
        shown += f" filter (where {condition.text})" if condition else ""
        if function == "Sum":
            shown = f"cast({shown} as bigint)"
        reads = tuple(dict.fromkeys((x, *(condition.columns if condition else ()))))
        arg = p.column_expr(x)
        return p.Call(
            self.name("v"), function, shown, "long", slot, (arg,), ("long",), condition, False, reads, finish=finish
        )


def rows(rng: Random, source: str, count: int) -> list[Row]:
    return [tuple(rng.choice(_DOMAIN) for _ in SOURCES[source]) for _ in range(count)]


def maintained(seed: int) -> Maintained:
    rng = Random(f"plan {seed}")
    query = Plans(rng).plan(rng.randint(1, 4))
    bags: dict[str, tuple[tuple[str, ...], Bag]] = {
        name: (fields, Counter(rows(rng, name, rng.choice((0, 2, 4, 6))))) for name, fields in SOURCES.items()
    }
    return Maintained(query, bags, hints=rng.random() < 0.6, lookups=rng.random() < 0.5)


def changes(rng: Random, kept: Maintained) -> dict[str, list[tuple[Row, int]]]:
    """Inserts, deletes and updates of some sources; sometimes all rows go, sometimes rows come and go within it."""
    found = {}
    for name in rng.sample(sorted(SOURCES), rng.randint(1, 3)):
        present = list(kept.sources[name][1].elements())
        gone = present if rng.random() < 0.1 else rng.sample(present, rng.randint(0, min(3, len(present))))
        come = rows(rng, name, rng.randint(0, 3))
        idle = rng.sample(present, 1) if present and rng.random() < 0.2 else []
        only_inserts = rng.random() < 0.25
        weighted = [(r, 1) for r in come] + ([] if only_inserts else [(r, -1) for r in gone])
        weighted += [] if only_inserts else [(r, w) for r in idle for w in (-1, 1)]
        found[name] = weighted
    return found
