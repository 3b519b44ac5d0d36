"""Recursion on DuckDB: trees, graphs with duplicates and bounded cycles follow every change of what they read."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.derive import Changed, differential
from freshlake.compiler.program import StepKind
from freshlake.compiler.recursion import LEVEL, why_not_linear, with_levels
from freshlake.compiler.split import split
from freshlake.compiler.support import reasons
from tests.property.duck import Bag, Maintained, Row
from tests.property.plans import SOURCES, Plans, changes, rows

CASES, CHUNK, ROUNDS = 96, 24, 3
EDGES = ("g", "x")


class RecursivePlans(Plans):
    """Random plans around one recursion; a counter bounds its depth, since the data is full of cycles."""

    loops = 0

    def pair(self, depth: int) -> p.Plan:
        """Any plan, cut or widened to two columns."""
        child = self.plan(depth, 1)
        names = [self.rng.choice(child.names) for _ in range(2)]
        return p.project(child, [p.Item(self.name("p"), p.column_expr(n)) for n in names])

    def loop(self) -> p.Plan:
        self.loops += 1
        first = self.pair(self.rng.randint(0, 2))
        one = p.Item(self.name("n"), p.text("1"))
        anchor = p.project(first, p.passing(first, one), [p.Column(one.name, "long")])
        columns = tuple(p.Column(self.name("r"), "long") for _ in range(3))
        branches = tuple(self.step(self.loops) for _ in range(self.rng.choice((1, 1, 1, 2))))
        step = branches[0]
        if len(branches) > 1:
            step = p.Union(tuple(p.Column(self.name("u"), "long") for _ in range(3)), branches)
        return p.Loop(columns, (anchor, step), self.loops)

    def step(self, loop: int) -> p.Plan:
        ref: p.Plan = p.LoopRef(tuple(p.Column(self.name("l"), "long") for _ in range(3)), loop)
        start, end, depth = ref.names
        bound = p.text(f"{depth} < {self.rng.choice((2, 3))}", depth)
        ref = p.Filter(ref.columns, ref, (bound,))
        more = p.Item(self.name("d"), p.text(f"{depth} + 1", depth))
        if self.rng.random() < 0.2:
            items = [p.Item(self.name("s"), p.text(f"({start} + 1) % 3", start)), p.Item(end), more]
            return p.project(ref, items, [p.Column(i.name, "long") for i in items])
        edges = self.pair(self.rng.randint(0, 2))
        source, target = edges.names
        sign = self.rng.choice(("=", "=", "=", "<=>", "<"))
        on = p.Expr(f"{end} {sign} {source}", (end, source), equality=(end, source) if sign == "=" else None)
        kind = self.rng.choice(("LeftOuter", "LeftSemi", "LeftAnti", *["Inner"] * 6))
        if kind != "Inner":
            shown = (*ref.columns, *(edges.columns if kind == "LeftOuter" else ()))
            kept = p.Join(shown, (ref, edges), kind, (on,))
            last = target if kind == "LeftOuter" else end
            return p.project(kept, [p.Item(start), p.Item(last), more], [p.Column(more.name, "long")])
        sides = (ref, edges) if self.rng.random() < 0.5 else (edges, ref)
        joined = p.InnerJoin(tuple(c for s in sides for c in s.columns), sides, (on,))
        return p.project(joined, [p.Item(start), p.Item(target), more], [p.Column(more.name, "long")])

    def query(self) -> p.Plan:
        loop = self.loop()
        around = self.rng.choice(("root", "project", "filter", "aggregate", "join", "union"))
        match around:
            case "project":
                kept = self.rng.sample(loop.names, self.rng.randint(1, 3))
                return p.project(loop, [p.Item(self.name("o"), p.column_expr(n)) for n in kept])
            case "filter":
                return p.Filter(loop.columns, loop, (self.predicate(loop.names),))
            case "aggregate":
                calls = (self.call(loop.names, 0), self.call(loop.names, 1))
                columns = (loop.columns[0], *(p.Column(c.name, c.type) for c in calls))
                return p.Aggregate(columns, loop, (p.Item(loop.names[0]),), calls)
            case "join":
                return self._joined(loop, self.plan(1, 0))
            case "union":
                narrow = p.project(loop, [p.Item(loop.names[1])])
                other = self.plan(1, 0)
                other = p.project(other, [p.Item(other.names[0])])
                return p.Union((p.Column(self.name("u"), "long"),), (narrow, other))
        return loop


def maintained(seed: int) -> Maintained:
    rng = Random(f"recursion {seed}")
    query = RecursivePlans(rng).query()
    bags: dict[str, tuple[tuple[str, ...], Bag]] = {
        name: (fields, Counter(rows(rng, name, rng.choice((0, 2, 4))))) for name, fields in SOURCES.items()
    }
    return Maintained(query, bags, hints=rng.random() < 0.6, lookups=rng.random() < 0.5)


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_recursions_follow_random_changes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kept, rng = maintained(seed), Random(f"recursion changes {seed}")
        assert kept.rows() == kept.expected(), f"first load of plan {seed}: {kept.query}"
        for number in range(ROUNDS):
            before = kept.rows()
            kept.refresh(changes(rng, kept))
            assert kept.rows() == kept.expected(), f"round {number + 1} of plan {seed}, before {before}: {kept.query}"


# Directed ------------------------------------------------------------------------------------------------------------


def edges(suffix: str) -> p.Scan:
    return p.Scan(tuple(p.Column(f"{f}{suffix}", "long") for f in EDGES), "a", EDGES)


def reachable(step: p.Plan | None = None, **options: int) -> p.Loop:
    """Pairs (from, to) over the edges of table a; without a bound on the depth."""
    ref = p.LoopRef((p.Column("s", "long"), p.Column("e", "long")), 1)
    tie = p.Expr("e = g2", ("e", "g2"), equality=("e", "g2"))
    joined = p.InnerJoin((*ref.columns, *edges("2").columns), (ref, edges("2")), (tie,))
    over = p.project(joined, [p.Item("s"), p.Item("x2")])
    columns = (p.Column("start", "long"), p.Column("finish", "long"))
    return p.Loop(columns, (edges("1"), step or over), 1, **options)


def kept(query: p.Plan, *pairs: Row) -> Maintained:
    return Maintained(query, {n: (fields, Counter(pairs if n == "a" else ())) for n, fields in SOURCES.items()})


def test_a_new_edge_joins_what_was_there_on_both_sides() -> None:
    table = kept(reachable(), (1, 2), (3, 4))
    table.refresh({"a": [((2, 3), 1)]})
    assert table.rows() == {(1, 2): 1, (3, 4): 1, (2, 3): 1, (1, 3): 1, (2, 4): 1, (1, 4): 1}


def test_an_edge_that_goes_takes_its_paths_along_and_no_others() -> None:
    """4 is reached on two paths: one of the two copies stays."""
    table = kept(reachable(), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))
    assert table.rows()[1, 5] == 2
    table.refresh({"a": [((2, 4), -1)]})
    assert table.rows() == {(1, 2): 1, (1, 3): 1, (3, 4): 1, (4, 5): 1, (1, 4): 1, (3, 5): 1, (1, 5): 1}


def test_edges_that_repeat_multiply_their_paths() -> None:
    table = kept(reachable(), (1, 2), (2, 3))
    table.refresh({"a": [((1, 2), 1), ((2, 3), 2)]})
    assert table.rows() == {(1, 2): 2, (2, 3): 3, (1, 3): 6}
    table.refresh({"a": [((1, 2), -2), ((2, 3), -3)]})
    assert table.rows() == {}
    table.refresh({"a": [((1, 2), 1)]})
    assert table.rows() == {(1, 2): 1}


def test_a_cycle_is_not_followed_beyond_the_limit() -> None:
    table = kept(reachable(limit=20), (1, 2), (2, 3))
    with pytest.raises(AssertionError, match="no end within the limit"):
        table.refresh({"a": [((3, 1), 1)]})


def test_the_level_of_every_row_is_stored() -> None:
    table = kept(reachable(), (1, 2), (2, 3), (3, 4))
    assert [c.field for c in table.nodes[-1].columns] == ["start", "finish", LEVEL]
    assert table.stored[""][1, 4, 3] == 1
    table.refresh({"a": [((1, 3), 1)]})
    assert (table.stored[""][1, 4, 3], table.stored[""][1, 4, 2]) == (1, 1)


def test_columns_that_are_not_shown_are_stored_all_the_same() -> None:
    table = kept(p.project(reachable(), [p.Item("goal", p.column_expr("finish"))]), (1, 2), (2, 3))
    assert [(c.field, c.hidden) for c in table.nodes[-1].columns] == [
        ("goal", False),
        ("__fl_c0", True),
        (LEVEL, True),
    ]
    table.refresh({"a": [((3, 4), 1)]})
    assert table.rows() == {(2,): 1, (3,): 2, (4,): 3}


def test_a_change_that_nothing_reaches_costs_one_round() -> None:
    (node,) = split(reachable(), reachable().columns, differential=True)
    program = differential((node,), Changed(frozenset({"a"})))
    assert [s.kind for s in program.steps] == [StepKind.LOOP, StepKind.RESULT]
    assert differential((node,), Changed(frozenset({"b"}))).steps == ()


# What is linear ------------------------------------------------------------------------------------------------------


def ref(suffix: str = "") -> p.LoopRef:
    return p.LoopRef((p.Column(f"s{suffix}", "long"), p.Column(f"e{suffix}", "long")), 1)


def test_steps_that_are_not_linear_have_a_reason() -> None:
    twice = p.InnerJoin((*ref("1").columns, *ref("2").columns), (ref("1"), ref("2")), ())
    distinct = p.Aggregate(ref().columns, ref(), (p.Item("s"), p.Item("e")), ())
    endless = p.Union(ref().columns, (ref(), edges("3")))
    padded = p.Join((*edges("3").columns, *ref().columns), (edges("3"), ref()), "LeftOuter", ())
    words = {"joins the reference with itself": twice, "inside aggregate": distinct, "never ends": endless}
    for word, step in {**words, "inside join": padded}.items():
        why = why_not_linear(reachable(step))
        assert why is not None
        assert word in why
        assert any(word in r.message for r in reasons(reachable(step)))
    assert reasons(reachable()) == ()
    kept_side = p.Join((*ref().columns, *edges("3").columns), (ref(), edges("3")), "LeftOuter", ())
    assert why_not_linear(reachable(kept_side)) is None


def test_a_level_goes_through_every_operator_of_a_step() -> None:
    step = reachable().inputs[1]
    filtered = p.Filter(ref().columns, ref(), (p.text("s > 0", "s"),))
    both = p.Union((p.Column("a1", "long"), p.Column("a2", "long")), (step, filtered))
    levelled = with_levels(reachable(both))
    assert levelled.names == ("start", "finish", LEVEL)
    assert all(c.names[-1] == LEVEL for c in levelled.inputs)
