"""Which tables come along when some are refreshed, and which of them are refreshed and published as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from graphlib import TopologicalSorter

from freshlake.schedule.graph import Graph
from freshlake.schedule.units import Groups, partition

Part = tuple[str, ...]


def brought(
    graph: Graph,
    groups: Groups,
    immediate: Collection[str],
    names: Iterable[str],
    without: Collection[str] = (),
) -> set[str]:
    """These tables, all that they read, all of their groups, and the IMMEDIATE tables that follow any of them."""
    selected: set[str] = set()
    bringing: set[str] = set()
    joined: set[str] = set()
    pending = [(name, True) for name in names]
    while pending:
        name, brings = pending.pop()
        if name in without or name in bringing or (name in selected and not brings):
            continue
        selected.add(name)
        # an IMMEDIATE table that follows is there for what it follows, and leaves its other inputs as they are
        pending.extend((reader, False) for reader in graph.readers(name) if reader in immediate)
        if brings:
            bringing.add(name)
            pending.extend((upstream, True) for upstream in graph.inputs(name))
        if (group := groups.of.get(name)) and group.tables[0] not in joined:
            joined.add(group.tables[0])
            pending.extend((mate, True) for mate in group.tables)
    return selected


def followers(graph: Graph, immediate: frozenset[str], names: Iterable[str]) -> set[str]:
    """The IMMEDIATE tables that read these, directly or through others in that mode."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        reached = (graph.readers(pending.pop()) & immediate) - found
        found |= reached
        pending.extend(reached)
    return found


def parts(graph: Graph, groups: Groups, immediate: Collection[str], selected: Collection[str]) -> tuple[Part, ...]:
    """The selected tables, those of a group side by side, an IMMEDIATE one with what it reads."""
    grouped = {groups.of[name].tables for name in selected if name in groups.of}
    together = [[name for name in names if name in selected] for names in grouped]
    for name in selected:
        if name in immediate:
            together.append([name, *(upstream for upstream in graph.inputs(name) if upstream in selected)])
    return partition(graph, graph.order(selected), together)


def waits(graph: Graph, divided: tuple[Part, ...]) -> dict[int, set[int]]:
    """Parts by their place, each with those that it reads."""
    place = {name: number for number, names in enumerate(divided) for name in names}
    return {
        number: {place[upstream] for name in names for upstream in graph.inputs(name) if upstream in place} - {number}
        for number, names in enumerate(divided)
    }


def in_order(graph: Graph, divided: tuple[Part, ...]) -> list[Part]:
    """Parts one after the other, each after all that it reads."""
    return [divided[number] for number in TopologicalSorter(waits(graph, divided)).static_order()]
