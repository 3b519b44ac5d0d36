"""Wrong rules for windows, set operations, top-k, generators and grouping sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from freshlake.compiler import plan as p
from freshlake.compiler.rules import set_operation, top_k, window
from tests.property.mutation import POSITIVE, Mutation, Patch, attr, rule


def _inserted(change: p.Plan) -> p.Plan:
    return p.Filter(change.columns, change, (POSITIVE,))


def _window_keys_come_from_insertions_only() -> list[Patch]:
    original = window.touched
    return [attr(window, "touched", lambda change, *rest: original(_inserted(change), *rest))]


def _window_reads_only_the_change() -> list[Patch]:
    """As if the rows of a partition that did not change did not matter."""
    original = window.restrict

    def restricted(plan: p.Plan, keys: p.Plan, pairs: Any) -> p.Plan:
        found = original(plan, keys, pairs)
        return p.Filter(found.columns, found, (p.text("false"),)) if pairs else found

    return [attr(window, "restrict", restricted)]


def _set_operation_counts_the_change_of_one_side() -> list[Patch]:
    return [attr(set_operation, "union", lambda terms: terms[0])]


def _top_k_is_never_read_again() -> list[Patch]:
    original = top_k.only_if

    def nothing(flagged: p.Plan, flag: str, rows: p.Plan) -> p.Plan:
        found = original(flagged, flag, rows)
        return p.Filter(found.columns, found, (p.text("false"),))

    return [attr(top_k, "only_if", nothing)]


def _top_k_forgets_removals() -> list[Patch]:
    original = top_k._first
    return [attr(top_k, "_first", lambda node, top, change, *rest: original(node, top, _inserted(change), *rest))]


def _top_k_trusts_what_is_left() -> list[Patch]:
    """As if rows behind the last stored one could not move up."""
    original = p.text
    changed = {"__fl_rank <= __fl_last": "true"}

    def text(sql: str, *columns: str) -> p.Expr:
        for old, new in changed.items():
            sql = sql.replace(old, new)
        return original(sql, *columns)

    return [attr(p, "text", text)]


def _grouping_sets_forget_the_weight() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return found and replace(found, rows=tuple((*row[:-1], p.text("1L")) for row in found.rows))

    return rule(p.Expand, change)


def _generators_see_insertions_only() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return found and _inserted(found)

    return rule(p.Generate, change)


STORED_MUTATIONS = (
    Mutation("window keys come from insertions only", _window_keys_come_from_insertions_only, "windows_and_top_k"),
    Mutation("window reads only the change", _window_reads_only_the_change, "windows_and_top_k"),
    Mutation("one side of a set operation", _set_operation_counts_the_change_of_one_side, "set_operations"),
    Mutation("top-k is never read again", _top_k_is_never_read_again, "windows_and_top_k"),
    Mutation("top-k forgets removals", _top_k_forgets_removals, "windows_and_top_k"),
    Mutation("top-k trusts what is left", _top_k_trusts_what_is_left, "windows_and_top_k"),
    Mutation("grouping sets forget the weight", _grouping_sets_forget_the_weight, "aggregates"),
    Mutation("generators see insertions only", _generators_see_insertions_only, "generators"),
)
