"""The current time as an input of joins: on DuckDB, rows come and go as time passes, with and without other changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random

import pytest

from freshlake.catalog.enums import Action, RefreshMode
from freshlake.clock import ManualClock
from freshlake.compiler import plan as p
from freshlake.compiler.current_time import NOW, in_result
from freshlake.compiler.derive import Changed, differential
from freshlake.compiler.passes import PASSES
from freshlake.compiler.split import split
from freshlake.compiler.walk import nodes
from freshlake.refresh.choose import Situation, SourceChange, choose
from freshlake.sources.current_time import TimeSource, position_at, position_of
from freshlake.sources.protocol import ChangeKind
from tests.property.duck import Bag, Maintained
from tests.property.plans import SOURCES, Plans, changes, rows

CASES, CHUNK, ROUNDS = 96, 24, 3


class TemporalPlans(Plans):
    """Random plans in which conditions read the time."""

    def plan(self, depth: int, joins: int = 2) -> p.Plan:
        if depth > 0 and self.rng.random() < 0.5:
            return self.temporal(depth - 1, joins)
        return super().plan(depth, joins)

    def time(self) -> p.Scan:
        return p.Scan((p.Column(self.name("t"), "long", label="now()"),), NOW, ("t",))

    def temporal(self, depth: int, joins: int) -> p.Plan:
        """As the binder reads a filter: the time is joined, tested, and dropped; sometimes it is shown."""
        child, time = self.plan(depth, joins), self.time()
        joined = p.InnerJoin((*child.columns, *time.columns), (child, time), ())
        tests = tuple(self.test(child.names, time.names[0]) for _ in range(self.rng.choice((1, 1, 2))))
        tests += (p.text("1 = 1"),) if self.rng.random() < 0.2 else ()
        shown = (
            [p.Item(self.name("m"), p.text(f"{time.names[0]} % 3", time.names[0]))] if self.rng.random() < 0.25 else []
        )
        items = p.passing(child, *shown)
        return p.project(p.Filter(joined.columns, joined, tests), items, [p.Column(i.name, "long") for i in shown])

    def test(self, names: tuple[str, ...], time: str) -> p.Expr:
        a, b = self.rng.choice(names), self.rng.choice(names)
        options = {
            f"{a} <= {time}": (a,),
            f"{a} > {time} - 2": (a,),
            f"{a} = {time}": (a,),
            f"{a} + {b} < {time} or {b} is null": (a, b),
            f"{time} > 1": (),
        }
        chosen = self.rng.choice(list(options))
        equality = (a, time) if chosen == f"{a} = {time}" else None
        return p.Expr(chosen, tuple(dict.fromkeys((*options[chosen], time))), equality=equality)


def maintained(seed: int) -> Maintained:
    rng = Random(f"time {seed}")
    query = TemporalPlans(rng).temporal(rng.randint(0, 3), 2)
    bags: dict[str, tuple[tuple[str, ...], Bag]] = {
        name: (fields, Counter(rows(rng, name, rng.choice((0, 3, 6))))) for name, fields in SOURCES.items()
    }
    bags[NOW] = (("t",), Counter([(rng.randint(0, 3),)]))
    return Maintained(query, bags, hints=rng.random() < 0.6, lookups=rng.random() < 0.5)


def moved(kept: Maintained, to: int) -> dict[str, list[tuple[tuple[int, ...], int]]]:
    (old,) = kept.sources[NOW][1].elements()
    return {NOW: [(old, -1), ((to,), 1)]} if old != (to,) else {}


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_plans_follow_time_and_changes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kept, rng = maintained(seed), Random(f"time changes {seed}")
        assert kept.rows() == kept.expected(), f"first load of plan {seed}: {kept.query}"
        for number in range(ROUNDS):
            found = changes(rng, kept) if rng.random() < 0.6 else {}
            found |= moved(kept, rng.randint(0, 5)) if rng.random() < 0.8 else {}
            kept.refresh(found)
            assert kept.rows() == kept.expected(), f"round {number + 1} of plan {seed}: {kept.query}"


# Directed ------------------------------------------------------------------------------------------------------------


def scan(source: str) -> p.Scan:
    return p.Scan(tuple(p.Column(f"{source}_{f}", "long") for f in SOURCES[source]), source, SOURCES[source])


def filtered(child: p.Plan, test: str, *reads: str) -> p.Plan:
    time = p.Scan((p.Column("t", "long", label="current_date()"),), NOW, ("t",))
    joined = p.InnerJoin((*child.columns, *time.columns), (child, time), ())
    return p.project(p.Filter(joined.columns, joined, (p.text(test, *reads, "t"),)), p.passing(child))


def kept(query: p.Plan, now: int, **sources: list[tuple[int | None, ...]]) -> Maintained:
    bags = {n: (fields, Counter(sources.get(n, []))) for n, fields in SOURCES.items()}
    return Maintained(query, {**bags, NOW: (("t",), Counter([(now,)]))})


def test_rows_enter_and_leave_with_no_change_of_a_table() -> None:
    recent = kept(filtered(scan("c"), "c_x > t - 2 and c_x <= t", "c_x"), 2, c=[(1,), (2,), (3,), (3,), (None,)])
    assert recent.rows() == {(1,): 1, (2,): 1}
    assert recent.refresh(moved(recent, 3))[""] == {(1,): -1, (3,): 2}
    assert recent.refresh(moved(recent, 2))[""] == {(1,): 1, (3,): -2}, "a clock that was set back"


def test_rows_that_come_while_time_passes_are_judged_at_the_new_moment() -> None:
    due = kept(filtered(scan("c"), "c_x <= t", "c_x"), 1, c=[(1,), (2,)])
    change = due.refresh({"c": [((2,), -1), ((3,), 1), ((4,), 1)], **moved(due, 3)})[""]
    assert change == {(3,): 1}


def test_a_test_that_reads_nothing_decides_beside_one_of_the_time() -> None:
    for constant, expected in (("1 = 1", {(3,): 1}), ("1 = 2", {})):
        query = filtered(scan("c"), "c_x <= t", "c_x")
        due = kept(p.Filter(query.columns, query, (p.text(constant),)), 1, c=[(1,), (3,)])
        assert due.refresh(moved(due, 3))[""] == expected


def test_only_rows_that_enter_or_leave_are_joined_on() -> None:
    """The condition is compared at both moments before anything else is joined."""
    a, b = scan("a"), scan("b")
    tie = p.Expr("a_g = b_g", ("a_g", "b_g"), equality=("a_g", "b_g"))
    query = p.InnerJoin((*a.columns, *b.columns), (filtered(a, "a_x <= t", "a_x"), b), (tie,))
    for rewrite in PASSES:
        query = rewrite(query)
    program = differential(split(query, query.columns, differential=True), Changed(frozenset({NOW})))
    (step,) = program.steps
    assert not any(isinstance(n, p.Delta) for n in nodes(step.plan)), "the moments are compared, not joined"
    outer = next(n for n in nodes(step.plan) if isinstance(n, p.InnerJoin))
    first = list(nodes(outer.inputs[0]))
    assert {n.when for n in first if isinstance(n, p.State) and n.of == NOW} == {p.When.BEFORE, p.When.AFTER}
    assert any(isinstance(n, p.Filter) and "<>" in n.on[0].text for n in first)


def test_tables_that_change_alone_are_read_at_one_moment() -> None:
    query = filtered(scan("c"), "c_x <= t", "c_x")
    program = differential(split(query, query.columns, differential=True), Changed(frozenset({"c"})))
    leaves = [n for s in program.steps for n in nodes(s.plan) if not n.children]
    assert [(type(n).__name__, getattr(n, "of", "c")) for n in leaves] == [("Delta", "c"), ("State", NOW)]


# Where the time may be used ------------------------------------------------------------------------------------------


def test_a_condition_keeps_the_time_out_of_the_result() -> None:
    assert in_result(filtered(scan("c"), "c_x <= t", "c_x")) == ()


def test_a_time_that_is_shown_is_in_the_result() -> None:
    time = p.Scan((p.Column("t", "long", label="current_date()"),), NOW, ("t",))
    joined = p.InnerJoin((*scan("c").columns, *time.columns), (scan("c"), time), ())
    shown = p.project(joined, [p.Item("c_x"), p.Item("today", p.column_expr("t"))])
    assert in_result(shown) == time.columns
    assert in_result(p.project(p.Filter(shown.columns, shown, (p.text("today > 1", "today"),)), [p.Item("c_x")])) == ()
    keys = (p.Item("day", p.text("t + 1", "t")),)
    grouped = p.Aggregate((p.Column("day", "long"),), joined, keys, ())
    assert in_result(grouped) == time.columns
    assert in_result(p.Limit(shown.columns, shown, p.text("1"))) == time.columns
    again = p.Scan((p.Column("u", "long", label="current_date()"),), NOW, ("u",))
    twice = p.InnerJoin((*shown.columns, *again.columns), (shown, again), ())
    assert [c.label for c in in_result(twice)] == ["current_date()"]


# The source ----------------------------------------------------------------------------------------------------------


def test_passing_time_is_a_change_but_never_a_large_one() -> None:
    clock = ManualClock()
    source = TimeSource(clock, None)  # type: ignore[arg-type]
    start = source.head()
    assert source.triage(start, source.head()).kind is ChangeKind.NONE
    clock.advance(1e9)
    triage = source.triage(start, source.head())
    assert (triage.kind, triage.rows) == (ChangeKind.MUTATING, 0)
    seen = SourceChange(source.name, triage, source.row_count(start))
    now = Situation(RefreshMode.AUTO, None, True, False, False, (), {NOW: seen}, max_change_ratio=0.15)
    assert choose(now).action is Action.DIFFERENTIAL


def test_a_moment_is_kept_to_the_microsecond() -> None:
    moment = datetime(2262, 4, 12, 1, 2, 3, 456789, tzinfo=UTC)
    assert position_at(position_of(moment).version) == position_of(moment)
    assert position_of(moment).fingerprint == "2262-04-12T01:02:03.456789+00:00"
