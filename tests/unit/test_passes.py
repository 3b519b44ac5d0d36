"""The passes keep the meaning of a plan: what they may move, and what they must leave where it is."""

from __future__ import annotations

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.passes import PASSES, complete_orders, drop_sorts, find_top_k, flatten_joins, prune_columns
from freshlake.compiler.restrict import prune_by, restrict
from freshlake.compiler.split import split
from freshlake.compiler.walk import nodes


def scan(source: str, *fields: str) -> p.Scan:
    return p.Scan(tuple(p.Column(f"{source}_{f}", "long") for f in fields), source, fields)


A, B, C = scan("a", "k", "x"), scan("b", "k", "y"), scan("c", "k", "z")


def join(*inputs: p.Plan, on: tuple[p.Expr, ...] = ()) -> p.InnerJoin:
    return p.InnerJoin(tuple(c for i in inputs for c in i.columns), inputs, on)


def other(kind: str, left: p.Plan, right: p.Plan, *on: p.Expr) -> p.Join:
    both = () if kind in ("LeftSemi", "LeftAnti") else right.columns
    return p.Join((*left.columns, *both), (left, right), kind, on)


def equal(left: str, right: str) -> p.Expr:
    return p.Expr(f"{left} = {right}", (left, right), equality=(left, right))


def where(child: p.Plan, *conditions: p.Expr) -> p.Filter:
    return p.Filter(child.columns, child, conditions)


def keep(child: p.Plan, *names: str) -> p.Project:
    return p.project(child, [p.Item(n) for n in names])


def of_kind(plan: p.Plan, kind: type[p.Plan]) -> list[p.Plan]:
    return [n for n in nodes(plan) if isinstance(n, kind)]


SETS = p.Expand(
    (*A.columns, p.Column("g", "long"), p.Column("n", "long")),
    A,
    (
        (p.column_expr("a_k"), p.column_expr("a_x"), p.column_expr("a_k"), p.text("0")),
        (p.column_expr("a_k"), p.column_expr("a_x"), p.text("null"), p.text("1")),
    ),
)
AB, BC = equal("a_k", "b_k"), equal("b_k", "c_k")
ON_A, ON_B = p.text("a_x > 1", "a_x"), p.text("b_y is null", "b_y")


class TestFlattenJoins:
    def test_nested_joins_become_one(self) -> None:
        flat = flatten_joins(join(join(A, B, on=(AB,)), C, on=(BC,)))
        assert isinstance(flat, p.InnerJoin)
        assert (flat.inputs, flat.on) == ((A, B, C), (AB, BC))

    def test_a_condition_on_one_input_moves_onto_it(self) -> None:
        flat = flatten_joins(where(join(A, B, on=(AB,)), ON_B, ON_A))
        assert isinstance(flat, p.InnerJoin)
        assert (flat.inputs, flat.on) == ((where(A, ON_A), where(B, ON_B)), (AB,))

    def test_joins_are_found_below_projections_that_only_drop_columns(self) -> None:
        flat = flatten_joins(join(keep(join(A, B, on=(AB,)), "a_x", "b_k"), C, on=(BC,)))
        (only,) = of_kind(flat, p.InnerJoin)
        assert only.children == (A, B, C)
        assert flat.names == ("a_x", "b_k", "c_k", "c_z")

    def test_a_computed_column_keeps_its_projection(self) -> None:
        computed = p.project(join(A, B, on=(AB,)), [p.Item("sum", p.text("a_x + b_y", "a_x", "b_y"))])
        flat = flatten_joins(join(computed, C))
        assert len(of_kind(flat, p.InnerJoin)) == 2

    def test_a_filter_does_not_move_below_the_column_it_reads(self) -> None:
        computed = p.project(A, [p.Item("twice", p.text("a_x * 2", "a_x")), p.Item("a_k")])
        reads_new = where(computed, p.text("twice > 2", "twice"))
        assert flatten_joins(reads_new) == reads_new
        moved = flatten_joins(where(computed, p.text("a_k > 2", "a_k")))
        assert isinstance(moved, p.Project)
        assert isinstance(moved.child, p.Filter)

    def test_a_filter_does_not_move_below_an_aggregate(self) -> None:
        total = p.Aggregate((p.Column("a_k", "long"),), A, (p.Item("a_k"),), ())
        having = where(total, p.text("a_k > 2", "a_k"))
        assert flatten_joins(having) == having

    def test_two_readings_of_one_plan_do_not_mix_their_columns(self) -> None:
        """Both sides of a self join of a common table expression have the same columns inside."""
        inner = join(A, B, on=(AB,))
        left = p.project(inner, [p.Item("l", p.column_expr("a_x"))])
        right = p.project(inner, [p.Item("r", p.column_expr("a_x"))])
        flat = flatten_joins(join(left, right, on=(equal("l", "r"),)))
        assert isinstance(flat, p.InnerJoin)
        assert [i.names for i in flat.inputs] == [("l",), ("r",)]

    def test_inputs_whose_columns_would_clash_stay_apart(self) -> None:
        twice = join(keep(join(A, B), "a_x"), keep(join(A, C), "a_k"))
        names = [n for i in flatten_joins(twice).children for n in i.names]
        assert len(names) == len(set(names))

    def test_a_condition_without_columns_is_kept(self) -> None:
        never = p.text("1 = 2")
        flat = flatten_joins(where(join(A, B), never))
        assert isinstance(flat, p.InnerJoin)
        assert flat.on == (never,)


