"""The dependency graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.errors import CycleDetected
from freshlake.schedule import Graph

# orders, customers -> a; a -> b, c; b, c -> d; e alone
SHOP = Graph.of({"d": ["b", "c"], "b": ["a"], "c": ["a", "orders"], "a": ["orders", "customers"], "e": []})


def test_order_puts_upstream_first_and_breaks_ties_by_name() -> None:
    assert SHOP.order() == ("a", "b", "c", "d", "e")
    assert SHOP.order(["d", "a", "e"]) == ("a", "d", "e")


def test_levels_count_stream_tables_only() -> None:
    assert SHOP.levels == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 0}


def test_closures() -> None:
    assert SHOP.upstream("d") == {"a", "b", "c"}
    assert SHOP.upstream("a") == frozenset()
    assert SHOP.downstream("a") == {"b", "c", "d"}
    assert SHOP.downstream("orders") == {"a", "b", "c", "d"}
    assert SHOP.downstream("nothing") == frozenset()
    assert SHOP.readers("orders") == {"a", "c"}
    assert SHOP.sources == {"orders", "customers"}


def test_a_self_reference_is_a_cycle() -> None:
    with pytest.raises(CycleDetected, match="stream table x") as caught:
        Graph.of({}).with_table("x", ["orders", "x"])
    assert caught.value.detail == "x -> x"


def test_a_cycle_is_refused_with_its_path_and_the_graph_stays() -> None:
    with pytest.raises(CycleDetected) as caught:
        SHOP.with_table("a", ["orders", "d"])
    assert caught.value.detail == "a -> d -> b -> a"
    assert SHOP.order() == ("a", "b", "c", "d", "e")


def test_the_path_holds_only_the_cycle_not_the_tables_behind_it() -> None:
    graph = Graph.of({"behind": ["x"], "x": ["y"], "y": ["z"], "z": ["x"], "fine": ["orders"]})
    assert graph.cycle() == ("x", "y", "z", "x")
    with pytest.raises(CycleDetected):
        graph.order()


def test_adding_and_dropping_tables() -> None:
    grown = SHOP.with_table("f", ["d", "new"])
    assert grown.levels["f"] == 3
    assert "new" in grown.sources
    assert SHOP.without_table("a").sources == {"a", "orders"}


def test_a_long_chain_needs_no_recursion() -> None:
    chain = Graph.of({f"t{i:05}": [f"t{i - 1:05}"] for i in range(1, 5_000)})
    assert chain.order()[-1] == "t04999"
    assert chain.levels["t04999"] == 4_998
    assert len(chain.upstream("t04999")) == 4_998


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefghxy"), max_size=4)))
def test_either_there_is_an_order_or_a_real_cycle(reads: dict[str, set[str]]) -> None:
    graph = Graph.of(reads)
    cycle = graph.cycle()
    if cycle is None:
        place = {table: number for number, table in enumerate(graph.order())}
        assert set(place) == set(reads)
        assert all(place[name] < place[table] for table in reads for name in reads[table] if name in reads)
    else:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(name in reads[table] for table, name in pairwise(cycle))
