"""Windows, set operations and top-k on DuckDB: what the change of a node is, and what is read for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.compile import normal_form
from freshlake.compiler.split import Node, split
from freshlake.compiler.support import unstorable
from tests.property.duck import Maintained
from tests.unit.rule_cases import call, grouped, kept, scan

A, C = scan("a"), scan("c")


def by(*names: str, way: str = "ASC NULLS FIRST") -> tuple[p.Order, ...]:
    return tuple(p.Order(p.column_expr(n), way) for n in names)


def top(child: p.Plan, order: tuple[p.Order, ...], count: int | None, offset: int = 0) -> p.Plan:
    cut: p.Plan = p.Sort(child.columns, child, order, True)
    if offset:
        cut = p.Limit(cut.columns, cut, offset, offset=True)
    return cut if count is None else p.Limit(cut.columns, cut, count)


def numbered(child: p.Plan, partition: tuple[str, ...], order: tuple[p.Order, ...]) -> p.Window:
    item = p.Item("rn", p.Expr("row_number() over every", facts=frozenset({p.TIES, p.PLACE})))
    return p.Window((*child.columns, p.Column("rn", "long")), child, (item,), partition, order)


def counted(child: p.Plan, *partition: str) -> p.Window:
    over = f"partition by {', '.join(partition)}" if partition else ""
    item = p.Item("n", p.text(f"count(1) over ({over})"))
    return p.Window((*child.columns, p.Column("n", "long")), child, (item,), partition, ())


def where(child: p.Plan, sql: str, *columns: str) -> p.Filter:
    return p.Filter(child.columns, child, (p.text(sql, *columns),))


def nodes_of(query: p.Plan) -> tuple[Node, ...]:
    output = tuple(p.Column(c.name, c.type, True, c.name) for c in query.columns)
    return split(normal_form(query, output), output, differential=True)


# Windows -------------------------------------------------------------------------------------------------------------


def test_a_row_that_moves_touches_the_partition_it_leaves_and_the_one_it_enters() -> None:
    table = kept(counted(A, "a_g"), a=[(1, 0), (1, 5), (2, 0), (3, 0)])
    assert table.refresh({"a": [((1, 5), -1), ((2, 5), 1)]})[""] == {
        (1, 0, 2): -1,
        (1, 5, 2): -1,
        (1, 0, 1): 1,
        (2, 0, 1): -1,
        (2, 0, 2): 1,
        (2, 5, 2): 1,
    }


def test_null_is_a_partition_like_others() -> None:
    table = kept(counted(A, "a_g"), a=[(None, 0), (1, 0)])
    assert table.refresh({"a": [((None, 1), 1)]})[""] == {(None, 0, 1): -1, (None, 0, 2): 1, (None, 1, 2): 1}


def test_a_partition_without_rows_is_gone() -> None:
    table = kept(counted(A, "a_g"), a=[(1, 0), (2, 0)])
    assert table.refresh({"a": [((1, 0), -1)]})[""] == {(1, 0, 1): -1}


def test_without_a_partition_everything_is_computed_again_but_only_if_something_changed() -> None:
    table = kept(counted(where(C, "c_x > 0", "c_x")), c=[(1,), (0,)])
    narrow = Maintained(grouped(table.query, None, call("Count", "c_x")), table.sources)
    for each in (table, narrow):
        each.refresh({"c": [((0,), 1)]})
        assert each.rows() == each.expected()
    assert table.refresh({"c": [((2,), 1)]})[""] == {(1, 1): -1, (1, 2): 1, (2, 2): 1}


def test_a_change_that_a_join_drops_reads_no_window_input() -> None:
    joined = p.InnerJoin(
        (*A.columns, *C.columns), (A, C), (p.Expr("a_x = c_x", ("a_x", "c_x"), equality=("a_x", "c_x")),)
    )
    table = kept(counted(p.project(joined, [p.Item("a_g")])), a=[(1, 1)], c=[(1,)])
    assert table.refresh({"c": [((7,), 1)]})[""] == {}
    assert table.rows() == {(1, 1): 1}


def test_ties_are_decided_by_the_rest_of_the_row() -> None:
    table = kept(numbered(A, ("a_g",), ()), a=[(1, 3), (1, 1), (1, 2)])
    assert table.rows() == {(1, 1, 1): 1, (1, 2, 2): 1, (1, 3, 3): 1}
    assert table.refresh({"a": [((1, 4), 1)]})[""] == {(1, 4, 4): 1}


def test_partition_keys_that_are_not_shown_are_stored_hidden() -> None:
    (root,) = nodes_of(p.project(counted(A, "a_g"), [p.Item("a_x"), p.Item("n")]))
    assert [(c.name, c.field) for c in root.columns if c.hidden] == [("a_g", "__fl_k0")]
    table = kept(p.project(counted(A, "a_g"), [p.Item("n")]), a=[(1, 0), (1, 1), (None, 0)])
    table.refresh({"a": [((1, 0), -1), ((None, 9), 1)]})
    assert table.rows() == {(1,): 1, (2,): 2}


def test_rows_that_a_filter_above_leaves_out_are_not_stored() -> None:
    first = where(numbered(A, ("a_g",), by("a_x")), "rn = 1", "rn")
    (root,) = nodes_of(p.project(first, [p.Item("a_x")]))
    assert isinstance(root.operator, p.Window)
    inner, outer = nodes_of(p.InnerJoin((*first.columns, *C.columns), (first, C), ()))
    assert isinstance(inner.operator, p.Window)
    assert outer.operator is None
    table = kept(first, a=[(1, 1), (1, 2), (2, 5)])
    assert table.refresh({"a": [((1, 1), -1), ((2, 4), 1), ((3, 0), 1)]})[""] == {
        (1, 1, 1): -1,
        (1, 2, 1): 1,
        (2, 5, 1): -1,
        (2, 4, 1): 1,
        (3, 0, 1): 1,
    }


def test_a_filter_above_an_aggregate_with_state_leaves_its_state_whole() -> None:
    having = where(grouped(A, "a_g", call("Count", "a_x")), "v0 > 1", "v0")
    inner, root = nodes_of(having)
    assert isinstance(inner.operator, p.Aggregate)
    assert inner.above == ()
    assert root.operator is None


UNREAD = {
    "a single row": grouped(C, None, call("Count", "c_x")),
    "groups": where(grouped(C, "c_x", replace(call("Count", "c_x"), distinct=True)), "v0 > 0", "v0"),
    "all rows of a window": where(counted(C), "n > 1", "n"),
    "first rows of an order that reads nothing": top(C, (p.Order(p.text("1 + 1")),), 2),
}


@pytest.mark.parametrize("unread", UNREAD.values(), ids=UNREAD)
def test_stored_rows_of_which_nothing_is_read_still_count(unread: p.Plan) -> None:
    """A relation that is read without columns has no rows for whoever counts them by their columns."""
    joined = p.InnerJoin((*A.columns, *unread.columns), (A, unread), ())
    table = kept(p.project(joined, [p.Item("a_g")]), a=[(1, 1)], c=[(5,), (6,)])
    assert table.rows() == table.expected()
    for change in ({"c": [((7,), 1), ((5,), -1)]}, {"a": [((2, 2), 1)]}, {"a": [((3, 3), 1)], "c": [((7,), -1)]}):
        table.refresh(change)
        assert table.rows() == table.expected()


# Set operations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        ("Except", {"a": [((0, 1), 1)]}, {(1,): 1}),
        ("Except", {"c": [((1,), 1)]}, {(1,): -1}),
        ("Except", {"c": [((1,), 5)]}, {(1,): -1}),
        ("Except", {"a": [((0, 1), -1)], "c": [((1,), -1)]}, {}),
        ("Except", {"a": [((0, None), -1)]}, {(None,): -1}),
        ("Intersect", {"c": [((1,), 1)]}, {(1,): 1}),
        ("Intersect", {"a": [((0, 1), -1)]}, {}),
        ("Intersect", {"a": [((0, 1), -2)]}, {(1,): -1}),
        ("Intersect", {"c": [((None,), 1)]}, {(None,): 1}),
        ("Intersect", {"a": [((0, 2), 1), ((0, 2), -1)], "c": [((2,), 1)]}, {}),
    ],
)
def test_rows_are_counted_on_both_sides(
    kind: str, change: dict[str, list[tuple[tuple[int | None, ...], int]]], expected: dict[tuple[int | None, ...], int]
) -> None:
    sides = (p.project(A, [p.Item("a_x")]), C)
    operation = p.SetOp((p.Column("u", "long"),), sides, kind, True)
    table = kept(operation, a=[(0, 1), (0, 1), (0, None)], c=[(1,)])
    assert table.refresh(change)[""] == expected


# Top-k ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "change", "expected", "reads"),
    [
        pytest.param([1, 2, 3, 4], {9: 1, 4: -1}, {}, False, id="behind the last row nothing happens"),
        pytest.param([1, 2, 3, 4], {0: 1}, {0: 1, 3: -1}, False, id="an insertion pushes the last row out"),
        pytest.param([1, 2, 3, 4], {2: -1}, {2: -1, 4: 1}, True, id="a stored row goes"),
        pytest.param([1, 2, 3, 4], {2: -1, 9: 1}, {2: -1, 4: 1}, True, id="a worse row comes for a stored one"),
        pytest.param([1, 2, 3, 4], {2: -1, 0: 1}, {2: -1, 0: 1}, False, id="a better row comes for a stored one"),
        pytest.param([1, 2, 3, 4], {3: -1, 2: 1}, {3: -1, 2: 1}, False, id="the last row moves up"),
        pytest.param([1, 2, 3, 4], {3: 1}, {}, False, id="a row equal to the last one"),
        pytest.param([1, 2, 2, 2], {2: -1}, {}, True, id="a copy of the last row goes, others are left"),
        pytest.param([1, 2, 3, 3], {1: -1, 2: -1}, {1: -1, 2: -1, 3: 1}, True, id="fewer rows than asked for are left"),
        pytest.param([1, 2], {1: -1}, {1: -1}, False, id="a short result holds everything"),
        pytest.param([1, 2], {1: -1, 5: 3}, {1: -1, 5: 2}, False, id="a short result is filled up"),
        pytest.param([1, 2], {0: 2}, {0: 2, 2: -1}, False, id="two copies come"),
        pytest.param([], {5: 4}, {5: 3}, False, id="more copies than places"),
        pytest.param([1, 2, 3, 4], {1: -1, 2: -1, 3: -1, 4: -1}, {1: -1, 2: -1, 3: -1}, True, id="all rows go"),
        pytest.param([None, 1, 2, 3], {None: 1}, {None: 1, 2: -1}, False, id="NULL comes first"),
        pytest.param([None, 1, 2, 3], {None: -1}, {None: -1, 3: 1}, True, id="the first, NULL, goes"),
    ],
)
def test_the_input_is_read_only_when_the_top_cannot_be_known(
    rows: list[int | None], change: dict[int | None, int], expected: dict[int | None, int], reads: bool
) -> None:
    table = kept(top(C, by("c_x"), 3), c=[(x,) for x in rows])
    delta = table.refresh({"c": [((x,), w) for x, w in change.items()]})[""]
    assert delta == {(x,): w for x, w in expected.items()}
    assert table.read == ({"c"} if reads else set())


def test_rows_that_come_and_go_within_a_change_read_nothing() -> None:
    table = kept(top(C, by("c_x"), 2), c=[(1,), (2,), (3,)])
    assert table.refresh({"c": [((1,), -1), ((1,), 1), ((0,), 1), ((0,), -1)]})[""] == {}
    assert table.read == set()


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("ASC NULLS FIRST", [None, 1]),
        ("ASC NULLS LAST", [1, 2]),
        ("DESC NULLS FIRST", [None, 3]),
        ("DESC NULLS LAST", [3, 2]),
    ],
)
def test_nulls_stand_where_the_order_puts_them(way: str, expected: list[int | None]) -> None:
    table = kept(top(C, by("c_x", way=way), 2), c=[(2,)])
    table.refresh({"c": [((x,), 1) for x in (None, 1, 3)]})
    assert table.rows() == Counter((x,) for x in expected)


def test_columns_of_the_order_that_are_not_shown_are_stored_hidden() -> None:
    query = p.project(top(A, by("a_x"), 2), [p.Item("a_g")])
    (root,) = nodes_of(query)
    assert [c.name for c in root.columns if c.hidden] == ["a_x"]
    table = kept(query, a=[(1, 1), (2, 2), (3, 3)])
    assert table.refresh({"a": [((9, 0), 1)]})[""] == {(9, 0): 1, (2, 2): -1}


def test_ties_at_the_end_are_decided_by_the_rest_of_the_row() -> None:
    table = kept(top(A, by("a_g"), 2), a=[(1, 5), (1, 4), (1, 3)])
    assert table.rows() == {(1, 3): 1, (1, 4): 1}
    assert table.refresh({"a": [((1, 9), 1)]})[""] == {}
    assert table.refresh({"a": [((1, 0), 1)]})[""] == {(1, 0): 1, (1, 4): -1}


def test_rows_before_the_first_one_shown_count_too() -> None:
    table = kept(top(C, by("c_x"), 2, offset=1), c=[(1,), (2,), (3,), (4,)])
    assert table.rows() == {(2,): 1, (3,): 1}
    assert table.refresh({"c": [((0,), 1)]})[""] == {(1,): 1, (3,): -1}
    assert table.read == set()
    assert table.refresh({"c": [((0,), -1)]})[""] == {(1,): -1, (3,): 1}


def test_an_offset_without_a_limit_keeps_the_rest() -> None:
    table = kept(top(C, by("c_x"), None, offset=2), c=[(1,), (2,), (3,)])
    assert table.refresh({"c": [((0,), 1), ((9,), 1)]})[""] == {(2,): 1, (9,): 1}
    table.refresh({"c": [((x,), -1) for x in (0, 1, 2, 3)]})
    assert table.rows() == {}


@pytest.mark.parametrize(("count", "offset"), [(0, 0), (0, 2)])
def test_a_limit_of_nothing_stays_empty(count: int, offset: int) -> None:
    table = kept(top(C, by("c_x"), count, offset), c=[(1,)])
    table.refresh({"c": [((2,), 1)]})
    assert table.rows() == {}
    assert table.read == set()


def test_a_top_k_below_other_operators_gives_them_its_change() -> None:
    first = p.project(top(A, by("a_x"), 2), [p.Item("a_g")])
    table = kept(grouped(first, "a_g", call("Count", "a_g")), a=[(1, 1), (1, 2), (2, 3)])
    assert table.rows() == {(1, 2): 1}
    table.refresh({"a": [((3, 0), 1)]})
    assert table.rows() == {(1, 1): 1, (3, 1): 1}
    table.refresh({"a": [((1, 1), -1), ((3, 0), -1)]})
    assert table.rows() == {(1, 1): 1, (2, 1): 1}


# What can be stored --------------------------------------------------------------------------------------------------


def test_a_type_that_delta_tables_lack_is_a_reason_only_where_freshlake_stores_it() -> None:
    age = p.Column("age", "interval day to second", True, "age")
    source = p.Scan((*A.columns, age), "a", ("g", "x", "age"))
    ordered = p.TopK(source.columns, source, by("age"), 0, 3)
    hidden = p.project(ordered, [p.Item("a_g")])
    assert [r.code for r in unstorable(nodes_of(hidden))] == ["not-differentiable"]
    assert unstorable(nodes_of(p.project(source, [p.Item("age")]))) == ()
    assert unstorable(nodes_of(p.project(ordered, [p.Item(n) for n in ordered.names]))) == ()