KEEPING = pytest.mark.parametrize("kind", ["LeftOuter", "LeftSingle", "LeftSemi", "LeftAnti"])


class TestConditionsOfOtherJoins:
    @KEEPING
    def test_a_filter_on_the_kept_side_moves_onto_it(self, kind: str) -> None:
        assert flatten_joins(where(other(kind, A, B, AB), ON_A)) == other(kind, where(A, ON_A), B, AB)

    def test_a_filter_that_sees_padding_stays_above(self) -> None:
        left = where(other("LeftOuter", A, B, AB), ON_B, ON_A)
        assert flatten_joins(left) == where(other("LeftOuter", where(A, ON_A), B, AB), ON_B)
        full = where(other("FullOuter", A, B, AB), ON_A, ON_B)
        assert flatten_joins(full) == full

    @KEEPING
    def test_a_condition_on_the_right_alone_moves_there(self, kind: str) -> None:
        assert flatten_joins(other(kind, A, B, AB, ON_B)) == other(kind, A, where(B, ON_B), AB)

    def test_a_condition_on_the_left_alone_stays_where_it_pads(self) -> None:
        for kind in ("LeftOuter", "LeftAnti", "LeftSingle", "FullOuter"):
            assert flatten_joins(other(kind, A, B, AB, ON_A)) == other(kind, A, B, AB, ON_A)
        assert flatten_joins(other("LeftSemi", A, B, AB, ON_A)) == other("LeftSemi", where(A, ON_A), B, AB)

    def test_conditions_of_a_full_join_stay(self) -> None:
        assert flatten_joins(other("FullOuter", A, B, AB, ON_B)) == other("FullOuter", A, B, AB, ON_B)


