"""What comes along when a table is refreshed, and what is published as one; written as on a blackboard."""

from __future__ import annotations

import pytest

from freshlake.schedule.graph import Graph
from freshlake.schedule.selection import brought, in_order, parts
from freshlake.schedule.units import groups_of

# s → a → d, s → b → d: a diamond; d → e; b → f
DIAMOND = Graph.of({"a": ["s"], "b": ["s"], "d": ["a", "b"], "e": ["d"], "f": ["b"]})


def selected(names: str, *, immediate: str = "", declared: str = "", without: str = "") -> str:
    groups = groups_of(DIAMOND, declared=[frozenset(declared)])
    return "".join(sorted(brought(DIAMOND, groups, set(immediate), names, set(without))))


@pytest.mark.parametrize(
    ("names", "expected"),
    [("a", "abd"), ("d", "abd"), ("e", "abde"), ("f", "abdf"), ("ef", "abdef")],
)
def test_a_table_brings_what_it_reads_and_all_of_their_groups(names: str, expected: str) -> None:
    assert selected(names) == expected


def test_what_is_left_out_brings_nothing() -> None:
    assert selected("f", without="b") == "f"


def test_a_declared_group_comes_with_what_its_members_read() -> None:
    assert selected("e", declared="ef") == "abdef"


def test_an_immediate_table_follows_and_brings_nothing_itself() -> None:
    chain = Graph.of({"a": ["s"], "b": ["t"], "i": ["a", "b"], "j": ["i"]})
    groups = groups_of(chain)
    assert brought(chain, groups, {"i", "j"}, "a") == {"a", "i", "j"}
    assert brought(chain, groups, {"i", "j"}, "i") == {"a", "b", "i", "j"}
    assert in_order(chain, parts(chain, groups, {"i", "j"}, {"a", "i", "j"})) == [("a", "i", "j")]


def test_parts_come_after_what_they_read() -> None:
    groups = groups_of(DIAMOND)
    assert in_order(DIAMOND, parts(DIAMOND, groups, (), "abdef"))[0] == ("a", "b", "d")
    assert set(in_order(DIAMOND, parts(DIAMOND, groups, (), "abdef"))) == {("a", "b", "d"), ("e",), ("f",)}
