"""Diamonds and declared groups: which stream tables are refreshed together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshlake.schedule import Graph
from freshlake.schedule.units import diamond_of, groups_of, partition
from tests.unit.schedule_cases import graph


def groups(reads: str, *declared: str, loose: str = "") -> list[str]:
    """Groups as words: the members of each in order."""
    found = groups_of(graph(reads), loose=loose, declared=[frozenset(names) for names in declared])
    return sorted("".join(group.tables) for group in found.all)


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        pytest.param("a:o b:o d:a,b", ["abd"], id="two tables over one source"),
        pytest.param("a:o b:o c:o d:a,b,c", ["abcd"], id="three tables over one source"),
        pytest.param("a:o b:a c:a d:b,c", ["bcd"], id="a stream table is the fork: it is not a member"),
        pytest.param("a:o b:a d:a,b", ["bd"], id="one input reads the other"),
        pytest.param("a:o d:a,o", ["ad"], id="the source is read directly too"),
        pytest.param("a:o b:o c:b d:a,c", ["abcd"], id="sides of different length"),
        pytest.param("a:o b:a c:o e:c d:b,e", ["abced"], id="two long sides"),
        pytest.param("a:o b:p d:a,b", [], id="two sources: no diamond"),
        pytest.param("a:o b:a d:b", [], id="a chain: no diamond"),
        pytest.param("a:o b:o", [], id="two tables that nothing joins: no diamond"),
        pytest.param("a:o b:a c:a", [], id="a fork that nothing joins: no diamond"),
        pytest.param("a:o b:p c:o,p d:a,b,c", ["abcd"], id="two sources, each shared by some inputs"),
        pytest.param("a:o b:o x:p d:a,b,x", ["abd"], id="an input that shares nothing stays out"),
        pytest.param("a:o b:o d:a,b e:d", ["abd"], id="a reader of the end stays out"),
        pytest.param("a:o b:o d:a,b e:a", ["abd"], id="a reader of a side stays out"),
        pytest.param("a:o b:o d:a,b x:d y:d z:x,y", ["abd", "xyz"], id="one diamond below another: two groups"),
        pytest.param("a:o b:o d:a,b c:o e:d,c", ["abdce"], id="a diamond inside another: one group"),
        pytest.param("a:o b:o c:o d:a,b e:b,c", ["abcde"], id="two diamonds that share a side: one group"),
        pytest.param("a:o b:o d:a,b f:p g:p h:f,g", ["abd", "fgh"], id="two diamonds apart: two groups"),
        pytest.param("r: a:r b:r d:a,b", ["abd"], id="a table without sources can be the fork"),
        pytest.param("a:o b:o d:a,b c:o", ["abd"], id="a table over the same source that is not read stays out"),
    ],
)
def test_diamonds(reads: str, expected: list[str]) -> None:
    found = groups_of(graph(reads)).all
    assert sorted(sorted(group.tables) for group in found) == sorted(sorted(names) for names in expected)


def test_a_loose_end_makes_no_group() -> None:
    assert groups("a:o b:o d:a,b", loose="d") == []
    assert groups("a:o b:o d:a,b", loose="ab") == ["abd"]


def test_a_loose_end_inside_another_diamond_is_a_member_of_that_one() -> None:
    assert groups("a:o b:o d:a,b c:o e:d,c", loose="d") == ["abcde"]


@pytest.mark.parametrize(
    ("reads", "declared", "expected"),
    [
        pytest.param("a:o b:p", ["ab"], ["ab"], id="tables that share nothing"),
        pytest.param("a:o b:p c:q", ["ab", "bc"], ["abc"], id="two groups with a table in common are one"),
        pytest.param("a:o b:o d:a,b e:p", ["be"], ["abde"], id="a diamond and a group with a table in common are one"),
        pytest.param("a:o b:a c:b", ["ac"], ["abc"], id="what lies between two members joins"),
        pytest.param("a:o b:a c:b e:c d:e", ["ad"], ["abced"], id="a long way between two members joins"),
        pytest.param("a:o b:p c:a d:p e:d", ["ad", "bc"], ["ad", "bc"], id="one after the other: two groups"),
        pytest.param("a:o b:p c:a d:q e:d,b f:e", ["ad"], ["ad"], id="what only one member reaches stays out"),
        pytest.param("a:o c:a d:p b:d", ["ab", "cd"], ["acdb"], id="two groups that wait for each other are one"),
        pytest.param("a:o", ["ax"], [], id="a name that is not known does not count"),
        pytest.param("a:o", ["a"], [], id="one table is no group"),
        pytest.param("a:o", [""], [], id="an empty group is no group"),
    ],
)
def test_declared_groups(reads: str, declared: list[str], expected: list[str]) -> None:
    found = groups(reads, *declared)
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_members_are_upstream_first() -> None:
    assert groups("z:o b:z y:o d:b,y") in (["yzbd"], ["zbyd"])


def test_heads_are_the_ends_of_diamonds_and_declared_tables() -> None:
    found = groups_of(graph("a:o b:o d:a,b e:p f:p"), declared=[frozenset("ef")])
    assert {"".join(g.tables): "".join(sorted(g.heads)) for g in found.all} == {"abd": "d", "ef": "ef"}


def test_groups_are_worked_out_once_per_graph() -> None:
    reads = graph("a:o b:o d:a,b")
    first = groups_of(reads)
    assert groups_of(reads) is first
    assert groups_of(reads, loose=["d"]).all == ()
    assert groups_of(reads) == first


def test_a_diamond_by_its_end() -> None:
    reads = graph("a:o b:o d:a,b e:d")
    assert diamond_of(reads, "d") == {"a", "b", "d"}
    assert diamond_of(reads, "e") == frozenset()


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Graph:
    """Up to `most` tables over three sources; names say nothing about the order."""
    count = draw(st.integers(0, most))
    names = draw(st.permutations([f"t{i}" for i in range(count)]))
    pool = ["o", "p", "q"]
    reads: dict[str, list[str]] = {}
    for name in names:
        reads[name] = draw(st.lists(st.sampled_from(pool), max_size=3, unique=True))
        pool.append(name)
    return Graph.of(reads)


def ways(reads: Graph, name: str) -> Iterator[tuple[str, ...]]:
    """Every way from a node up to something that reads nothing."""
    for upstream in reads.reads.get(name, ()):
        yield from ((name, *way) for way in ways(reads, upstream))
    if not reads.reads.get(name):
        yield (name,)


@given(graphs())
def test_a_diamond_is_what_lies_between_a_node_met_by_two_inputs_and_the_end(reads: Graph) -> None:
    for table in reads.reads:
        met = {name: {node for way in ways(reads, name) for node in way} for name in reads.reads[table]}
        forks = {node for one, other in combinations(met, 2) for node in met[one] & met[other]}
        between = {
            node
            for way in ways(reads, table)
            for place, node in enumerate(way)
            if node not in forks and forks.intersection(way[place:])
        }
        assert diamond_of(reads, table) == between


@given(graphs(), st.data())
def test_groups_are_apart_hold_what_belongs_together_and_never_wait_for_each_other(
    reads: Graph, data: st.DataObject
) -> None:
    names = st.sampled_from(sorted(reads.reads) or ["none"])
    declared = data.draw(st.lists(st.frozensets(names, max_size=3), max_size=2))
    loose = data.draw(st.frozensets(names, max_size=3))
    found = groups_of(reads, loose=loose, declared=declared)
    held = [name for group in found.all for name in group.tables]
    assert len(held) == len(set(held))
    sets = [diamond_of(reads, table) for table in reads.reads if table not in loose] + declared
    for together in sets:
        known = together & reads.reads.keys()
        if len(known) > 1:
            assert len({found.of[name].tables for name in known}) == 1
    place = {name: found.of[name].tables[0] if name in found.of else name for name in reads.reads}
    merged: dict[str, set[str]] = {}
    for table in place:
        merged.setdefault(place[table], set()).update({place[n] for n in reads.inputs(table)} - {place[table]})
    assert Graph.of(merged).cycle() is None


@given(graphs())
def test_without_anything_together_every_table_is_alone(reads: Graph) -> None:
    assert partition(reads, reads.order(), []) == tuple((name,) for name in reads.order())