class TestPruneColumns:
    def test_scans_keep_what_is_read(self) -> None:
        pruned = prune_columns(keep(where(A, ON_A), "a_k"))
        (leaf,) = of_kind(pruned, p.Scan)
        assert leaf.names == ("a_k", "a_x")
        (leaf,) = of_kind(prune_columns(keep(A, "a_x")), p.Scan)
        assert isinstance(leaf, p.Scan)
        assert (leaf.names, leaf.fields) == (("a_x",), ("x",))

    def test_join_conditions_are_read(self) -> None:
        pruned = prune_columns(keep(join(A, B, on=(AB,)), "a_x"))
        assert [s.names for s in of_kind(pruned, p.Scan)] == [("a_k", "a_x"), ("b_k",)]

    def test_a_table_that_is_only_counted_keeps_one_column(self) -> None:
        pruned = prune_columns(keep(join(A, B), "a_x"))
        assert [s.names for s in of_kind(pruned, p.Scan)] == [("a_x",), ("b_k",)]

    def test_group_keys_stay_though_nobody_reads_them(self) -> None:
        count = p.Call("n", "Count", "count(1)", "long", slot=0)
        top = p.Call("m", "Max", "max(a_x)", "long", slot=1, columns=("a_x",))
        total = p.Aggregate(
            (p.Column("a_k", "long"), p.Column("n", "long"), p.Column("m", "long")), A, (p.Item("a_k"),), (count, top)
        )
        pruned = prune_columns(keep(total, "n"))
        (kept,) = of_kind(pruned, p.Aggregate)
        assert isinstance(kept, p.Aggregate)
        assert (kept.keys, kept.calls, kept.names) == ((p.Item("a_k"),), (count,), ("a_k", "n"))
        assert of_kind(pruned, p.Scan)[0].names == ("a_k",)

    def test_the_other_joins_keep_what_their_condition_reads(self) -> None:
        pruned = prune_columns(keep(other("LeftOuter", A, B, AB), "a_x"))
        assert [s.names for s in of_kind(pruned, p.Scan)] == [("a_k", "a_x"), ("b_k",)]
        (below,) = pruned.children
        assert below.names == ("a_k", "a_x", "b_k")
        (semi,) = prune_columns(keep(other("LeftAnti", A, B, AB), "a_x")).children
        assert semi.names == ("a_k", "a_x")

    def test_union_branches_lose_the_same_places(self) -> None:
        union = p.Union((p.Column("u", "long"), p.Column("v", "long")), (A, keep(B, "b_y", "b_k")))
        pruned = prune_columns(keep(union, "v"))
        (kept,) = of_kind(pruned, p.Union)
        assert kept.names == ("v",)
        assert [c.names for c in kept.children] == [("a_x",), ("b_k",)]

    def test_windows_keep_what_their_functions_read(self) -> None:
        wide = scan("a", "k", "x", "y", "z")
        items = (p.Item("r", p.text("max(a_y)", "a_y")), p.Item("s", p.text("max(a_z)", "a_z")))
        columns = (*wide.columns, p.Column("r", "long"), p.Column("s", "long"))
        both = p.Window(columns, wide, items, ("a_k",), BY_X)
        pruned = prune_columns(keep(both, "r"))
        assert of_kind(pruned, p.Scan)[0].names == ("a_k", "a_x", "a_y")
        assert of_kind(pruned, p.Window)[0].names == ("a_k", "a_x", "a_y", "r")

    def test_a_window_nobody_reads_is_gone(self) -> None:
        assert prune_columns(keep(window(A), "a_k")) == keep(scan("a", "k"), "a_k")

    def test_a_top_k_keeps_what_it_is_ordered_by(self) -> None:
        wide = scan("a", "k", "x", "y")
        pruned = prune_columns(keep(p.TopK(wide.columns, wide, BY_X, 0, 3), "a_k"))
        assert of_kind(pruned, p.Scan)[0].names == ("a_k", "a_x")

    def test_set_operations_keep_everything(self) -> None:
        both = p.SetOp(A.columns, (A, B), "Except", True)
        assert [s.names for s in of_kind(prune_columns(keep(both, "a_x")), p.Scan)] == [A.names, B.names]

    def test_generators_keep_what_they_read_and_all_they_make(self) -> None:
        wide, new = scan("a", "k", "x", "y"), (p.Column("i", "long"), p.Column("j", "long"))
        made = p.Generate((*wide.columns, *new), wide, p.text("posexplode(a_x)", "a_x"), False, ("i", "j"))
        pruned = prune_columns(keep(made, "a_k", "j"))
        assert of_kind(pruned, p.Scan)[0].names == ("a_k", "a_x")
        assert of_kind(pruned, p.Generate)[0].names == ("a_k", "a_x", "i", "j")

    def test_grouping_sets_lose_whole_places(self) -> None:
        pruned = prune_columns(keep(SETS, "g", "n"))
        (kept,) = of_kind(pruned, p.Expand)
        assert isinstance(kept, p.Expand)
        assert kept.names == ("g", "n")
        assert [[e.text for e in row] for row in kept.rows] == [["`a_k`", "0"], ["null", "1"]]
        assert of_kind(pruned, p.Scan)[0].names == ("a_k",)


