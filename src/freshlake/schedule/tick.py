"""A tick: what to refresh now, in which units and order, as a function of the graph, the state and the time.

A due table brings all stream tables that it reads, so that everything in a tick shows the sources at one moment. Tables
of a group come together. IMMEDIATE tables follow what they read. What is hindered is left out, and brings nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from freshlake.schedule.due import next_due
from freshlake.schedule.effective import Effective, effective_schedules
from freshlake.schedule.graph import Graph
from freshlake.schedule.hindrance import RUNNING, hindrances
from freshlake.schedule.late import falling_behind, stale
from freshlake.schedule.publication import withheld
from freshlake.schedule.selection import Part, brought, followers, parts, waits
from freshlake.schedule.state import Consistency, Policy, Skipped, State, Tick, Tier, Unit, Watched
from freshlake.schedule.units import Group, Groups, groups_of

_PRIORITIES = {Tier.HOT: 2, Tier.WARM: 3, Tier.COLD: 4, Tier.FROZEN: 4}


def tick(graph: Graph, state: State, now: datetime) -> Tick:
    """What to do now. Costs a few microseconds per table when nothing is due."""
    if not state.limits.enabled:
        return Tick()
    schedules = effective_schedules(graph, state.tables, state.limits)
    groups = groups_of(
        graph,
        loose=[name for name, table in state.tables.items() if table.consistency is Consistency.NONE],
        declared=state.groups,
    )
    state = _without_what_has_to_wait(graph, groups, state, now)
    tables = state.tables
    moments = {name: m for name in schedules if (m := _moment(graph, state, schedules[name], name, now)) is not None}
    patient = tuple(group for group in groups.all if _is_patient(group, tables))
    waiting = tuple(group for group in patient if _waits(group, tables, moments, now))
    due = _due(moments, waiting, now)
    awaited = _awaited(tables, moments, waiting, now)
    hindered = hindrances(graph, groups, tables, now) if due else {}
    selected = brought(graph, groups, _immediate(tables), due, without=hindered)
    skipped = tuple(hindered[name] for name in sorted(due) if name in hindered)
    held = withheld(graph, groups, tables, hindered, now) if selected else frozenset()
    return Tick(
        units=_units(graph, groups, tables, selected, held),
        skipped=tuple(s for s in skipped if not _is_under_way(s, tables, schedules[s.table], now)),
        stale=stale(tables, schedules, patient, now),
        falling_behind=falling_behind(tables, schedules, now),
        next_due=_next(tables, awaited, now),
        moments=awaited,
    )


def _without_what_has_to_wait(graph: Graph, groups: Groups, state: State, now: datetime) -> State:
    """What is committed and cannot be published yet is no reason to refresh it sooner than its schedule says."""
    if not any(table.is_unpublished for table in state.tables.values()):
        return state
    held = withheld(graph, groups, state.tables, hindrances(graph, groups, state.tables, now), now)
    # an IMMEDIATE table is published with what it follows
    held |= followers(graph, _immediate(state.tables), held)
    waiting = {name: replace(state.tables[name], is_unpublished=False) for name in held & state.tables.keys()}
    return replace(state, tables={**state.tables, **waiting})


def _moment(graph: Graph, state: State, schedule: Effective, name: str, now: datetime) -> datetime | None:
    tables, limits = state.tables, state.limits
    floor = limits.floor_seconds
    if not tables[name].is_immediate:
        return next_due(tables[name], schedule, now, aligned=limits.aligned, floor_seconds=floor)
    read = (tables[upstream].data_timestamp for upstream in graph.inputs(name) if upstream in tables)
    newest = max((moment for moment in read if moment is not None), default=None)
    return next_due(tables[name], schedule, now, newest_upstream=newest, floor_seconds=floor)


def _is_under_way(skipped: Skipped, tables: Mapping[str, Watched], schedule: Effective, now: datetime) -> bool:
    """Whether a table is left out for work that began when it was due and goes on: it has not missed its turn yet."""
    if skipped.reason != RUNNING:
        return False
    began = tables[skipped.because_of or skipped.table].leased_at
    again = None if began is None else schedule.moment_after(began)
    return again is not None and now < again


def _is_patient(group: Group, tables: Mapping[str, Watched]) -> bool:
    """Whether a group is due with its last member; of several heads the strictest decides."""
    return any(name in tables and tables[name].policy is Policy.SLOWEST for name in group.heads)


def _waits(group: Group, tables: Mapping[str, Watched], moments: Mapping[str, datetime], now: datetime) -> bool:
    """Whether a patient group has a member that is not due yet, and none that cannot wait.

    A member that waits for a retry is not waited for: the healthy ones go on without it.
    """
    own = [tables[name] for name in group.tables if name in moments]
    if any(moments[t.name] <= now and _cannot_wait(t) for t in own):
        return False
    return any(moments[t.name] > now and not _is_held(t, now) for t in own)


def _cannot_wait(table: Watched) -> bool:
    return table.is_wanted or table.is_immediate or table.is_unpublished or table.data_timestamp is None


def _is_held(table: Watched, now: datetime) -> bool:
    return table.retry_at is not None and table.retry_at > now


def _due(moments: Mapping[str, datetime], waiting: Iterable[Group], now: datetime) -> list[str]:
    held = {name for group in waiting for name in group.tables}
    return [name for name, moment in moments.items() if moment <= now and name not in held]


def _immediate(tables: Mapping[str, Watched]) -> frozenset[str]:
    return frozenset(name for name, table in tables.items() if table.is_immediate)


def _units(
    graph: Graph,
    groups: Groups,
    tables: Mapping[str, Watched],
    selected: Collection[str],
    held: frozenset[str],
) -> tuple[Unit, ...]:
    if not selected:
        return ()
    divided = parts(graph, groups, _immediate(tables), selected)
    return tuple(_published(unit, groups, held) for unit in _ordered(graph, tables, divided))


def _published(unit: Unit, groups: Groups, held: frozenset[str]) -> Unit:
    """The unit with what it says about its groups."""
    mates = {name: None for own in unit.tables if own in groups.of for name in groups.of[own].tables}
    beside = tuple(name for name in mates if name not in unit.tables)
    return replace(unit, publishes=held.isdisjoint(unit.tables), beside=beside) if beside else unit


def _ordered(graph: Graph, tables: Mapping[str, Watched], divided: tuple[Part, ...]) -> tuple[Unit, ...]:
    """Units in an order in which they can run one by one; of those that could be next the most urgent, then by name."""
    before = waits(graph, divided)
    urgency = [min(_priority(tables[name]) for name in names) for names in divided]
    # what an urgent unit waits for is as urgent
    for place in reversed(tuple(TopologicalSorter(before).static_order())):
        for upstream in before[place]:
            urgency[upstream] = min(urgency[upstream], urgency[place])
    units: list[Unit] = []
    position: dict[int, int] = {}
    for place in _by_urgency(before, [(urgency[place], names[0], place) for place, names in enumerate(divided)]):
        position[place] = len(units)
        after = tuple(sorted(position[upstream] for upstream in before[place]))
        units.append(Unit(divided[place], len(divided[place]) > 1, urgency[place], after))
    return tuple(units)


def _by_urgency(before: Mapping[int, set[int]], keys: list[tuple[int, str, int]]) -> Iterator[int]:
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[tuple[int, str, int]] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, keys[place])
        place = heappop(ready)[2]
        yield place
        sorter.done(place)


def _priority(table: Watched) -> int:
    return 1 if table.is_immediate else _PRIORITIES[table.tier]


def _awaited(
    tables: Mapping[str, Watched], moments: Mapping[str, datetime], waiting: Iterable[Group], now: datetime
) -> dict[str, datetime]:
    """A patient group is due with its last member."""
    at = dict(moments)
    for group in waiting:
        own = [name for name in group.tables if name in moments and not _is_held(tables[name], now)]
        at.update(dict.fromkeys(own, max(moments[name] for name in own)))
    return at


def _next(tables: Mapping[str, Watched], moments: Mapping[str, datetime], now: datetime) -> datetime | None:
    # who cannot do without a table that failed can go on when that is tried again
    retries = (t.retry_at for t in tables.values() if t.retry_at is not None and t.is_active and not t.is_blown)
    return min((moment for moment in (*moments.values(), *retries) if moment > now), default=None)
