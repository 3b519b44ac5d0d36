"""All paths to a root lead to one position of it; a snapshot is the newest set of states that agree."""

from __future__ import annotations

import random

from freshlake.refresh.roots import (
    Disagreement,
    Point,
    Roots,
    aligned,
    common,
    disagreement,
    from_json,
    furthest,
    is_past,
    to_json,
)
from freshlake.sources.protocol import Position


def at(version: int, table: str = "t") -> Position:
    return Position(table, version, "")


def test_a_plain_table_is_read_where_the_stream_table_beside_it_stands() -> None:
    heads = {"orders": at(7), "st:1": at(3, "st:1:1")}
    assert aligned(heads, {"st:1": {"orders": at(5)}}, {}) == {"orders": at(5), "st:1": at(3, "st:1:1")}


def test_a_table_that_is_past_the_stream_table_beside_it_waits() -> None:
    found = aligned({"orders": at(7)}, {"st:1": {"orders": at(5)}}, {"orders": at(6)})
    assert found == Disagreement("orders", (at(6), at(5)))


def test_two_stream_tables_that_disagree_cannot_be_read_together() -> None:
    found = aligned({}, {"st:1": {"orders": at(5)}, "st:2": {"orders": at(6)}}, {})
    assert found == Disagreement("orders", (at(5), at(6)))
    assert "orders is seen at 5 and 6" in str(found)


def test_a_source_made_again_is_another_one() -> None:
    found = aligned({"orders": at(0, "new")}, {"st:1": {"orders": at(9, "old")}}, {"orders": at(1, "new")})
    assert isinstance(found, Disagreement)


def test_sources_that_are_not_shared_do_not_matter() -> None:
    heads = {"customers": at(7)}
    assert aligned(heads, {"st:1": {"orders": at(5)}, "st:2": {"items": at(6)}}, {"customers": at(6)}) == heads


def test_roots_that_were_never_kept_are_not_compared() -> None:
    assert aligned({"orders": at(7)}, {"st:1": None}, {}) == {"orders": at(7)}
    assert to_json({"orders": at(7)}, {"st:1": None}) == {}


def test_a_frontier_says_its_roots_and_which_are_mixed() -> None:
    heads = {"orders": at(7), "st:1": at(3, "st:1:1")}
    same = to_json(heads, {"st:1": {"orders": at(7), "items": at(2)}})
    assert from_json(same) == {"orders": at(7), "items": at(2)}
    mixed = to_json(heads, {"st:1": {"orders": at(5)}})
    assert list(mixed["mixed"]) == ["orders"]
    assert from_json(mixed) is None
    assert from_json({"sources": {}}) is None


def point(version: int, **roots: int) -> Point:
    return Point(1, version, {key: at(value) for key, value in roots.items()})


def test_the_newest_states_are_taken_when_they_agree() -> None:
    a, b = [point(2, orders=5), point(1, orders=3)], [point(9, orders=5, items=1)]
    assert common({"a": a, "b": b}) == {"a": a[0], "b": b[0]}


def test_the_one_that_is_ahead_steps_back() -> None:
    a = [point(4, orders=9), point(3, orders=7), point(2, orders=5)]
    b = [point(8, orders=7, items=2), point(7, orders=5, items=1)]
    assert common({"a": a, "b": b}) == {"a": a[1], "b": b[0]}


def test_stepping_back_for_one_may_pull_another() -> None:
    a = [point(2, x=2), point(1, x=1)]
    b = [point(2, x=2, y=2), point(1, x=1, y=1)]
    c = [point(1, y=1)]
    assert common({"a": a, "b": b, "c": c}) == {"a": a[1], "b": b[1], "c": c[0]}


def test_what_has_no_common_state_is_named() -> None:
    found = common({"a": [point(2, orders=5)], "b": [point(1, orders=4)]})
    assert isinstance(found, Disagreement)
    assert found.root == "orders"
    assert set(found.positions) == {at(5), at(4)}


def test_tables_that_share_nothing_are_at_their_newest() -> None:
    a, b = [point(2, x=5), point(1, x=4)], [point(7, y=1)]
    assert common({"a": a, "b": b}) == {"a": a[0], "b": b[0]}


def test_nothing_newer_is_passed_over() -> None:
    """Against trying all combinations, on random histories that grow as refreshes do."""
    chance = random.Random(7)
    agreed = 0
    for _ in range(300):
        points = {name: _history(chance, chance.sample("xyz", chance.randint(1, 3))) for name in "abc"}
        found, best = common(points), _best(points)
        if isinstance(found, Disagreement):
            assert best is None
            continue
        agreed += 1
        assert best is not None
        assert {n: p.version for n, p in found.items()} == best
    assert agreed > 50


def _history(chance: random.Random, roots: list[str]) -> list[Point]:
    versions, now = [], dict.fromkeys(roots, 0)
    for version in range(chance.randint(1, 5)):
        versions.append(point(version, **now))
        now = {root: value + chance.randint(0, 2) for root, value in now.items()}
    return versions[::-1]


def _best(points: dict[str, list[Point]]) -> dict[str, int] | None:
    agreeing = [
        {"a": a.version, "b": b.version, "c": c.version}
        for a in points["a"]
        for b in points["b"]
        for c in points["c"]
        if _agree((a.roots, b.roots, c.roots))
    ]
    if not agreeing:
        return None
    newest = {name: max(found[name] for found in agreeing) for name in "abc"}
    assert newest in agreeing, "states that agree have a newest set"
    return newest


def _agree(all_roots: tuple[Roots, ...]) -> bool:
    seen: dict[str, Position] = {}
    return all(seen.setdefault(key, at) == at for roots in all_roots for key, at in roots.items())


def test_pins_go_to_where_anything_stands_already() -> None:
    pins = {"orders": at(5), "items": at(9), "other": at(1)}
    found = furthest(pins, [{"orders": at(7), "items": at(3)}, {"orders": at(6), "unknown": at(8)}])
    assert found == {"orders": at(7), "items": at(9), "other": at(1)}


def test_pins_do_not_go_to_a_table_that_was_there_before() -> None:
    assert furthest({"orders": at(0, "new")}, [{"orders": at(7, "old")}]) == {"orders": at(0, "new")}


def test_states_that_show_a_root_twice_disagree() -> None:
    assert disagreement([{"orders": at(5)}, {"orders": at(5), "items": at(1)}, {"items": at(1)}, {}]) is None
    assert disagreement([{"orders": at(5)}, {"orders": at(6)}]) == Disagreement("orders", (at(5), at(6)))


def test_a_state_is_past_pins_when_no_root_is_behind_its_own() -> None:
    assert is_past({"orders": at(5), "items": at(2)}, {"orders": at(5), "items": at(1), "other": at(3)})
    assert not is_past({"orders": at(5), "items": at(2)}, {"orders": at(6)})
    assert not is_past({"orders": at(5, "old")}, {"orders": at(0, "new")})