BY_X = (p.Order(p.text("a_x", "a_x")),)


def by_x(child: p.Plan) -> p.Sort:
    return p.Sort(child.columns, child, BY_X, True)


def first(child: p.Plan, count: int) -> p.Limit:
    return p.Limit(child.columns, child, count)


def behind(child: p.Plan, count: int) -> p.Limit:
    return p.Limit(child.columns, child, count, offset=True)


class TestTopK:
    @pytest.mark.parametrize(
        ("cut", "start", "end"),
        [
            (first(by_x(A), 3), 0, 3),
            (behind(by_x(A), 2), 2, None),
            (first(behind(by_x(A), 2), 3), 2, 5),
            (behind(first(by_x(A), 5), 2), 2, 5),
            (behind(first(by_x(A), 2), 5), 2, 2),
            (first(first(by_x(A), 3), 7), 0, 3),
            (first(by_x(A), 0), 0, 0),
        ],
    )
    def test_a_cut_of_a_cut_is_one_cut(self, cut: p.Plan, start: int, end: int | None) -> None:
        assert find_top_k(cut) == p.TopK(A.columns, A, BY_X, start, end)

    def test_projections_between_order_and_limit_stay_above(self) -> None:
        assert find_top_k(first(keep(by_x(A), "a_k"), 3)) == keep(p.TopK(A.columns, A, BY_X, 0, 3), "a_k")

    def test_order_alone_means_nothing_for_a_bag(self) -> None:
        assert drop_sorts(where(by_x(A), ON_A)) == where(A, ON_A)

    def test_an_order_that_no_limit_reads_is_dropped_beside_one_that_is_read(self) -> None:
        plan = join(first(by_x(A), 3), by_x(by_x(B)))
        assert drop_sorts(find_top_k(plan)) == join(p.TopK(A.columns, A, BY_X, 0, 3), B)

    def test_an_order_below_a_top_k_is_dropped(self) -> None:
        assert drop_sorts(find_top_k(first(by_x(where(by_x(A), ON_A)), 3))) == p.TopK(
            A.columns, where(A, ON_A), BY_X, 0, 3
        )


def window(child: p.Plan, *, ties: bool = True, partition: tuple[str, ...] = ("a_k",)) -> p.Window:
    item = p.Item("r", p.Expr("row_number()", facts=frozenset({p.TIES} if ties else ())))
    return p.Window((*child.columns, p.Column("r", "long")), child, (item,), partition, ())


class TestPartsReadTwice:
    def test_they_keep_what_either_reader_needs_and_stay_one_part(self) -> None:
        """Numbers of tied rows would differ between two readers that break ties by different columns."""
        numbered = window(scan("a", "k", "x", "y", "z"))
        left = p.project(numbered, [p.Item("l", p.column_expr("r")), p.Item("lx", p.column_expr("a_x"))])
        right = p.project(numbered, [p.Item("rr", p.column_expr("r")), p.Item("ry", p.column_expr("a_y"))])
        plan = join(left, right, on=(p.text("l = rr + 1", "l", "rr"),))
        for rewrite in PASSES:
            plan = rewrite(plan)
        first, second = of_kind(plan, p.Window)
        assert first is second
        assert first.names == ("a_k", "a_x", "a_y", "r")
        assert len(split(plan, plan.columns, differential=True)) == 2

    def test_what_one_reader_filters_the_other_keeps(self) -> None:
        both = join(keep(where(A, ON_A), "a_x"), p.project(A, [p.Item("k2", p.column_expr("a_k"))]))
        pruned = prune_columns(flatten_joins(both))
        assert len({id(s) for s in of_kind(pruned, p.Scan)}) == 1
        assert len(of_kind(pruned, p.Filter)) == 1


