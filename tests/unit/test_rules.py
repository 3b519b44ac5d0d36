"""The rules alone: on DuckDB, without Spark, every program keeps its stored rows equal to the query."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.derive import Changed, differential
from freshlake.compiler.program import StepKind
from freshlake.compiler.rules import JOINS, RULES, STORED
from freshlake.compiler.split import split
from tests.property.plans import changes, maintained
from tests.unit.rule_cases import call, grouped, kept, scan

CASES, CHUNK, ROUNDS = 240, 30, 3


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_plans_follow_random_changes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        table, rng = maintained(seed), Random(f"changes {seed}")
        assert table.rows() == table.expected(), f"first load of plan {seed}: {table.query}"
        for number in range(ROUNDS):
            before = table.rows()
            table.refresh(changes(rng, table))
            assert table.rows() == table.expected(), (
                f"round {number + 1} of plan {seed}, before {before}: {table.query}"
            )


def test_every_operator_that_needs_no_state_has_a_rule_with_a_law() -> None:
    assert set(p.LINEAR) - {p.Values, p.Join} == set(RULES)
    assert all(rule.law and rule.operator is operator for operator, rule in RULES.items())
    assert all(rule.law and rule.operator is p.Join and rule.kind == kind for kind, rule in JOINS.items())


def test_every_operator_that_needs_its_old_output_is_a_stored_node() -> None:
    assert set(p.NONLINEAR) == set(STORED)
    assert all(rule.law and rule.operator is operator for operator, rule in STORED.items())


# Directed: what the change of a node is, not only what it adds up to. ------------------------------------------------


def test_a_filter_tests_old_rows_with_their_old_values() -> None:
    positive = p.Filter(scan("c").columns, scan("c"), (p.text("c_x > 0", "c_x"),))
    table = kept(positive, c=[(1,), (0,), (None,)])
    assert table.refresh({"c": [((1,), -1), ((0,), 1), ((0,), -1), ((2,), 1)]})[""] == {(1,): -1, (2,): 1}


def test_both_sides_of_a_join_may_change_at_once() -> None:
    join = p.InnerJoin(
        (*scan("a").columns, *scan("c").columns),
        (scan("a"), scan("c")),
        (p.Expr("a_x = c_x", ("a_x", "c_x"), equality=("a_x", "c_x")),),
    )
    table = kept(join, a=[(0, 1)], c=[(1,)])
    assert table.refresh({"a": [((0, 1), -1), ((5, 2), 1)], "c": [((1,), -1), ((2,), 1)]})[""] == {
        (0, 1, 1): -1,
        (5, 2, 2): 1,
    }


def test_a_self_join_counts_pairs_of_new_rows_once() -> None:
    join = p.InnerJoin((*scan("c", "l").columns, *scan("c", "r").columns), (scan("c", "l"), scan("c", "r")), ())
    table = kept(join, c=[(1,)])
    assert table.refresh({"c": [((2,), 1)]})[""] == {(1, 2): 1, (2, 1): 1, (2, 2): 1}


def test_the_last_row_of_a_group_takes_the_group_along() -> None:
    table = kept(grouped(scan("a"), "a_g", call("Sum", "a_x")), a=[(None, 3), (1, 2)])
    table.refresh({"a": [((None, 3), -1)]})
    assert table.rows() == {(1, 2): 1}


def test_a_sum_of_nothing_but_nulls_is_null() -> None:
    table = kept(grouped(scan("a"), "a_g", call("Sum", "a_x")), a=[(1, 0), (1, None)])
    table.refresh({"a": [((1, 0), -1)]})
    assert table.rows() == {(1, None): 1}


def test_a_global_aggregate_keeps_its_row() -> None:
    table = kept(grouped(scan("a"), None, call("Count", "a_x"), call("Max", "a_x", 1)), a=[(1, 2)])
    table.refresh({"a": [((1, 2), -1)]})
    assert table.rows() == {(0, None): 1}
    table.refresh({"a": [((1, 3), 1)]})
    assert table.rows() == {(1, 3): 1}


@pytest.mark.parametrize(
    ("rows", "change", "maximum"),
    [
        ([3], {3: -1, 0: 1}, 0),
        ([3, 3], {3: -1}, 3),
        ([3, 1], {3: -1, 2: 1}, 2),
        ([3, 1], {3: -1, 9: 1}, 9),
        ([3, 1], {1: -1}, 3),
        ([3, None], {3: -1}, None),
        ([None], {None: -1, 1: 1}, 1),
    ],
)
def test_a_lost_extremum_is_looked_up_again(
    rows: list[int | None], change: dict[int | None, int], maximum: int | None
) -> None:
    table = kept(grouped(scan("a"), "a_g", call("Max", "a_x")), a=[(7, x) for x in rows])
    table.refresh({"a": [((7, x), w) for x, w in change.items()]})
    assert table.rows() == {(7, maximum): 1}


def test_a_group_whose_values_stay_the_same_is_not_rewritten() -> None:
    table = kept(grouped(scan("a"), "a_g", call("Max", "a_x")), a=[(1, 2), (1, 0)])
    delta = table.refresh({"a": [((1, 0), -1), ((1, 0), 1)]})
    assert delta.get("", Counter()) == {}


# Programs ------------------------------------------------------------------------------------------------------------


def program_of(query: p.Plan, *changed: str, insert_only: bool = False) -> list[tuple[StepKind, bool]]:
    nodes = split(query, query.columns, differential=True)
    sources = frozenset(changed)
    program = differential(nodes, Changed(sources, sources if insert_only else frozenset()))
    return [(s.kind, s.consolidated) for s in program.steps]


def test_a_source_that_did_not_change_costs_no_step() -> None:
    assert program_of(grouped(scan("a"), "a_g", call("Count", "a_x")), "b") == []


def test_insertions_alone_need_no_consolidation() -> None:
    narrow = p.project(scan("a"), [p.Item("a_x")])
    assert program_of(narrow, "a", insert_only=True) == [(StepKind.RESULT, True)]
    assert program_of(narrow, "a") == [(StepKind.RESULT, False)]


def test_a_join_of_two_growing_tables_is_consolidated() -> None:
    """Its before-state is the after-state minus the change, so the terms hold removals that cancel only in sum."""
    join = p.InnerJoin((*scan("a").columns, *scan("c").columns), (scan("a"), scan("c")), ())
    assert program_of(join, "a", insert_only=True)[-1] == (StepKind.RESULT, True)
    assert program_of(join, "a", "c", insert_only=True)[-1] == (StepKind.RESULT, False)
