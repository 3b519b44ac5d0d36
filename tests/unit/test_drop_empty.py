"""Parts that an empty change cannot contribute to are left out, and nothing else is."""

from __future__ import annotations

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.passes.drop_empty import drop_empty

A, B, W = p.Column("a", "long"), p.Column("b", "long"), p.Column(p.WEIGHT, "long")
EMPTY, FULL = p.Delta((A, W), "empty", ("a",)), p.Delta((A, W), "full", ("a",))
NO_ROWS, SOME_ROWS = p.Ref((B,), "empty"), p.Ref((B,), "full")
STATE = p.State((B,), "table", ("b",), p.When.AFTER)


def is_empty(leaf: p.Plan) -> bool:
    return (leaf.source if isinstance(leaf, p.Delta) else getattr(leaf, "step", "")) == "empty"


def dropped(plan: p.Plan) -> p.Plan | None:
    return drop_empty(plan, is_empty)


def project(child: p.Plan) -> p.Plan:
    return p.project(child, [p.Item("a")])


def condition(child: p.Plan) -> p.Plan:
    return p.Filter(child.columns, child, (p.text("a > 1", "a"),))


def join(*inputs: p.Plan) -> p.Plan:
    return p.InnerJoin(tuple(c for i in inputs for c in i.columns), inputs, ())


def group(child: p.Plan, *keys: str) -> p.Plan:
    return p.Group((A,), child, keys, (p.Item("n", p.text("sum(1)")),))


@pytest.mark.parametrize(
    "plan",
    [
        EMPTY,
        project(EMPTY),
        condition(project(EMPTY)),
        join(EMPTY, STATE),
        join(STATE, EMPTY),
        join(FULL, STATE, project(EMPTY)),
        p.SemiJoin(STATE.columns, (STATE, NO_ROWS), (("b", "b"),)),
        p.SemiJoin(NO_ROWS.columns, (NO_ROWS, SOME_ROWS), (("b", "b"),)),
        p.Union(EMPTY.columns, (EMPTY, project(EMPTY))),
        p.Union(EMPTY.columns, (join(EMPTY, STATE), join(STATE, EMPTY))),
        group(EMPTY, "a"),
        p.Aggregate((A,), EMPTY, (p.Item("a"),), ()),
    ],
)
def test_an_operator_over_nothing_is_nothing(plan: p.Plan) -> None:
    assert dropped(plan) is None


@pytest.mark.parametrize(
    "plan",
    [
        FULL,
        project(FULL),
        join(FULL, STATE),
        p.SemiJoin(STATE.columns, (STATE, SOME_ROWS), (("b", "b"),)),
        p.Union(FULL.columns, (FULL, project(FULL))),
        group(FULL, "a"),
        STATE,
        p.Values((A,), "one row"),
    ],
)
def test_what_has_rows_stays_as_it_is(plan: p.Plan) -> None:
    assert dropped(plan) == plan


def test_a_union_loses_only_its_empty_branches() -> None:
    rest = join(FULL, STATE)
    plan = p.Union(FULL.columns, (join(EMPTY, STATE), rest, project(EMPTY)))
    assert dropped(plan) == p.Union(FULL.columns, (rest,))
    assert dropped(project(plan)) == project(p.Union(FULL.columns, (rest,)))


@pytest.mark.parametrize("plan", [group(EMPTY), p.Aggregate((), EMPTY, (), ())])
def test_an_aggregation_without_keys_has_a_row_even_over_nothing(plan: p.Plan) -> None:
    assert dropped(plan) == plan


def test_a_stored_table_is_never_taken_for_empty() -> None:
    assert drop_empty(STATE, lambda _: True) == STATE


def other(kind: str, left: p.Plan, right: p.Plan) -> p.Join:
    both = () if kind in ("LeftSemi", "LeftAnti") else right.columns
    return p.Join((*left.columns, *both), (left, right), kind, (p.text("a = b", "a", "b"),))


@pytest.mark.parametrize("kind", ["LeftOuter", "LeftSingle", "LeftSemi", "LeftAnti", "Existence"])
def test_a_join_without_left_rows_is_nothing(kind: str) -> None:
    assert dropped(other(kind, EMPTY, STATE)) is None
    assert dropped(other(kind, FULL, STATE)) == other(kind, FULL, STATE)


@pytest.mark.parametrize("kind", ["LeftOuter", "LeftSingle", "Existence"])
def test_left_rows_stay_though_nothing_can_match(kind: str) -> None:
    assert dropped(other(kind, FULL, NO_ROWS)) == other(kind, FULL, NO_ROWS)


def test_without_right_rows_an_anti_join_is_its_left_side_and_a_semi_join_is_nothing() -> None:
    assert dropped(other("LeftAnti", FULL, NO_ROWS)) == FULL
    assert dropped(other("LeftSemi", FULL, NO_ROWS)) is None


def test_a_full_join_is_empty_only_when_both_sides_are() -> None:
    assert dropped(other("FullOuter", EMPTY, SOME_ROWS)) == other("FullOuter", EMPTY, SOME_ROWS)
    assert dropped(other("FullOuter", FULL, NO_ROWS)) == other("FullOuter", FULL, NO_ROWS)
    assert dropped(other("FullOuter", EMPTY, NO_ROWS)) is None
