"""Diamonds and declared groups: which stream tables are refreshed together."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from freshlake.schedule import Graph
from freshlake.schedule.units import diamond_of, groups_of, partition
from tests.unit.schedule_cases import graph, random_graph, ways


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


GRAPHS = [random_graph(Random(seed)) for seed in range(400)]


def test_a_diamond_is_what_lies_between_a_node_met_by_two_inputs_and_the_end() -> None:
    for reads in GRAPHS:
        for table in reads.reads:
            met = {name: {node for way in ways(reads, name) for node in way} for name in reads.reads[table]}
            forks = {node for one, other in combinations(met, 2) for node in met[one] & met[other]}
            between = {
                node
                for way in ways(reads, table)
                for place, node in enumerate(way)
                if node not in forks and forks.intersection(way[place:])
            }
            assert diamond_of(reads, table) == between, (reads, table)


@pytest.mark.parametrize("seed", range(200))
def test_groups_are_apart_hold_what_belongs_together_and_never_wait_for_each_other(seed: int) -> None:
    random = Random(seed)
    reads = random_graph(random)
    names = sorted(reads.reads)
    declared = [frozenset(random.sample(names, min(len(names), random.randint(0, 3)))) for _ in range(2)]
    loose = [name for name in names if random.random() < 0.3]
    found = groups_of(reads, loose=loose, declared=declared)
    held = [name for group in found.all for name in group.tables]
    assert len(held) == len(set(held))
    for together in [*(diamond_of(reads, name) for name in names if name not in loose), *declared]:
        assert len(together) < 2 or len({found.of[name].tables for name in together}) == 1
    place = {name: found.of[name].tables[0] if name in found.of else name for name in names}
    merged: dict[str, set[str]] = {}
    for table in names:
        merged.setdefault(place[table], set()).update({place[n] for n in reads.inputs(table)} - {place[table]})
    assert Graph.of(merged).cycle() is None


def test_without_anything_together_every_table_is_alone() -> None:
    for reads in GRAPHS:
        assert partition(reads, reads.order(), []) == tuple((name,) for name in reads.order())
