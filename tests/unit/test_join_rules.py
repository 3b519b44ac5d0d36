"""Outer, semi, anti, existence and single joins on DuckDB: the traps of their rules, one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duckdb
import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.derive import Changed, differential
from freshlake.compiler.passes import swap_right_joins
from freshlake.compiler.passes.drop_empty import drop_empty
from freshlake.compiler.program import StepKind
from freshlake.compiler.rules import JOINS
from freshlake.compiler.rules.matches import TOO_MANY
from freshlake.compiler.split import split
from freshlake.compiler.support import reasons
from freshlake.compiler.walk import nodes
from tests.property.duck import Maintained, Row

SOURCES = {"l": ("k", "x"), "r": ("k", "y")}
Weighted = list[tuple[Row, int]]


def scan(source: str) -> p.Scan:
    fields = SOURCES[source]
    return p.Scan(tuple(p.Column(f"{source}_{f}", "long") for f in fields), source, fields)


L, R = scan("l"), scan("r")
EQUAL = p.Expr("l_k = r_k", ("l_k", "r_k"), equality=("l_k", "r_k"))
LESS = p.text("l_x < r_y", "l_x", "r_y")
NULL_SAFE = p.Expr("l_k <=> r_k", ("l_k", "r_k"), same=("l_k", "r_k"))
UNKNOWN_COUNTS = p.text("(l_k = r_k) or (l_k = r_k) is null", "l_k", "r_k")
NOT_IN = replace(UNKNOWN_COUNTS, not_false=EQUAL)
SAME = p.text("l_k = r_k or false", "l_k", "r_k")
"""An equality that is not known as one, so matches are counted row by row."""


def join(kind: str, *on: p.Expr) -> p.Join:
    if kind == "Existence":
        return p.Join((*L.columns, p.Column("found", "boolean")), (L, R), kind, on, "found")
    both = () if kind in ("LeftSemi", "LeftAnti") else R.columns
    return p.Join((*L.columns, *both), (L, R), kind, on)


def kept(query: p.Plan, left: list[Row], right: list[Row]) -> Maintained:
    return Maintained(query, {"l": (SOURCES["l"], Counter(left)), "r": (SOURCES["r"], Counter(right))})


def change(table: Maintained, left: Weighted | None = None, right: Weighted | None = None) -> Counter[Row]:
    """One refresh, compared with the query; what it changed."""
    changes = {n: rows for n, rows in (("l", left), ("r", right)) if rows is not None}
    delta = table.refresh(changes).get("", Counter())
    assert table.rows() == table.expected()
    return delta


ON = pytest.mark.parametrize("on", [EQUAL, SAME], ids=["by keys", "by rows"])


@ON
class TestTurns:
    def test_only_the_first_match_and_the_last_count(self, on: p.Expr) -> None:
        table = kept(join("LeftSemi", on), [(1, 5)], [])
        assert change(table, right=[((1, 7), 1)]) == {(1, 5): 1}
        assert change(table, right=[((1, 8), 1)]) == {}
        assert change(table, right=[((1, 7), -1)]) == {}
        assert change(table, right=[((1, 8), -1)]) == {(1, 5): -1}

    def test_a_match_replaced_by_another_changes_nothing(self, on: p.Expr) -> None:
        for kind in ("LeftSemi", "LeftAnti", "Existence"):
            table = kept(join(kind, on), [(1, 5), (2, 6)], [(1, 7)])
            assert change(table, right=[((1, 7), -1), ((1, 8), 1)]) == {}

    def test_a_row_that_comes_with_its_match_is_counted_once(self, on: p.Expr) -> None:
        table = kept(join("LeftSemi", on), [(1, 5)], [])
        assert change(table, [((1, 6), 1)], [((1, 7), 1)]) == {(1, 5): 1, (1, 6): 1}

    def test_a_row_that_leaves_as_its_match_comes_is_removed_as_it_was(self, on: p.Expr) -> None:
        table = kept(join("LeftOuter", on), [(1, 5)], [])
        assert change(table, [((1, 5), -1)], [((1, 7), 1)]) == {(1, 5, None, None): -1}

    def test_all_matches_going_leave_padding(self, on: p.Expr) -> None:
        table = kept(join("LeftOuter", on), [(1, 5), (1, 5)], [(1, 7), (1, 7)])
        assert change(table, right=[((1, 7), -2)]) == {(1, 5, 1, 7): -4, (1, 5, None, None): 2}

    def test_a_match_of_nothing_but_nulls_is_not_padding(self, on: p.Expr) -> None:
        shown = p.project(join("LeftOuter", on), [p.Item("l_k"), p.Item("r_y")])
        table = kept(shown, [(1, 5), (2, 5)], [(1, None)])
        assert change(table, right=[((1, None), -1)]) == {}
        assert change(table, right=[((2, None), 2)]) == {(2, None): 1}

    def test_null_keys_match_nothing(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(None, 5)], [(None, 1)])
        assert change(table, right=[((None, 2), 1)]) == {}
        assert change(table, left=[((None, 6), 1)]) == {(None, 6): 1}
        full = kept(join("FullOuter", on), [(None, 5)], [])
        assert change(full, right=[((None, 2), 1)]) == {(None, None, None, 2): 1}

    def test_both_pads_of_a_full_join_give_way_to_the_match(self, on: p.Expr) -> None:
        table = kept(join("FullOuter", on), [(1, 5)], [(2, 7)])
        assert table.rows() == {(1, 5, None, None): 1, (None, None, 2, 7): 1}
        moved = change(table, [((2, 6), 1)], [((1, 8), 1)])
        assert moved == {(1, 5, None, None): -1, (None, None, 2, 7): -1, (2, 6, 2, 7): 1, (1, 5, 1, 8): 1}

    def test_a_flag_turns_by_replacing_the_row(self, on: p.Expr) -> None:
        table = kept(join("Existence", on), [(1, 5)], [])
        assert change(table, right=[((1, 7), 3)]) == {(1, 5, False): -1, (1, 5, True): 1}

    def test_a_condition_on_the_left_alone_decides_which_rows_turn(self, on: p.Expr) -> None:
        small = p.text("l_x < 6", "l_x")
        for kind in ("LeftOuter", "FullOuter"):
            table = kept(join(kind, on, small), [(1, 5), (1, 6)], [(1, 7)])
            moved = change(table, right=[((1, 7), -1)])
            assert (moved[1, 6, None, None], moved[1, 5, None, None]) == (0, 1)

    def test_a_condition_on_the_right_alone_decides_which_matches_count(self, on: p.Expr) -> None:
        large = p.text("r_y > 6", "r_y")
        table = kept(join("FullOuter", on, large), [(1, 5)], [(1, 7), (1, 6)])
        assert change(table, right=[((1, 7), -1)]) == {(1, 5, 1, 7): -1, (1, 5, None, None): 1}

    def test_a_right_join_keeps_the_right_rows(self, on: p.Expr) -> None:
        table = kept(join("RightOuter", on), [(1, 5)], [(1, 7), (2, 8)])
        assert table.rows() == {(1, 5, 1, 7): 1, (None, None, 2, 8): 1}
        assert change(table, [((1, 5), -1), ((2, 6), 1)]) == {
            (1, 5, 1, 7): -1,
            (None, None, 2, 8): -1,
            (None, None, 1, 7): 1,
            (2, 6, 2, 8): 1,
        }


def test_null_keys_match_each_other_by_null_safe_equality() -> None:
    for kind in ("LeftSemi", "LeftOuter", "FullOuter"):
        table = kept(join(kind, NULL_SAFE), [(None, 5), (1, 6)], [])
        moved = change(table, right=[((None, 2), 1)])
        assert moved[(None, 5) if kind == "LeftSemi" else (None, 5, None, 2)] == 1
        assert change(table, right=[((None, 3), 1), ((None, 2), -1)])[None, 5] == 0


@pytest.mark.parametrize("on", [NOT_IN, UNKNOWN_COUNTS], ids=["by NULLs", "by rows"])
class TestNotIn:
    def test_a_null_on_the_right_empties_the_result_and_its_leaving_restores_it(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(1, 5), (2, 6), (None, 7)], [(1, 0)])
        assert table.rows() == {(2, 6): 1}
        assert change(table, right=[((None, 0), 1)]) == {(2, 6): -1}
        assert change(table, right=[((None, 0), -1)]) == {(2, 6): 1}

    def test_a_null_on_the_left_stays_only_while_the_right_is_empty(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(None, 5)], [])
        assert table.rows() == {(None, 5): 1}
        assert change(table, right=[((9, 9), 1)]) == {(None, 5): -1}
        assert change(table, right=[((9, 9), -1)]) == {(None, 5): 1}

    def test_a_null_that_comes_or_goes_with_the_value_itself(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(1, 5), (2, 6), (None, 7)], [(1, 0)])
        assert change(table, right=[((None, 0), 1), ((1, 0), -1), ((2, 0), 1)]) == {(2, 6): -1}
        assert change(table, right=[((None, 0), -1), ((2, 0), -1), ((1, 0), 1)]) == {(2, 6): 1}
        assert change(table, right=[((None, 0), 1), ((1, 0), -1)]) == {(2, 6): -1}
        assert change(table, right=[((None, 0), -1)]) == {(1, 5): 1, (2, 6): 1, (None, 7): 1}
        assert change(table, right=[((None, 3), 1), ((None, 3), -1)]) == {}

    def test_values_that_come_and_go_beside_a_null_change_nothing(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(1, 5), (2, 6), (None, 7)], [(None, 0)])
        assert change(table, right=[((1, 0), 1)]) == {}
        assert change(table, right=[((None, 0), -1), ((None, 1), 1), ((1, 0), -1)]) == {}
        assert change(table, right=[((None, 1), -1)]) == {(1, 5): 1, (2, 6): 1, (None, 7): 1}

    def test_rows_on_the_left_come_and_go_with_everything_else(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on), [(1, 5), (None, 7)], [])
        assert change(table, [((1, 5), -1), ((2, 6), 1)], [((None, 0), 1)]) == {(1, 5): -1, (None, 7): -1}
        assert change(table, [((3, 1), 1), ((None, 1), 1), ((None, 7), -1)]) == {}
        assert change(table, [((3, 1), -1)], [((None, 0), -1)]) == {(2, 6): 1, (None, 1): 1}

    def test_a_condition_on_the_left_alone_decides_who_can_match(self, on: p.Expr) -> None:
        table = kept(join("LeftAnti", on, p.text("l_x < 6", "l_x")), [(1, 5), (2, 6), (None, 7), (None, 1)], [])
        assert change(table, right=[((1, 0), 1)]) == {(1, 5): -1, (None, 1): -1}
        assert change(table, right=[((None, 0), 1)]) == {}
        assert change(table, right=[((1, 0), -1)]) == {}
        assert change(table, right=[((None, 0), -1)]) == {(1, 5): 1, (None, 1): 1}

    def test_a_flag_turns_too(self, on: p.Expr) -> None:
        table = kept(join("Existence", on), [(1, 5), (None, 7)], [])
        assert change(table, right=[((2, 0), 1)]) == {(None, 7, False): -1, (None, 7, True): 1}
        assert change(table, right=[((None, 0), 1)]) == {(1, 5, False): -1, (1, 5, True): 1}


@pytest.mark.parametrize("kind", ["LeftOuter", "RightOuter", "FullOuter"])
def test_an_outer_join_on_such_a_condition_shows_all_its_matches(kind: str) -> None:
    table = kept(swap_right_joins(join(kind, NOT_IN)), [(1, 5)], [(1, 0), (None, 1), (2, 2)])
    change(table, [((2, 6), 1), ((None, 7), 1)])
    change(table, [((1, 5), -1)], [((None, 1), -1), ((3, 3), 1)])


def test_a_condition_of_that_form_on_the_left_alone_is_one_on_the_left() -> None:
    same = p.Expr("l_k = l_x", ("l_k", "l_x"), equality=("l_k", "l_x"))
    own = replace(p.text("(l_k = l_x) or (l_k = l_x) is null", "l_k", "l_x"), not_false=same)
    table = kept(join("LeftAnti", NOT_IN, own), [(1, 1), (1, 2), (None, 3)], [])
    assert change(table, right=[((1, 0), 1)]) == {(1, 1): -1, (None, 3): -1}


def test_not_in_reads_the_left_side_only_at_keys_until_a_null_comes_or_goes() -> None:
    steps = differential(split(join("LeftAnti", NOT_IN), L.columns, True), Changed(frozenset("r"))).steps
    (last,) = [s.plan for s in steps if s.kind is StepKind.RESULT]

    def reads_left(*full: str) -> list[bool]:
        """Whether each read of L is by keys, where only these of the steps before have rows."""
        plan = drop_empty(last, lambda leaf: isinstance(leaf, p.Ref) and leaf.step not in full)
        return [bool(n.prune) for n in nodes(plan) if isinstance(n, p.State) and n.of == "l"] if plan else []

    counts, begins, voids, moved = (s.name for s in steps[:4])
    assert reads_left(counts) == []
    assert reads_left(counts, moved) == [True]
    assert reads_left(counts, begins) == [False]
    assert reads_left(counts, voids) == [False]


class TestOtherConditions:
    def test_without_a_condition_the_first_row_matches_all(self) -> None:
        table = kept(join("LeftOuter"), [(1, 5), (2, 6)], [])
        moved = change(table, right=[((7, 7), 1)])
        assert moved == {(1, 5, None, None): -1, (2, 6, None, None): -1, (1, 5, 7, 7): 1, (2, 6, 7, 7): 1}
        assert change(kept(join("LeftAnti"), [(1, 5)], [(1, 1), (2, 2)]), right=[((1, 1), -1)]) == {}

    def test_a_range_counts_the_matches_of_each_row(self) -> None:
        table = kept(join("LeftSemi", LESS), [(1, 1), (1, 5)], [(0, 3)])
        assert change(table, right=[((0, 6), 1)]) == {(1, 5): 1}
        assert change(table, right=[((0, 6), -1), ((0, 3), -1), ((0, 4), 1)]) == {(1, 5): -1}

    def test_an_equality_may_be_one_of_several_conditions(self) -> None:
        table = kept(join("LeftOuter", EQUAL, LESS), [(1, 1), (1, 5), (2, 1)], [(1, 3)])
        assert change(table, right=[((1, 3), -1), ((2, 2), 1)]) == {
            (1, 1, 1, 3): -1,
            (1, 1, None, None): 1,
            (2, 1, None, None): -1,
            (2, 1, 2, 2): 1,
        }

    @pytest.mark.parametrize("never", [p.text("1 = 2"), p.text("l_k is null and l_k > 0", "l_k")])
    def test_a_condition_that_is_never_true_always_pads(self, never: p.Expr) -> None:
        table = kept(join("LeftOuter", never), [(1, 5)], [(1, 7)])
        assert change(table, [((2, 6), 1)], [((1, 8), 1)]) == {(2, 6, None, None): 1}


class TestBelowOtherOperators:
    def test_groups_by_the_padded_side_are_recomputed_from_all_their_rows(self) -> None:
        """A key of NULL asks for padded rows, so rows of the right side may not be left out by it."""
        distinct = p.Call("n", "Mode", "count(distinct l_x)", "long", args=(p.column_expr("l_x"),), columns=("l_x",))
        for kind in ("LeftOuter", "FullOuter"):
            outer = join(kind, EQUAL)
            groups = p.Aggregate((p.Column("r_k", "long"), p.Column("n", "long")), outer, (p.Item("r_k"),), (distinct,))
            table = kept(groups, [(1, 5), (2, 6)], [(1, 7)])
            assert change(table, left=[((3, 8), 1)]) == {(None, 1): -1, (None, 2): 1}
            assert change(table, right=[((2, 9), 1)]) == {(None, 2): -1, (None, 1): 1, (2, 1): 1}

    def test_a_filter_sees_the_padding(self) -> None:
        unmatched = p.Filter(
            join("LeftOuter", EQUAL).columns, join("LeftOuter", EQUAL), (p.text("r_k is null", "r_k"),)
        )
        table = kept(unmatched, [(1, 5), (2, 6)], [(1, 7)])
        assert table.rows() == table.expected() == {(2, 6, None, None): 1}
        assert change(table, right=[((1, 7), -1)]) == {(1, 5, None, None): 1}

    def test_a_chain_pads_through_both_joins(self) -> None:
        twice = p.Scan((p.Column("t_k", "long"), p.Column("t_y", "long")), "r", SOURCES["r"])
        tie = p.Expr("r_y = t_k", ("r_y", "t_k"), equality=("r_y", "t_k"))
        inner = join("LeftOuter", EQUAL)
        chain = p.Join((*inner.columns, *twice.columns), (inner, twice), "LeftOuter", (tie,))
        table = kept(chain, [(1, 5)], [(1, 2)])
        assert table.rows() == {(1, 5, 1, 2, None, None): 1}
        assert change(table, right=[((2, 3), 1)]) == {(1, 5, 1, 2, None, None): -1, (1, 5, 1, 2, 2, 3): 1}
        assert change(table, right=[((1, 2), -1)]) == {(1, 5, 1, 2, 2, 3): -1, (1, 5, None, None, None, None): 1}


@pytest.mark.parametrize("on", [(), (EQUAL,), (SAME,)], ids=["no condition", "by keys", "by rows"])
class TestSingle:
    def test_the_value_of_a_subquery_may_change_come_and_go(self, on: tuple[p.Expr, ...]) -> None:
        table = kept(join("LeftSingle", *on), [(1, 5)], [(1, 7)])
        assert change(table, right=[((1, 7), -1), ((1, 8), 1)]) == {(1, 5, 1, 7): -1, (1, 5, 1, 8): 1}
        assert change(table, right=[((1, 8), -1)]) == {(1, 5, 1, 8): -1, (1, 5, None, None): 1}

    def test_a_second_row_is_an_error_wherever_it_comes_from(self, on: tuple[p.Expr, ...]) -> None:
        table = kept(join("LeftSingle", *on), [(1, 5), (1, 5)], [(1, 7)])
        with pytest.raises(duckdb.Error, match=TOO_MANY):
            table.refresh({"r": [((1, 8), 1)]})
        table = kept(join("LeftSingle", *on), [], [(1, 7), (1, 8)])
        with pytest.raises(duckdb.Error, match="more than one row"):
            table.refresh({"l": [((1, 5), 1)]})

    def test_copies_of_a_left_row_are_no_second_row(self, on: tuple[p.Expr, ...]) -> None:
        table = kept(join("LeftSingle", *on), [(1, 5), (1, 5), (1, 6)], [])
        assert change(table, right=[((1, 7), 1)])[1, 5, 1, 7] == 2


def test_a_second_row_that_no_left_row_matches_is_no_error() -> None:
    table = kept(join("LeftSingle", EQUAL), [(1, 5)], [(2, 7)])
    assert change(table, right=[((2, 8), 1)]) == {}


# Programs ------------------------------------------------------------------------------------------------------------


def program(query: p.Plan, changed: str, insert_only: bool = True) -> list[tuple[StepKind, bool]]:
    names = frozenset(changed)
    steps = differential(split(query, query.columns, True), Changed(names, names if insert_only else frozenset())).steps
    return [(s.kind, s.consolidated) for s in steps]


@pytest.mark.parametrize("kind", sorted(JOINS))
def test_insertions_on_the_right_may_remove_rows(kind: str) -> None:
    assert program(join(kind, EQUAL), "r")[-1] == (StepKind.RESULT, False)


@pytest.mark.parametrize("kind", sorted(JOINS))
def test_insertions_on_the_left_only_add_rows_except_in_a_full_join(kind: str) -> None:
    assert program(join(kind, EQUAL), "l")[-1] == (StepKind.RESULT, kind != "FullOuter")


@pytest.mark.parametrize(("kind", "on"), [(k, e) for k in sorted(JOINS) for e in (EQUAL, LESS)])
def test_a_change_of_the_left_alone_is_one_step(kind: str, on: p.Expr) -> None:
    steps = program(join(kind, on), "l")
    assert len(steps) == (2 if kind == "FullOuter" else 1)


def states(query: p.Plan, changed: str) -> dict[str, set[str]]:
    """Source → the steps or changes whose keys restrict what is read of it."""
    found: dict[str, set[str]] = {}
    for step in differential(split(query, query.columns, True), Changed(frozenset(changed))).steps:
        for leaf in nodes(step.plan):
            if isinstance(leaf, p.State):
                found.setdefault(leaf.of, set()).update(h.ref for h in leaf.prune or (p.Prune("", "everything", ""),))
    return found


@pytest.mark.parametrize("kind", sorted(set(JOINS) - {"FullOuter"}))
def test_only_what_can_match_is_read(kind: str) -> None:
    assert states(join(kind, EQUAL), "l") == {"r": {"delta:l:k,x"}}
    read = states(join(kind, EQUAL), "r")
    assert read["r"] == {"delta:r:k,y"}
    assert read["l"] == ({"delta:r:k,y", "s1"} if kind in ("LeftOuter", "LeftSingle") else {"s1"})


def test_a_condition_over_a_map_has_no_rule_unless_it_is_an_equality_of_other_columns() -> None:
    left = p.Scan((p.Column("m", '{"type": "map"}'), p.Column("l_k", "long")), "l", ("m", "k"))
    by_map = p.Join(left.columns, (left, R), "LeftSemi", (p.text("m['a'] = r_k", "m", "r_k"),))
    by_key = p.Join(left.columns, (left, R), "LeftSemi", (EQUAL,))
    assert [r.code for r in reasons(by_map)] == ["not-differentiable"]
    assert reasons(by_key) == ()


def test_a_right_join_becomes_a_left_join_with_the_columns_in_order() -> None:
    swapped = swap_right_joins(join("RightOuter", EQUAL))
    assert swapped.names == (*L.names, *R.names)
    (below,) = swapped.children
    assert isinstance(below, p.Join)
    assert (below.kind, below.inputs) == ("LeftOuter", (R, L))
