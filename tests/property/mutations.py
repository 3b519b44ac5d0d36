"""Break every rule in turn and show that the default tests notice: `python -m tests.property.mutations`.

Each mutation is first held against the tests of the rules on DuckDB, then played on Spark: the scenarios that should
notice it, the seeds, and all other scenarios, each as far as they are part of the default run. What passes all of these
is reported.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from freshlake.compiler import derive, restrict
from freshlake.compiler import plan as p
from freshlake.compiler.passes import drop_empty as drop_empty_module
from freshlake.compiler.rules import aggregate, aggregate_state, current_time, inner_join, stored
from freshlake.compiler.rules.weights import COLUMN, weighted
from freshlake.refresh import commit, run
from freshlake.session import start
from freshlake.storage import netting, read, small
from freshlake.storage.scan import KeyFilter
from tests.local_spark import SETTINGS
from tests.property import join_mutations as joins
from tests.property.every_rule import MUTATIONS_OF_EVERY_RULE
from tests.property.mutation import POSITIVE, Mutation, Patch
from tests.property.mutation import attr as _attr
from tests.property.mutation import rule as _rule
from tests.property.noticing import failing_unit_test, noticed_on_spark
from tests.property.stored_mutations import STORED_MUTATIONS


def _texts(original: Callable[..., Iterator[tuple[str, str]]], old: str, new: str) -> Callable[..., Any]:
    return lambda *args: ((name, formula.replace(old, new)) for name, formula in original(*args))


# Linear operators ----------------------------------------------------------------------------------------------------


def _filter_keeps_insertions_only() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return found and p.Filter(found.columns, found, (POSITIVE,))

    return _rule(p.Filter, change)


def _filter_lets_removals_pass() -> list[Patch]:
    def change(node: Any, view: Any, _: Any) -> p.Plan | None:
        child = view.delta(node.child)
        kept = [p.Filter(child.columns, child, node.on), p.Filter(child.columns, child, (p.text(f"{p.WEIGHT} < 0"),))]
        return p.Union(child.columns, tuple(kept))

    return _rule(p.Filter, change)


def _project_forgets_the_weight() -> list[Patch]:
    def change(node: Any, view: Any, _: Any) -> p.Plan | None:
        child = view.delta(node.child)
        weight = p.Item(p.WEIGHT, p.text("1L"))
        return child and p.Project((*node.columns, COLUMN), child, (*node.items, weight))

    return _rule(p.Project, change)


def _union_drops_a_branch() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return found and replace(found, inputs=found.inputs[:1])

    return _rule(p.Union, change)


def _scan_sees_insertions_only() -> list[Patch]:
    def change(node: Any, view: Any, original: Any) -> p.Plan | None:
        found = original(node, view)
        return p.Filter(found.columns, found, (POSITIVE,))

    return _rule(p.Scan, change)


# Joins ---------------------------------------------------------------------------------------------------------------


def _join_reads_after_for_before() -> list[Patch]:
    return [_attr(derive._Builder, "before", lambda self, plan: weighted(self.after(plan)))]


def _join_keeps_one_term() -> list[Patch]:
    return [_attr(inner_join, "union", lambda terms: terms[0])]


def _join_forgets_the_other_weight() -> list[Patch]:
    original = inner_join.join_weighted

    def join(node: p.InnerJoin, inputs: Any, first: int) -> p.Plan:
        plan = original(node, inputs, first)
        assert isinstance(plan, p.Project)
        product = plan.items[-1]
        assert product.expr is not None
        only = p.Item(product.name, p.text(f"{p.WEIGHT}_{first}"))
        return replace(plan, items=(*plan.items[:-1], only))

    return [_attr(inner_join, "join_weighted", join)]


def _insert_only_is_claimed_for_every_change() -> list[Patch]:
    return [_attr(derive, "_only_adds", lambda node, *_: node.operator is None)]


def _flattening_loses_a_condition() -> list[Patch]:
    original = joins.FLATTEN._place
    return [_attr(joins.FLATTEN, "_place", lambda inputs, on, columns: original(inputs, on[:-1], columns))]


def _time_stands_still(when: p.When) -> list[Patch]:
    original = current_time.at
    return [_attr(current_time, "at", lambda time, _: original(time, when))]


# Aggregates ----------------------------------------------------------------------------------------------------------


def _stale(rewrite: Callable[[str], str]) -> list[Patch]:
    original = aggregate._merged_extrema

    def merged(*args: Any) -> p.Plan:
        plan = original(*args)
        assert isinstance(plan, p.Project)
        assert plan.items[-1].expr is not None
        test = p.Item("__fl_stale", p.text(rewrite(plan.items[-1].expr.text)))
        return replace(plan, items=(*plan.items[:-1], test))

    return [_attr(aggregate, "_merged_extrema", merged)]


def _extremum_is_never_recomputed() -> list[Patch]:
    return _stale(lambda _: "false")


def _any_insertion_excuses_the_recompute() -> list[Patch]:
    worse = r"not coalesce\((__fl_i\d+) [<>] __fl_m\d+, false\)"
    return _stale(lambda test: re.sub(worse, r"\1 is null", test))


def _extremum_ignores_the_number_of_values() -> list[Patch]:
    original = aggregate._merged_extrema

    def merged(*args: Any) -> p.Plan:
        plan = original(*args)
        assert isinstance(plan, p.Project)
        items = [_without_count(i) for i in plan.items]
        return replace(plan, items=tuple(items))

    return [_attr(aggregate, "_merged_extrema", merged)]


def _without_count(item: p.Item) -> p.Item:
    if item.expr is None or not item.name.startswith("__fl_m"):
        return item
    return replace(item, expr=p.text(re.sub(r"__fl_n\d+ = 0", "false", item.expr.text)))


def _empty_groups_stay() -> list[Patch]:
    original = aggregate_state.finished

    def finished(aggregated: p.Aggregate, state: p.Plan) -> p.Plan:
        plan = original(aggregated, state)
        below = plan.children[0]
        return plan.with_children((below.child,)) if isinstance(below, p.Filter) else plan

    return [_attr(aggregate_state, "finished", finished)]


def _nulls_are_counted() -> list[Patch]:
    return [_attr(aggregate_state, "counted", lambda call: "true")]


def _call_filters_are_ignored() -> list[Patch]:
    return [_attr(aggregate_state, "value", lambda call: f"__fl_a{call.slot}_0")]


def _stored_state_is_ignored() -> list[Patch]:
    return [_attr(aggregate, "union", lambda terms: terms[-1])]


def _sums_ignore_the_sign() -> list[Patch]:
    changed = _texts(aggregate_state._changes, f"cast({p.WEIGHT} as", f"cast(abs({p.WEIGHT}) as")
    return [_attr(aggregate_state, "_changes", changed)]


def _wide_decimals_are_multiplied() -> list[Patch]:
    return [_attr(aggregate_state, "_is_wide", lambda _: False)]


def _copies_of_wide_decimals_count_once() -> list[Patch]:
    return [_attr(aggregate_state, "_one_row_per_copy", lambda plan: plan)]


def _groups_come_from_insertions_only() -> list[Patch]:
    original = aggregate._recompute

    def recompute(node: Any, aggregated: p.Aggregate, change: p.Plan, build: Any) -> p.Plan:
        return original(node, aggregated, p.Filter(change.columns, change, (POSITIVE,)), build)

    return [_attr(aggregate, "_recompute", recompute)]


def _old_rows_are_not_subtracted() -> list[Patch]:
    def nothing(plan: p.Plan) -> p.Plan:
        return p.Filter(weighted(plan).columns, weighted(plan), (p.text("false"),))

    return [_attr(stored, "negate", nothing)]


def _changes_of_nodes_are_forgotten() -> list[Patch]:
    return _rule(p.NodeRef, lambda node, view, original: None)


# Restricting and leaving out -----------------------------------------------------------------------------------------


def _null_keys_match_nothing() -> list[Patch]:
    original = p.text
    return [_attr(p, "text", lambda sql, *columns: original(sql.replace("<=>", "="), *columns))]


def _null_keys_are_pruned_away() -> list[Patch]:
    original = run.Runner._keys

    def keys(self: Any, leaf: p.State) -> list[KeyFilter]:
        return [replace(k, has_null=False) for k in original(self, leaf)]

    return [_attr(run.Runner, "_keys", keys)]


def _hints_name_another_column() -> list[Patch]:
    original = restrict._hint

    def hint(plan: p.Plan, name: str, *rest: Any) -> p.Plan:
        if isinstance(plan, p.State):
            return original(plan, plan.names[-1 if plan.names[0] == name else 0], *rest)
        return original(plan, name, *rest)

    return [_attr(restrict, "_hint", hint)]


def _keys_follow_any_condition() -> list[Patch]:
    """As if every condition between two columns were an equality."""
    original = restrict._tied

    def tied(pairs: Any, on: Any) -> Any:
        return original(pairs, [replace(e, equality=e.columns) if len(e.columns) == 2 else e for e in on])

    return [_attr(restrict, "_tied", tied)]


def _a_union_with_an_empty_branch_is_empty() -> list[Patch]:
    original = drop_empty_module.drop_empty

    def drop(plan: p.Plan, is_empty: Any) -> p.Plan | None:
        if isinstance(plan, p.Union) and any(original(c, is_empty) is None for c in plan.inputs):
            return None
        return original(plan, is_empty)

    return [_attr(drop_empty_module, "drop_empty", drop), _attr(run, "drop_empty", drop)]


# Around the rules ----------------------------------------------------------------------------------------------------


def _one_changed_source_is_forgotten() -> list[Patch]:
    original = commit.Changed
    return [_attr(commit, "Changed", lambda sources, inserts: original(frozenset(sorted(sources)[:1]), inserts))]


def _copies_are_stored_once() -> list[Patch]:
    def once(table: Any) -> Any:
        return table.drop_columns([netting.WEIGHT])

    return [_attr(module, "copies", once) for module in (netting, read, small)]


MUTATIONS = (
    Mutation("filter keeps insertions only", _filter_keeps_insertions_only, "filters_and_projections"),
    Mutation("filter lets removals pass", _filter_lets_removals_pass, "filters_and_projections"),
    Mutation("project forgets the weight", _project_forgets_the_weight, "filters_and_projections"),
    Mutation("union drops a branch", _union_drops_a_branch, "set_operations"),
    Mutation("scan sees insertions only", _scan_sees_insertions_only, "duplicates"),
    Mutation("join reads after for before", _join_reads_after_for_before, "inner_joins"),
    Mutation("join keeps one term", _join_keeps_one_term, "inner_joins"),
    Mutation("join forgets the other weight", _join_forgets_the_other_weight, "inner_joins"),
    Mutation("insert-only is claimed for every change", _insert_only_is_claimed_for_every_change, "inner_joins"),
    Mutation("presence follows the sign of the change", joins.presence_follows_the_sign_of_the_change, "subqueries"),
    Mutation("removed matches count as new", joins.removed_matches_count_as_new, "subqueries"),
    Mutation("padding stays", joins.padding_stays, "outer_joins"),
    Mutation("all-NULL matches are padding", joins.all_null_matches_are_taken_for_padding, "outer_joins"),
    Mutation("new rows are not padded", joins.new_rows_are_not_padded, "outer_joins"),
    Mutation("a full join pads one side", joins.a_full_join_pads_one_side, "outer_joins"),
    Mutation("a flag is never taken back", joins.a_flag_is_set_but_never_taken_back, "subqueries"),
    Mutation("an anti join adds", joins.an_anti_join_adds_what_it_should_remove, "subqueries"),
    Mutation("keys turn beside a NULL", joins.keys_turn_beside_a_null, "subqueries"),
    Mutation("a NULL counts as any value", joins.a_null_counts_as_any_value, "subqueries"),
    Mutation("a NULL turns the wrong way", joins.a_null_turns_the_wrong_way, "subqueries"),
    Mutation("a NULL finds no match", joins.a_null_finds_no_match, "subqueries"),
    Mutation("left conditions are ignored", joins.turns_ignore_the_left_condition, "outer_joins"),
    Mutation("right conditions are ignored", joins.matches_ignore_the_right_condition, "outer_joins"),
    Mutation("keys move below padding", joins.keys_move_below_padding, "outer_joins"),
    Mutation("filters move below padding", joins.filters_move_below_padding, "outer_joins"),
    Mutation("flattening loses a condition", _flattening_loses_a_condition, "inner_joins"),
    Mutation("time stands still at the new moment", partial(_time_stands_still, p.When.AFTER), "time"),
    Mutation("time stands still at the old moment", partial(_time_stands_still, p.When.BEFORE), "time"),
    Mutation("extremum is never recomputed", _extremum_is_never_recomputed, "aggregates"),
    Mutation("any insertion excuses the recompute", _any_insertion_excuses_the_recompute, "aggregates"),
    Mutation("extremum of no values stays", _extremum_ignores_the_number_of_values, "aggregates"),
    Mutation("empty groups stay", _empty_groups_stay, "aggregates"),
    Mutation("NULLs are counted", _nulls_are_counted, "aggregates"),
    Mutation("filters of calls are ignored", _call_filters_are_ignored, "aggregates"),
    Mutation("stored state is ignored", _stored_state_is_ignored, "aggregates"),
    Mutation("sums ignore the sign", _sums_ignore_the_sign, "aggregates"),
    Mutation("wide decimals are multiplied", _wide_decimals_are_multiplied, "types"),
    Mutation("copies of wide decimals count once", _copies_of_wide_decimals_count_once, "types"),
    Mutation("groups come from insertions only", _groups_come_from_insertions_only, "aggregates"),
    Mutation("old rows are not subtracted", _old_rows_are_not_subtracted, "aggregates"),
    Mutation("changes of nodes are forgotten", _changes_of_nodes_are_forgotten, "aggregates"),
    Mutation("NULL keys match nothing", _null_keys_match_nothing, "aggregates"),
    Mutation("NULL keys are pruned away", _null_keys_are_pruned_away, "aggregates"),
    Mutation("hints name another column", _hints_name_another_column, "inner_joins"),
    Mutation("keys follow any condition", _keys_follow_any_condition, "aggregates"),
    Mutation("a union with an empty branch is empty", _a_union_with_an_empty_branch_is_empty, "set_operations"),
    Mutation("one changed source is forgotten", _one_changed_source_is_forgotten, "inner_joins"),
    Mutation("copies are stored once", _copies_are_stored_once, "duplicates"),
    *STORED_MUTATIONS,
    *MUTATIONS_OF_EVERY_RULE,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutations whose name holds one of these")
    words = parser.parse_args(arguments).words
    chosen = [m for m in MUTATIONS if not words or any(w in m.name for w in words)]
    folder = Path(tempfile.mkdtemp(prefix="freshlake-mutations-"))
    try:
        # before Spark starts, as processes are forked
        left = [m for m in chosen if not ((found := failing_unit_test(m)) and _show(m, found))]
        if left:
            start(folder / "warehouse", app_name="freshlake-mutations", settings=SETTINGS)
        return 1 if [m for m in left if not _show(m, noticed_on_spark(m, folder / m.name.replace(" ", "-")))] else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(mutation: Mutation, found: str | None) -> bool:
    sys.stdout.write(f"{'noticed    ' if found else 'NOT NOTICED'}  {mutation.name}{f': {found}' if found else ''}\n")
    sys.stdout.flush()
    return found is not None


if __name__ == "__main__":
    sys.exit(main())
