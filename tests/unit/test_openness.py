"""What a query leaves open is not compared, and nothing else is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freshlake.compiler import plan as p
from freshlake.compiler.openness import Openness, openness
from freshlake.compiler.passes import complete_orders
from tests.unit.rule_cases import scan

A, C = scan("a"), scan("c")
BY_X = (p.Order(p.column_expr("a_x")),)


def window(*facts: str, order: tuple[p.Order, ...] = BY_X, child: p.Plan = A) -> p.Plan:
    item = p.Item("w", p.Expr("f()", facts=frozenset(facts)))
    return p.Window((*child.columns, p.Column("w", "long")), child, (item,), ("a_g",), order)


def picked(function: str = "First") -> p.Aggregate:
    call = p.Call("v", function, "first(a_x)", "long", columns=("a_x",), facts=frozenset({p.OPEN}))
    return p.Aggregate((p.Column("a_g", "long"), p.Column("v", "long")), A, (p.Item("a_g"),), (call,))


def where(child: p.Plan, *columns: str) -> p.Plan:
    return p.Filter(child.columns, child, (p.text("…", *columns),))


def ties_open(plan: p.Plan) -> Openness:
    return openness(complete_orders(plan), ties=True)


WIDE = p.Scan(tuple(p.Column(n, "long") for n in ("a_g", "a_x", "y")), "a", ("g", "x", "y"))


def test_functions_that_see_ties_are_open_if_the_order_has_ties() -> None:
    assert ties_open(window(p.TIES, child=WIDE)).columns == {"w"}
    assert ties_open(window(child=WIDE)).columns == set()
    assert ties_open(window(p.TIES)).columns == set(), "partition and order are the whole row"
    assert openness(complete_orders(window(p.TIES, child=WIDE)), ties=False).columns == set()


def test_an_order_by_a_unique_key_leaves_nothing_open() -> None:
    groups = p.Aggregate(WIDE.columns, WIDE, (p.Item("a_g"), p.Item("a_x")), ())
    assert ties_open(window(p.TIES, child=groups)).columns == set()


def test_the_first_rows_of_a_partition_are_open_but_not_how_many_there_are() -> None:
    found = ties_open(where(window(p.TIES, p.PLACE, child=WIDE), "w"))
    assert not found.rows
    assert found.columns == {"w", "y"}


@pytest.mark.parametrize(
    "plan",
    [
        where(window(p.TIES, child=WIDE), "w"),
        where(window(p.TIES, p.PLACE, child=WIDE), "w", "y"),
        p.InnerJoin((), (window(p.TIES, child=WIDE), C), (p.text("w = c_x", "w", "c_x"),)),
        p.SetOp(WIDE.columns, (window(p.TIES, child=WIDE), C), "Except", True),
        p.Aggregate((p.Column("w", "long"),), window(p.TIES, child=WIDE), (p.Item("w"),), ()),
        where(picked(), "v"),
        p.TopK(picked().columns, picked(), (p.Order(p.column_expr("v")),), 0, 1),
        p.Generate((), picked(), p.text("posexplode(v)", "v"), False, ("i", "j")),
    ],
)
def test_rows_are_open_where_open_values_decide_about_them(plan: p.Plan) -> None:
    assert ties_open(plan).rows


def test_ties_that_open_values_decide_are_open_even_if_completed() -> None:
    both = p.project(p.Union(picked().columns, (picked(), picked())), p.passing(picked()))
    top = complete_orders(p.TopK(both.columns, both, (p.Order(p.column_expr("a_g")),), 0, 2))
    assert openness(top, ties=False).columns == {"v"}
    by_group = p.TopK(picked().columns, picked(), (p.Order(p.text("1")),), 0, 2)
    assert openness(complete_orders(by_group), ties=False).columns == {"v"}, "v itself, not the group"
    first = where(window(p.TIES, p.PLACE, order=(p.Order(p.column_expr("v")),), child=picked()), "w")
    assert openness(complete_orders(first), ties=False).rows


def test_what_depends_on_an_open_value_is_open() -> None:
    plus = p.project(picked(), [p.Item("more", p.text("v + 1", "v")), p.Item("a_g")])
    assert openness(plus, ties=False).columns == {"v", "more"}
    union = p.Union(
        (p.Column("u", "long"), p.Column("t", "long")), (p.project(A, [p.Item("a_x"), p.Item("a_g")]), plus)
    )
    assert openness(union, ties=False).columns == {"v", "more", "u"}
    by_open = window(order=(p.Order(p.column_expr("v")),), child=picked())
    assert openness(by_open, ties=False).columns == {"v", "w"}
    total = p.Call("t", "Max", "max(v)", "long", columns=("v",))
    over = p.Aggregate((p.Column("t", "long"),), picked(), (), (total,))
    assert openness(over, ties=False).columns == {"v", "t"}


def test_lists_are_open_in_their_order_alone() -> None:
    listed = replace(picked("CollectList"), calls=(replace(picked().calls[0], function="CollectList"),))
    copied = p.project(listed, [p.Item("l", p.column_expr("v")), p.Item("n", p.text("size(v)", "v"))])
    found = openness(copied, ties=False)
    assert (found.lists, found.columns, found.rows) == ({"v", "l"}, {"n"}, False)
    exploded = p.Generate((), listed, p.text("explode(v)", "v"), False, ("e",))
    assert not openness(exploded, ties=False).rows


def test_the_columns_of_the_order_of_a_top_k_are_not_open() -> None:
    found = ties_open(p.TopK(WIDE.columns, WIDE, BY_X, 0, 3))
    assert (found.columns, found.rows) == ({"a_g", "y"}, False)
