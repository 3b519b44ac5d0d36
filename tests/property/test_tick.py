"""Ticks over random graphs and states: what is refreshed is what must be, once, in order, and shows one moment."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from random import Random

from freshlake.schedule import Graph, parse_schedule
from freshlake.schedule.due import next_due
from freshlake.schedule.effective import effective_schedules
from freshlake.schedule.hindrance import hindrances
from freshlake.schedule.state import Consistency, Policy, State, Tick, Tier, Watched
from freshlake.schedule.tick import tick
from freshlake.schedule.units import Groups, groups_of
from tests.unit.schedule_cases import NOW, ago, later, random_graph, ways

Case = tuple[Graph, State, Tick]


def watched(random: Random, name: str) -> Watched:
    return Watched(
        name,
        parse_schedule(random.choice(["60s", "60s", "10m", "@hourly", None])),
        is_active=random.random() > 0.08,
        is_failed=random.random() < 0.5,
        is_immediate=random.random() < 0.12,
        tier=random.choice([*([Tier.HOT] * 8), *Tier]),
        data_timestamp=random.choice([ago(0), ago(10), ago(70), ago(700), None]),
        is_leased=random.random() < 0.04,
        retry_at=random.choice([*([None] * 8), ago(5), later(5)]),
        is_blown=random.random() < 0.03,
        is_wanted=random.random() < 0.1,
        consistency=random.choice([Consistency.ATOMIC, Consistency.ATOMIC, Consistency.NONE]),
        policy=random.choice([Policy.FASTEST, Policy.FASTEST, Policy.SLOWEST]),
    )


@lru_cache
def cases() -> list[Case]:
    """The same in every run; graphs are small enough to be read when one fails."""
    found = []
    for seed in range(800):
        random = Random(seed)
        graph = random_graph(random, 10)
        names = sorted(graph.reads)
        tables = {name: watched(random, name) for name in names}
        group = frozenset(random.sample(names, random.choice([0, 0, min(2, len(names)), min(3, len(names))])))
        state = State(tables, (group,))
        found.append((graph, state, tick(graph, state, NOW)))
    return found


def test_the_cases_are_of_every_kind() -> None:
    found = [decided for _, _, decided in cases()]
    reasons = {skipped.reason for t in found for skipped in t.skipped}
    assert reasons == {"running", "upstream-unavailable", "upstream-empty"}
    for has in (
        lambda t: not t.units,
        lambda t: any(len(unit.tables) > 2 for unit in t.units),
        lambda t: any(len(unit.after) > 1 for unit in t.units),
        lambda t: t.stale,
        lambda t: t.next_due,
    ):
        assert sum(1 for t in found if has(t)) > 20


def place(found: Tick) -> dict[str, int]:
    return {name: at for at, unit in enumerate(found.units) for name in unit.tables}


def due(graph: Graph, state: State) -> set[str]:
    """Due by itself, whatever its group says."""
    schedules = effective_schedules(graph, state.tables, state.limits)
    found = set()
    for name, table in state.tables.items():
        read = [m for n in graph.inputs(name) if (m := state.tables[n].data_timestamp) is not None]
        moment = next_due(table, schedules[name], NOW, newest_upstream=max(read, default=None))
        if moment is not None and moment <= NOW:
            found.add(name)
    return found


def grouped(graph: Graph, state: State) -> Groups:
    loose = [name for name, table in state.tables.items() if table.consistency is Consistency.NONE]
    return groups_of(graph, loose=loose, declared=state.groups)


def test_every_table_is_in_one_unit_at_most_and_units_are_in_order() -> None:
    for graph, _, found in cases():
        names = [name for unit in found.units for name in unit.tables]
        assert len(names) == len(set(names))
        at = place(found)
        for name, unit in at.items():
            needed = {at[upstream] for upstream in graph.inputs(name) if upstream in at} - {unit}
            assert needed <= set(found.units[unit].after)
        for position, unit in enumerate(found.units):
            assert all(earlier < position for earlier in unit.after)
            assert unit.tables == graph.order(unit.tables)
            assert unit.is_atomic == (len(unit.tables) > 1)


def test_nothing_is_refreshed_that_must_not_be() -> None:
    for graph, state, found in cases():
        for name in place(found):
            table = state.tables[name]
            assert table.is_active
            assert not table.is_blown
            assert table.retry_at is None or table.retry_at <= NOW
            assert not any(state.tables[n].is_leased for n in (name, *graph.upstream(name)))
            empty = {n for n in graph.inputs(name) if state.tables[n].data_timestamp is None}
            assert empty <= place(found).keys()


def test_a_due_table_is_refreshed_or_left_out_with_a_reason_or_waits_in_a_patient_group() -> None:
    for graph, state, found in cases():
        left_out = {skipped.table for skipped in found.skipped}
        groups = grouped(graph, state)
        assert left_out.isdisjoint(place(found))
        assert left_out <= due(graph, state)
        for name in due(graph, state) - place(found).keys() - left_out:
            group = groups.of[name]
            assert any(state.tables[head].policy is Policy.SLOWEST for head in group.heads)
            assert any(mate not in due(graph, state) for mate in group.tables)


def test_everything_refreshed_is_due_or_needed_by_what_is() -> None:
    for graph, state, found in cases():
        selected, groups = place(found), grouped(graph, state)
        needed = due(graph, state) & selected.keys()
        pending = list(needed)
        while pending:
            name = pending.pop()
            mates = groups.of[name].tables if name in groups.of else ()
            followers = [reader for reader in graph.readers(name) if state.tables[reader].is_immediate]
            for other in {*graph.inputs(name), *mates, *followers} & selected.keys() - needed:
                needed.add(other)
                pending.append(other)
        assert needed == selected.keys()


def test_a_table_brings_all_it_reads_that_does_not_rest() -> None:
    for graph, state, found in cases():
        selected = place(found)
        for name in due(graph, state) & selected.keys():
            for upstream in graph.inputs(name) - selected.keys():
                table = state.tables[upstream]
                waits = table.retry_at is not None and table.retry_at > NOW
                torn = len(graph.reads[upstream]) > 1 or any(
                    state.tables[n].data_timestamp is None for n in graph.inputs(upstream)
                )
                assert not table.is_active or table.is_blown or waits or table.tier is Tier.FROZEN or torn


def test_a_group_is_in_one_unit_and_what_is_missing_cannot_run() -> None:
    for graph, state, found in cases():
        selected = place(found)
        for group in grouped(graph, state).all:
            assert len({selected[name] for name in group.tables if name in selected}) <= 1
            missing = [name for name in group.tables if name not in selected]
            if len(missing) < len(group.tables):
                assert not any(state.tables[name].is_leased for name in missing)


def test_readers_see_a_part_of_a_group_only_if_no_failure_keeps_the_rest_of_it_back() -> None:
    for graph, state, found in cases():
        for unit in found.units:
            groups = [group for group in grouped(graph, state).all if not {*group.tables}.isdisjoint(unit.tables)]
            missing = {name for group in groups for name in group.tables} - {*unit.tables}
            assert set(unit.beside) == missing
            failed = {name for name in missing if _failed(state.tables[name])}
            assert not (failed and unit.publishes)
            assert unit.publishes or missing


def _failed(table: Watched) -> bool:
    if table.tier is Tier.FROZEN:
        return False
    waits = table.is_blown or (table.retry_at is not None and table.retry_at > NOW)
    return waits if table.is_active else table.is_failed


def test_an_immediate_table_is_in_the_unit_of_what_it_reads() -> None:
    for graph, state, found in cases():
        selected = place(found)
        for name in selected:
            if state.tables[name].is_immediate:
                assert {selected[n] for n in graph.inputs(name) if n in selected} <= {selected[name]}


def seen(graph: Graph, selected: Container[str], name: str) -> dict[str, set[str]]:
    """The states in which a table sees each root: through the first table that is not refreshed, or as of now."""
    shown: dict[str, set[str]] = {}
    for way in ways(graph, name):
        through = next((node for node in way if node in graph.reads and node not in selected), "now")
        shown.setdefault(way[-1], set()).add(through)
    return shown


def is_torn(graph: Graph, selected: Container[str], name: str) -> bool:
    inputs = [seen(graph, selected, upstream) for upstream in graph.reads[name]]
    return any(
        len(one[root] | other[root]) > 1 for one, other in combinations(inputs, 2) for root in one.keys() & other.keys()
    )


def test_a_consistent_table_sees_each_root_in_one_state() -> None:
    for graph, state, found in cases():
        for name in place(found):
            assert state.tables[name].consistency is Consistency.NONE or not is_torn(graph, place(found), name)


def test_a_table_is_left_out_only_if_it_would_see_a_root_in_two_states() -> None:
    for graph, state, found in cases():
        hindered = hindrances(graph, grouped(graph, state), state.tables, NOW)
        able = state.tables.keys() - {name for name, why in hindered.items() if why.reason != "running"}
        for skipped in found.skipped:
            if skipped.reason == "upstream-unavailable":
                assert is_torn(graph, able, skipped.table)


def test_after_a_tick_that_left_nothing_out_there_is_nothing_to_do() -> None:
    for graph, state, found in cases():
        at = place(found)
        if due(graph, state) <= at.keys():
            tables = {
                name: replace(table, data_timestamp=NOW, is_wanted=False) if name in at else table
                for name, table in state.tables.items()
            }
            assert tick(graph, replace(state, tables=tables), NOW).units == ()
