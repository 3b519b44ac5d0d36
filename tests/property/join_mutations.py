"""Ways to break the rules of outer, semi, anti and existence joins; `mutations` plays them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest import mock

from freshlake.compiler import plan as p
from freshlake.compiler import restrict
from freshlake.compiler.rules import JOINS, full_join, left_join, matches, null_aware
from freshlake.compiler.rules.weights import negate, weighted

# the package re-exports the function under the name of its module
FLATTEN = import_module("freshlake.compiler.passes.flatten_joins")

Patch = AbstractContextManager[Any]


def _attr(target: object, name: str, value: object) -> Patch:
    return mock.patch.object(target, name, value)


def _join_rule(kind: str, change: Callable[[p.Plan, Any, Any], p.Plan | None]) -> list[Patch]:
    old = JOINS[kind]
    new = replace(old, delta=lambda node, view: change(node, view, old.delta))
    return [mock.patch.dict(JOINS, {kind: new})]


def presence_follows_the_sign_of_the_change() -> list[Patch]:
    return [_attr(matches, "_TURN", f"if({matches.MOVED.name} > 0, 1L, -1L)")]


def removed_matches_count_as_new() -> list[Patch]:
    return [_attr(matches, "_TURN", matches._TURN.replace(matches.MOVED.name, f"abs({matches.MOVED.name})"))]


def padding_stays() -> list[Patch]:
    def nothing(plan: p.Plan) -> p.Plan:
        return p.Filter(weighted(plan).columns, weighted(plan), (p.text("false"),))

    return [_attr(left_join, "negate", nothing)]


def all_null_matches_are_taken_for_padding() -> list[Patch]:
    """A left join whose new and lost matches are only those that show something."""

    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        right = [f"{p.quote(n)} is not null" for n in node.inputs[1].names]
        return found and p.Filter(found.columns, found, (p.text(" or ".join([*right, f"{p.WEIGHT} > 0"])),))

    return _join_rule("LeftOuter", change)


def new_rows_are_not_padded() -> list[Patch]:
    original = left_join.with_current

    def inner(join: p.Join, change: p.Plan, derive: Any) -> p.Plan:
        found = original(join, change, derive)
        below = found.children[0]
        return found.with_children((p.InnerJoin(below.columns, below.children, join.on),))

    return [_attr(left_join, "with_current", inner)]


def a_full_join_pads_one_side() -> list[Patch]:
    return [_attr(full_join, "ANTI_JOIN", replace(full_join.ANTI_JOIN, delta=lambda *_: None))]


def a_flag_is_set_but_never_taken_back() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return replace(found, inputs=found.inputs[:-1]) if isinstance(found, p.Union) else found

    return _join_rule("Existence", change)


def an_anti_join_adds_what_it_should_remove() -> list[Patch]:
    return _join_rule("LeftAnti", lambda node, view, _: JOINS["LeftSemi"].delta(replace(node, kind="LeftAnti"), view))


def turns_ignore_the_left_condition() -> list[Patch]:
    original = matches.condition_of
    return [_attr(matches, "condition_of", lambda join: replace(original(join), left=()))]


def matches_ignore_the_right_condition() -> list[Patch]:
    original = matches.condition_of
    return [_attr(matches, "condition_of", lambda join: replace(original(join), right=()))]


def keys_turn_beside_a_null() -> list[Patch]:
    original = null_aware._where

    def where(rows: p.Plan, condition: str, *reads: str) -> p.Plan:
        return rows if condition == null_aware._FREE else original(rows, condition, *reads)

    return [_attr(null_aware, "_where", where)]


def a_null_counts_as_any_value() -> list[Patch]:
    return [_attr(null_aware, "_VOIDS", null_aware._BEGINS)]


def a_null_turns_the_wrong_way() -> list[Patch]:
    original = null_aware._turning
    return [_attr(null_aware, "_turning", lambda *of: negate(original(*of)))]


def a_null_finds_no_match() -> list[Patch]:
    """New rows are compared with the rows that are equal alone."""
    original = null_aware.matched
    return [_attr(matches, "matched", lambda *of: original(*of).children[0])]


def keys_move_below_padding() -> list[Patch]:
    """As if a left join were an inner one for keys."""
    original = restrict._push

    def push(plan: p.Plan, keys: p.Plan, pairs: Any) -> p.Plan:
        if isinstance(plan, p.Join):
            inputs = [push(c, keys, tuple((n, k) for n, k in pairs if n in c.names)) for c in plan.inputs]
            return replace(plan, inputs=tuple(inputs))
        return original(plan, keys, pairs)

    return [_attr(restrict, "_push", push)]


def filters_move_below_padding() -> list[Patch]:
    original = FLATTEN._above

    def above(plan: p.Filter, join: p.Join) -> p.Plan:
        theirs, _ = FLATTEN._reading(plan.on, join.inputs[1])
        if not theirs:
            return original(plan, join)
        right = join.inputs[1]
        return replace(join, inputs=(join.inputs[0], p.Filter(right.columns, right, theirs)))

    return [_attr(FLATTEN, "_above", above)]