class TestCompleteOrders:
    def test_the_rest_of_the_row_decides_ties(self) -> None:
        wide = scan("a", "k", "x", "y")
        top = p.TopK(wide.columns, wide, (p.Order(p.column_expr("a_x")),), 0, 3)
        done = complete_orders(top)
        assert isinstance(done, p.TopK)
        assert [o.expr.columns for o in done.ties] == [("a_k",), ("a_y",)]
        assert [o.expr.columns for o in complete_orders(window(wide)).ties] == [("a_x",), ("a_y",)]  # type: ignore[attr-defined]

    def test_zeros_of_both_signs_are_told_apart(self) -> None:
        column = p.Column("v", "double")
        top = p.TopK((column,), p.Scan((column,), "t", ("v",)), (p.Order(p.column_expr("v")),), 0, 1)
        assert [o.expr.text for o in complete_orders(top).ties] == ["cast(`v` as string)"]  # type: ignore[attr-defined]

    def test_functions_that_see_no_ties_need_no_further_order(self) -> None:
        assert complete_orders(window(A, ties=False)) == window(A, ties=False)

    def test_an_order_by_a_unique_key_is_complete(self) -> None:
        groups = p.Aggregate((p.Column("a_k", "long"), p.Column("n", "long")), A, (p.Item("a_k"),), ())
        renamed = p.project(groups, [p.Item("g", p.column_expr("a_k")), p.Item("n")])
        top = p.TopK(renamed.columns, renamed, (p.Order(p.column_expr("g")),), 0, 3)
        assert complete_orders(top) == top
        partial = p.TopK(renamed.columns, renamed, (p.Order(p.column_expr("n")),), 0, 3)
        assert [o.expr.columns for o in complete_orders(partial).ties] == [("g",)]  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("kind", "sorted_by"),
        [
            ("long", "`v`"),
            ("double", "cast(`v` as string)"),
            ("string collate UTF8_LCASE", "cast(`v` as binary)"),
            ("variant", "cast(`v` as string)"),
            ('{"type": "map", "keyType": "string", "valueType": "long"}', "cast(`v` as string)"),
            ('{"type": "array", "elementType": "double"}', "cast(`v` as string)"),
            ('{"type": "array", "elementType": "long"}', "`v`"),
        ],
    )
    def test_every_type_can_decide(self, kind: str, sorted_by: str) -> None:
        column = p.Column("v", kind)
        top = p.TopK((column,), p.Scan((column,), "t", ("v",)), (), 0, 1)
        assert [o.expr.text for o in complete_orders(top).ties] == [sorted_by]  # type: ignore[attr-defined]


def state(of: p.Scan) -> p.State:
    return p.State(of.columns, of.source, of.fields, p.When.AFTER)


KEYS = p.Ref((p.Column("k", "long"),), "s1")


def hints(plan: p.Plan) -> dict[str, list[tuple[str, str]]]:
    """Leaf → the (field, key) pairs it is restricted by."""
    return {n.of: [(h.field, h.key) for h in n.prune] for n in nodes(plan) if isinstance(n, p.State)}


