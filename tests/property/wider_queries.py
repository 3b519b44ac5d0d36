"""Random queries of the kinds that are written by hand: each is a text with a place for its inputs, and one result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.property.query import Col, Query, Written
from tests.property.values import literal, predicate, scalar

WIDER_OPERATORS = (
    "lateral",
    "using",
    "sets",
    "bucket",
    "generator",
    "constants",
    "where_scalar",
    "subquery_on",
    "offset",
    "part_order",
    "ordered_call",
    "now",
    "frame",
    "higher_order",
    "qualified",
    "piped",
    "recursive_outer",
)

_ON_BOTH = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass
class WiderQueries(ABC):
    rng: Random

    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def source(self, deep: int) -> Query: ...

    @abstractmethod
    def sortable(self, query: Query) -> list[Col]: ...

    @abstractmethod
    def ordering(self, cols: list[Col]) -> tuple[str, ...]: ...

    def make_wider(self, operator: str, below: int) -> Query:
        left, right = self.source(below), self.source(below)
        makers: dict[str, Callable[[], Query | None]] = {
            "lateral": lambda: self._lateral(left, right),
            "using": lambda: self._using(left, right),
            "where_scalar": lambda: self._where_scalar(left, right),
            "subquery_on": lambda: self._subquery_on(left, right),
            "recursive_outer": lambda: self._recursive_outer(left, right),
        }
        of_one = getattr(self, f"_{operator}", None)
        made = makers[operator]() if operator in makers else of_one and of_one(left)
        return made if made is not None else left

    # Of one input ----------------------------------------------------------------------------------------------------

    def _sets(self, child: Query) -> Query | None:
        cols = self.sortable(child)
        if len(cols) < 2:
            return None
        a, b = self.rng.sample(cols, 2)
        some = self.rng.sample([f"({a.name})", f"({b.name})", f"({a.name}, {b.name})", "()"], self.rng.randint(1, 4))
        keys = (Col(self.name(), a.kind), Col(self.name(), b.kind))
        g, n, m = (Col(self.name(), kind) for kind in ("int", "int", a.kind))
        text = (
            f"SELECT {a.name} AS {keys[0].name}, {b.name} AS {keys[1].name}, "
            f"grouping_id({a.name}, {b.name}) AS {g.name}, count(*) AS {n.name}, max({a.name}) AS {m.name} FROM {{0}} "
            f"GROUP BY GROUPING SETS ({', '.join(some)}) HAVING count(*) > 0"
        )
        named = {name for one in some for name in one.strip("()").split(", ")}
        return Written((child,), text, (*keys, g, n, m)) if {a.name, b.name} <= named else None

    def _bucket(self, child: Query) -> Query | None:
        rng, cols = self.rng, self.sortable(child)
        at = [f"CAST({c.name} AS TIMESTAMP)" for c in cols if c.kind in ("date", "ts")]
        at += [f"timestamp_seconds({c.name} % 100)" for c in cols if c.kind == "int"]
        if not at:
            return None
        width = rng.choice(("'3 seconds'", "'40 days'"))
        word = rng.choice(
            (f"window({{}}, {width})", "window({}, '20 days', '10 days')", f"session_window({{}}, {width})")
        ).format(rng.choice(at))
        start, n = Col(self.name(), "ts"), Col(self.name(), "int")
        shown = word.partition("(")[0]
        text = f"SELECT {shown}.start AS {start.name}, count(*) AS {n.name} FROM {{0}} GROUP BY {word}"
        return Written((child,), text, (start, n))

    def _generator(self, child: Query) -> Query | None:
        rng, cols = self.rng, self.sortable(child)
        if not cols:
            return None
        c, x, p = rng.choice(cols), self.name(), self.name()
        outer = rng.choice(("", "OUTER "))
        function, new = rng.choice(
            [
                (f"posexplode(array({c.name}, NULL))", (Col(p, "int"), Col(x, c.kind))),
                (f"inline(array(struct({c.name}, 1), struct(NULL, 2)))", (Col(x, c.kind), Col(p, "int"))),
                (f"stack(2, {c.name}, 1, {c.name}, 2)", (Col(x, c.kind), Col(p, "int"))),
                (f"explode(map('k', {c.name}, 'm', NULL))", (Col(p, "str"), Col(x, c.kind))),
                (
                    f"json_tuple(to_json(named_struct('a', CAST({c.name} AS STRING))), 'a', 'b')",
                    (Col(x, "str"), Col(p, "str")),
                ),
            ]
        )
        names = ", ".join(k.name for k in (*child.cols, *new))
        view = f"LATERAL VIEW {outer}{function} t AS {', '.join(k.name for k in new)}"
        return Written((child,), f"SELECT {names} FROM {{0}} {view}", (*child.cols, *new), 2.0)

    def _constants(self, child: Query) -> Query | None:
        rng, cols = self.rng, self.sortable(child)
        if not cols:
            return None
        c, k, x = rng.choice(cols), self.name(), Col(self.name(), "str")
        rows = ", ".join(f"({literal(rng, c.kind)}, '{n}')" for n in "uvw")
        values = f"VALUES {rows} AS v({k}, {x.name})"
        names = ", ".join(f"l.{n.name}" for n in child.cols)
        n = Col(self.name(), "int")
        return rng.choice(
            [
                Written(
                    (child,),
                    f"SELECT {names}, v.{x.name} FROM {{0}} {rng.choice(_ON_BOTH)} {values} ON l.{c.name} = v.{k}",
                    (*child.cols, x),
                    2.0,
                ),
                Written(
                    (child,),
                    f"SELECT v.{x.name}, count(l.{c.name}) AS {n.name} FROM {values} "
                    f"LEFT JOIN {{0}} ON l.{c.name} <=> v.{k} GROUP BY v.{x.name}",
                    (x, n),
                ),
                Written(
                    (child,),
                    f"SELECT {names}, CAST(v.id AS INT) AS {n.name} FROM {{0}} CROSS JOIN range(3) AS v",
                    (*child.cols, n),
                    3.0,
                ),
                Written(
                    (child,),
                    f"SELECT {c.name} AS {n.name} FROM {{0}} "
                    f"WHERE {c.name} NOT IN (SELECT v.{k} FROM {values} WHERE {k} IS NOT NULL)",
                    (Col(n.name, c.kind),),
                ),
            ]
        )

    def _offset(self, child: Query) -> Query | None:
        cols = self.sortable(child)
        if not cols:
            return None
        names, order = ", ".join(c.name for c in cols), ", ".join(self.ordering(self.rng.sample(cols, len(cols))))
        return Written(
            (child,), f"SELECT {names} FROM {{0}} ORDER BY {order} OFFSET {self.rng.randint(0, 3)}", tuple(cols)
        )

    def _part_order(self, child: Query) -> Query | None:
        """Rows with ties, of which only what does not depend on them is shown."""
        cols = self.sortable(child)
        if not cols:
            return None
        kept = self.rng.sample(cols, self.rng.randint(1, min(2, len(cols))))
        names, order = ", ".join(c.name for c in kept), ", ".join(self.ordering(kept))
        limit = self.rng.choice(("LIMIT 2", "LIMIT 3 OFFSET 1", "LIMIT 40"))
        return Written((child,), f"SELECT {names} FROM {{0}} ORDER BY {order} {limit}", tuple(kept))

    def _ordered_call(self, child: Query) -> Query | None:
        rng, cols = self.rng, self.sortable(child)
        if not cols:
            return None
        key, calls = rng.choice(cols), []
        for c in rng.sample(cols, min(3, len(cols))):
            name = c.name
            options = [
                (f"count(DISTINCT {name})", "int"),
                (f"mode() WITHIN GROUP (ORDER BY {name})", c.kind),
                (f"max(DISTINCT {name})", c.kind),
                (f"approx_count_distinct({name})", "int"),
                (f"count_if({name} IS NULL)", "int"),
                (f"size(collect_set({name}))", "int"),
            ]
            if c.kind == "int":
                options += [(f"{f}({name})", "int") for f in ("bit_and", "bit_or", "bit_xor")]
                options += [(f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {name} DESC)", "double")]
                options += [(f"sum(DISTINCT {name})", "int"), (f"try_sum({name})", "int")]
            if c.kind == "str":
                options += [(f"listagg({name}, ',') WITHIN GROUP (ORDER BY {name})", "str")] * 2
            if c.kind == "bool":
                options += [(f"every({name})", "bool"), (f"some({name})", "bool")]
            text, kind = rng.choice(options)
            calls.append((text, Col(self.name(), kind, kind != "double")))
        shown = ", ".join(f"{text} AS {col.name}" for text, col in calls)
        group = rng.random() < 0.8
        head = f"{key.name}, " if group else ""
        by = f" GROUP BY {key.name}" if group else ""
        columns = (*([key] if group else []), *(col for _, col in calls))
        return Written((child,), f"SELECT {head}{shown} FROM {{0}}{by}", columns)

    def _now(self, child: Query) -> Query | None:
        cols = [c for c in child.cols if c.exact and c.kind in ("date", "ts")]
        if not cols:
            return None
        c, word = self.rng.choice(cols), self.rng.choice(("current_date()", "now()", "localtimestamp()"))
        names = ", ".join(k.name for k in child.cols)
        far = self.rng.choice(("", " - INTERVAL 9000 DAYS"))
        return Written((child,), f"SELECT {names} FROM {{0}} WHERE {c.name} < {word}{far}", child.cols)

    def _frame(self, child: Query) -> Query | None:
        rng, cols = self.rng, self.sortable(child)
        numbers = [c for c in cols if c.kind == "int"]
        if not numbers:
            return None
        n, c, x = rng.choice(numbers), rng.choice(cols), self.name()
        by = f"PARTITION BY {rng.choice(cols).name} " if rng.random() < 0.8 else ""
        every = ", ".join(self.ordering(rng.sample(cols, len(cols))))
        text, kind = rng.choice(
            [
                (
                    f"sum({n.name} % 5) OVER ({by}ORDER BY {n.name} % 7 RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
                    "int",
                ),
                (
                    f"count(*) OVER ({by}ORDER BY {n.name} % 7 DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
                    "int",
                ),
                (f"last_value({c.name}) IGNORE NULLS OVER ({by}ORDER BY {every})", c.kind),
                (f"nth_value({c.name}, 2) OVER ({by}ORDER BY {every})", c.kind),
                (f"lead({c.name}, 2) OVER ({by}ORDER BY {every})", c.kind),
                (f"coalesce(sum({n.name} % 5) OVER ({by}), 0) + rank() OVER ({by}ORDER BY {c.name})", "int"),
            ]
        )
        names = ", ".join(k.name for k in child.cols)
        return Written((child,), f"SELECT {names}, {text} AS {x} FROM {{0}}", (*child.cols, Col(x, kind)))

    def _higher_order(self, child: Query) -> Query | None:
        cols = [c for c in self.sortable(child) if c.kind == "int"]
        if not cols:
            return None
        a, b, x = self.rng.choice(cols), self.rng.choice(cols), self.name()
        text, kind = self.rng.choice(
            [
                (
                    f"aggregate(transform(array({a.name}, {b.name}), v -> v % 9), 0L, (s, v) -> s + coalesce(v, 1))",
                    "int",
                ),
                (f"exists(array({a.name}, {b.name}), v -> v > 1)", "bool"),
                (f"zip_with(array({a.name}), array({b.name}), (v, w) -> v < w)[0]", "bool"),
                (f"size(map_filter(map('a', {a.name}, 'b', {b.name}), (k, v) -> v > 0))", "int"),
            ]
        )
        names = ", ".join(k.name for k in child.cols)
        return Written((child,), f"SELECT {names}, {text} AS {x} FROM {{0}}", (*child.cols, Col(x, kind)))

    def _qualified(self, child: Query) -> Query | None:
        cols = self.sortable(child)
        if not cols:
            return None
        names, by = ", ".join(c.name for c in cols), self.rng.choice(cols).name
        every = ", ".join(self.ordering(self.rng.sample(cols, len(cols))))
        test = self.rng.choice(
            (f"row_number() OVER (PARTITION BY {by} ORDER BY {every}) = 1", f"count(*) OVER (PARTITION BY {by}) > 1")
        )
        where = f" WHERE {predicate(self.rng, cols)}" if self.rng.random() < 0.4 else ""
        return Written((child,), f"SELECT {names} FROM {{0}}{where} QUALIFY {test}", tuple(cols))

    def _piped(self, child: Query) -> Query | None:
        cols = self.sortable(child)
        if not cols:
            return None
        c, n, x = self.rng.choice(cols), Col(self.name(), "int"), Col(self.name(), "int")
        text = f"FROM {{0}} |> WHERE {predicate(self.rng, cols)} |> AGGREGATE count(*) AS {n.name} GROUP BY {c.name}"
        return Written((child,), f"{text} |> EXTEND {n.name} % 2 AS {x.name} |> WHERE {n.name} < 9", (c, n, x))

    # Of two inputs ---------------------------------------------------------------------------------------------------

    def _pair(self, left: Query, right: Query) -> tuple[Col, Col] | None:
        pairs = [(a, b) for a in self.sortable(left) for b in self.sortable(right) if a.kind == b.kind]
        return self.rng.choice(pairs) if pairs else None

    def _lateral(self, left: Query, right: Query) -> Query | None:
        rng, pair = self.rng, self._pair(left, right)
        if pair is None:
            return None
        (a, b), c, x = pair, rng.choice(self.sortable(right)), self.name()
        names = ", ".join(f"l.{k.name}" for k in left.cols)
        join = rng.choice((", LATERAL", " LEFT JOIN LATERAL"))
        on = " ON true" if "JOIN" in join else ""
        inner, kind = rng.choice(
            [
                (f"SELECT max(r.{c.name}) AS {x} FROM {{1}} WHERE r.{b.name} = l.{a.name}", c.kind),
                (f"SELECT count(*) AS {x} FROM {{1}} WHERE r.{b.name} = l.{a.name} AND r.{c.name} IS NOT NULL", "int"),
                (
                    f"SELECT r.{c.name} AS {x} FROM {{1}} WHERE r.{b.name} = l.{a.name} ORDER BY r.{c.name} LIMIT 1",
                    c.kind,
                ),
                (f"SELECT r.{c.name} AS {x} FROM {{1}} WHERE r.{b.name} < l.{a.name}", c.kind),
                (f"SELECT DISTINCT r.{c.name} AS {x} FROM {{1}} WHERE r.{b.name} = l.{a.name}", c.kind),
                (f"SELECT {scalar(rng, Col(f'l.{a.name}', a.kind))} AS {x}", a.kind),
            ]
        )
        parts = (left, right) if "{1}" in inner else (left,)
        return Written(
            parts, f"SELECT {names}, t.{x} FROM {{0}}{join} ({inner}) AS t{on}", (*left.cols, Col(x, kind)), 2.0
        )

    def _using(self, left: Query, right: Query) -> Query | None:
        pair = self._pair(left, right)
        if pair is None:
            return None
        (a, b), k, x, y = pair, self.name(), self.name(), self.name()
        c, d = self.rng.choice(self.sortable(left)), self.rng.choice(self.sortable(right))
        kind = self.rng.choice(_ON_BOTH)
        natural = self.rng.random() < 0.4
        word, tail = (f"NATURAL {kind}", "") if natural else (kind, f" USING ({k})")
        text = (
            f"SELECT {k}, {x}, {y} FROM (SELECT {a.name} AS {k}, {c.name} AS {x} FROM {{0}}) AS one {word} "
            f"(SELECT {b.name} AS {k}, {d.name} AS {y} FROM {{1}}) AS two{tail}"
        )
        return Written((left, right), text, (Col(k, a.kind), Col(x, c.kind), Col(y, d.kind)), 3.0)

    def _where_scalar(self, left: Query, right: Query) -> Query | None:
        rng, pair, other = self.rng, self._pair(left, right), self._pair(left, right)
        if pair is None or other is None:
            return None
        (a, b), (c, d), n = pair, other, Col(self.name(), "int")
        names = ", ".join(f"l.{k.name}" for k in left.cols)
        call = rng.choice(("min", "max"))
        correlated = f"SELECT {call}(r.{b.name}) FROM {{1}} WHERE r.{d.name} = l.{c.name}"
        return rng.choice(
            [
                Written(
                    (left, right),
                    f"SELECT {names} FROM {{0}} WHERE l.{a.name} >= (SELECT {call}(r.{b.name}) FROM {{1}})",
                    left.cols,
                ),
                Written(
                    (left, right),
                    f"SELECT {names} FROM {{0}} WHERE l.{a.name} = ({correlated}) OR l.{c.name} IS NULL",
                    left.cols,
                ),
                Written(
                    (left, right),
                    f"SELECT {a.name}, count(*) AS {n.name} FROM {{0}} GROUP BY {a.name} "
                    f"HAVING {a.name} > (SELECT {call}(r.{b.name}) FROM {{1}})",
                    (a, n),
                ),
                Written(
                    (left, right),
                    f"SELECT {names} FROM {{0}} WHERE (SELECT count(*) FROM {{1}} WHERE r.{d.name} = l.{c.name}) <= 1",
                    left.cols,
                ),
                Written(
                    (left, right),
                    f"SELECT count(*) FILTER (WHERE l.{a.name} "
                    f"IN (SELECT r.{b.name} FROM {{1}})) AS {n.name} FROM {{0}}",
                    (n,),
                ),
            ]
        )

    def _subquery_on(self, left: Query, right: Query) -> Query | None:
        rng, pair, third = self.rng, self._pair(left, right), self.source(0)
        again = self._pair(left, third)
        if pair is None or again is None:
            return None
        (a, b), (c, d), x = pair, again, Col(self.name(), pair[1].kind)
        names = ", ".join(f"l.{k.name}" for k in left.cols)
        test = rng.choice(
            (
                f"l.{c.name} IN (SELECT {d.name} FROM {{2}})",
                f"EXISTS (SELECT 1 FROM {{2}} WHERE m.{d.name} = l.{c.name})",
                f"l.{c.name} > (SELECT min(m.{d.name}) FROM {{2}})",
                f"NOT EXISTS (SELECT 1 FROM {{2}} WHERE m.{d.name} = l.{c.name})",
            )
        )
        kind = rng.choice(("JOIN", "LEFT JOIN"))
        on = f"l.{a.name} = r.{b.name} AND {test}"
        text = f"SELECT {names}, r.{b.name} AS {x.name} FROM {{0}} {kind} {{1}} ON {on}"
        return Written((left, right, third), text, (*left.cols, x), 2.0)

    def _recursive_outer(self, left: Query, right: Query) -> Query | None:
        pair = self._pair(left, right)
        if pair is None or pair[0].kind != "int" or left.size > 20 or right.size > 20:
            return None
        (a, b), first, n = pair, self.name(), self.name()
        step = self.rng.choice(self.sortable(right))
        if step.kind != "int":
            return None
        kind = self.rng.choice(("LEFT JOIN", "JOIN"))
        text = (
            f"WITH RECURSIVE p({first}, {n}) AS (SELECT CAST({a.name} AS BIGINT), 0 FROM {{0}} UNION ALL "
            f"SELECT CAST(r.{step.name} AS BIGINT), p.{n} + 1 FROM p "
            f"{kind} {{1}} ON p.{first} = r.{b.name} WHERE p.{n} < 2) "
            f"SELECT {first}, {n} FROM p"
        )
        return Written((left, right), text, (Col(first, "int"), Col(n, "int")), 9.0)