class TestRestrict:
    def test_the_keys_are_always_applied_on_top(self) -> None:
        for plan in (state(A), keep(state(A), "a_k"), join(state(A), state(B), on=(AB,))):
            top = restrict(plan, KEYS, [("a_k", "k")])
            assert isinstance(top, p.SemiJoin)
            assert (top.names, top.inputs[1], top.pairs) == (plan.names, KEYS, (("a_k", "k"),))

    def test_no_keys_restrict_nothing(self) -> None:
        assert restrict(state(A), KEYS, []) == state(A)

    def test_keys_reach_a_leaf_through_filters_and_copied_columns(self) -> None:
        renamed = p.project(where(state(A), ON_A), [p.Item("g", p.column_expr("a_k"))])
        assert hints(restrict(renamed, KEYS, [("g", "k")])) == {"a": [("k", "k")]}

    def test_keys_stop_at_a_computed_column(self) -> None:
        computed = p.project(state(A), [p.Item("g", p.text("a_k % 2", "a_k"))])
        restricted = restrict(computed, KEYS, [("g", "k")])
        assert hints(restricted) == {"a": []}
        assert len(of_kind(restricted, p.SemiJoin)) == 1

    def test_an_equality_carries_keys_to_the_other_side(self) -> None:
        restricted = restrict(join(state(A), state(B), on=(AB,)), KEYS, [("a_k", "k")])
        assert hints(restricted) == {"a": [("k", "k")], "b": [("k", "k")]}

    @pytest.mark.parametrize("sign", ["<=>", "<", "<>"])
    def test_other_conditions_do_not(self, sign: str) -> None:
        tie = p.Expr(f"a_k {sign} b_k", ("a_k", "b_k"))
        restricted = restrict(join(state(A), state(B), on=(tie,)), KEYS, [("a_k", "k")])
        assert hints(restricted) == {"a": [("k", "k")], "b": []}

    def test_all_branches_of_a_union_are_restricted_by_position(self) -> None:
        union = p.Union((p.Column("u", "long"), p.Column("v", "long")), (state(A), keep(state(B), "b_y", "b_k")))
        assert hints(restrict(union, KEYS, [("u", "k")])) == {"a": [("k", "k")], "b": [("y", "k")]}

    @KEEPING
    def test_a_join_passes_keys_on_to_its_kept_side_and_to_tied_columns(self, kind: str) -> None:
        joined = other(kind, state(A), state(B), AB, ON_B)
        assert hints(restrict(joined, KEYS, [("a_k", "k")])) == {"a": [("k", "k")], "b": [("k", "k")]}
        assert hints(restrict(joined, KEYS, [("a_x", "k")])) == {"a": [("x", "k")], "b": []}

    def test_an_equality_of_two_left_columns_ties_nothing_in_an_outer_join(self) -> None:
        joined = other("LeftOuter", state(A), state(B), equal("a_k", "a_x"))
        assert hints(restrict(joined, KEYS, [("a_k", "k")])) == {"a": [("k", "k")], "b": []}

    @pytest.mark.parametrize(("kind", "column"), [("LeftOuter", "b_k"), ("FullOuter", "a_k"), ("FullOuter", "b_k")])
    def test_keys_of_a_padded_side_stay_above(self, kind: str, column: str) -> None:
        restricted = restrict(other(kind, state(A), state(B), AB), KEYS, [(column, "k")])
        assert hints(restricted) == {"a": [], "b": []}

    def test_keys_pass_an_aggregate_by_the_keys_of_its_groups(self) -> None:
        columns = (p.Column("g", "long"), p.Column("h", "long"), p.Column("n", "long"))
        call = p.Call("n", "Max", "max(a_x)", "long", columns=("a_x",))
        keys = (p.Item("g", p.column_expr("a_k")), p.Item("h", p.text("a_x % 2", "a_x")))
        total = p.Aggregate(columns, state(A), keys, (call,))
        assert hints(restrict(total, KEYS, [("g", "k")])) == {"a": [("k", "k")]}
        for computed in ("h", "n"):
            assert hints(restrict(total, KEYS, [(computed, "k")])) == {"a": []}

    def test_a_session_does_not_pass_because_it_is_merged_with_others(self) -> None:
        session = p.Column("a_k", "long", metadata='{"spark.sessionWindow": true}')
        total = p.Aggregate((session,), state(A), (p.Item("a_k"),), ())
        assert hints(restrict(total, KEYS, [("a_k", "k")])) == {"a": []}

    def test_keys_pass_the_groups_that_the_engine_makes(self) -> None:
        made = p.Group((A.columns[0], p.Column("n", "long")), state(A), ("a_k",), (p.Item("n", p.text("count(1)")),))
        assert hints(restrict(made, KEYS, [("a_k", "k")])) == {"a": [("k", "k")]}
        assert hints(restrict(made, KEYS, [("n", "k")])) == {"a": []}

    def test_keys_pass_a_window_by_its_partition_alone(self) -> None:
        items = (p.Item("r", p.text("row_number()")),)
        made = p.Window((*A.columns, p.Column("r", "integer")), state(A), items, ("a_k",), BY_X)
        assert hints(restrict(made, KEYS, [("a_k", "k")])) == {"a": [("k", "k")]}
        for other_column in ("a_x", "r"):
            assert hints(restrict(made, KEYS, [(other_column, "k")])) == {"a": []}

    def test_keys_pass_both_sides_of_a_set_operation_by_position(self) -> None:
        both = p.SetOp(A.columns, (state(A), state(B)), "Except", True)
        assert hints(restrict(both, KEYS, [("a_x", "k")])) == {"a": [("x", "k")], "b": [("y", "k")]}

    def test_keys_pass_generators_by_the_columns_of_their_input(self) -> None:
        made = p.Generate((*A.columns, p.Column("i", "long")), state(A), p.text("explode(a_x)", "a_x"), True, ("i",))
        assert hints(restrict(made, KEYS, [("a_k", "k")])) == {"a": [("k", "k")]}
        assert hints(restrict(made, KEYS, [("i", "k")])) == {"a": []}

    def test_keys_pass_grouping_sets_by_columns_that_every_set_shows(self) -> None:
        sets = SETS.with_children((state(A),))
        assert hints(restrict(sets, KEYS, [("a_x", "k")])) == {"a": [("x", "k")]}
        assert hints(restrict(sets, KEYS, [("g", "k")])) == {"a": []}
        assert hints(restrict(sets, KEYS, [("n", "k")])) == {"a": []}

    def test_keys_stop_above_a_top_k(self) -> None:
        top = p.TopK(A.columns, state(A), BY_X, 0, 3)
        assert hints(restrict(top, KEYS, [("a_k", "k")])) == {"a": []}


class TestPruneBy:
    DELTA = p.Delta((*A.columns, p.Column(p.WEIGHT, "long")), "a", A.fields)

    def test_a_change_hints_the_inputs_it_is_joined_with(self) -> None:
        pruned = prune_by([self.DELTA, state(B), state(C)], 0, (AB, BC))
        assert [hints(i) for i in pruned[1:]] == [{"b": [("k", "k")]}, {"c": []}]
        (leaf,) = of_kind(pruned[1], p.State)
        assert isinstance(leaf, p.State)
        assert leaf.prune[0].ref == "delta:a:k,x"

    def test_the_changed_input_itself_is_left_alone(self) -> None:
        assert prune_by([self.DELTA, state(B)], 0, (AB,))[0] is self.DELTA

    def test_a_computed_key_gives_no_hint(self) -> None:
        computed = p.project(self.DELTA, [p.Item("a_k", p.text("a_x + 1", "a_x"))])
        assert hints(prune_by([computed, state(B)], 0, (AB,))[1]) == {"b": []}

    def test_null_safe_equalities_give_hints_except_where_they_would_see_padding(self) -> None:
        tie = p.Expr("a_k <=> b_k", ("a_k", "b_k"), same=("a_k", "b_k"))
        assert hints(prune_by([self.DELTA, state(B)], 0, (tie,))[1]) == {"b": [("k", "k")]}
        padded = other("LeftOuter", state(C), state(B), BC)
        assert hints(prune_by([self.DELTA, padded], 0, (tie,))[1]) == {"c": [], "b": []}
        assert hints(prune_by([self.DELTA, padded], 0, (AB,))[1]) == {"c": [], "b": [("k", "k")]}

    def test_only_plain_equalities_give_hints(self) -> None:
        tie = p.Expr("a_k <=> b_k", ("a_k", "b_k"))
        assert hints(prune_by([self.DELTA, state(B)], 0, (tie,))[1]) == {"b": []}
