"""Groups of stream tables that are refreshed and published together: diamonds, and what users declare.

A node above two inputs of a table D is a fork of D. D and every stream table between a fork and D that is no fork
itself must show one state of the fork, so they are one group. Groups that share a table are one. A group is closed:
what lies on a way from one member to another is a member, since a group runs as one. A source database is no fork: the
mirrors of its tables are a group themselves, so who reads several of them has one state before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from freshlake.schedule.graph import Graph
from freshlake.schedule.shape import Shape, shape_of


@dataclass(frozen=True)
class Group:
    """Stream tables that belong together, upstream first."""

    tables: tuple[str, ...]
    heads: Set[str]
    """Those that made it a group: the tables at the end of diamonds, and all of a declared group."""


@dataclass(frozen=True)
class Groups:
    """The groups of a graph; a table is in one at most."""

    all: tuple[Group, ...]
    of: Mapping[str, Group]


def groups_of(graph: Graph, *, loose: Collection[str] = (), declared: Iterable[frozenset[str]] = ()) -> Groups:
    """The groups of a graph. Diamonds that end in a loose table make none. Kept with the graph until these change."""
    key = (frozenset(loose), tuple(declared))
    kept: tuple[object, Groups] | None = graph.kept.get(Groups)
    if kept is None or kept[0] != key:
        kept = graph.kept[Groups] = (key, _groups(graph, *key))
    return kept[1]


def diamond_of(graph: Graph, table: str) -> frozenset[str]:
    """The table and the stream tables between its forks and it; empty when it has no fork."""
    shape = shape_of(graph)
    return frozenset(shape.members(_diamond(graph, shape, table)))


def _groups(graph: Graph, loose: frozenset[str], declared: tuple[frozenset[str], ...]) -> Groups:
    shape, order = shape_of(graph), graph.order()
    diamonds = {table: _diamond(graph, shape, table) for table in order if table not in loose}
    named = [frozenset(names & graph.reads.keys()) for names in declared]
    heads = {table for table, mask in diamonds.items() if mask}.union(*(names for names in named if len(names) > 1))
    together = [*(tuple(shape.members(mask)) for mask in diamonds.values()), *named]
    parts = (part for part in partition(graph, order, together) if len(part) > 1)
    groups = tuple(Group(part, heads.intersection(part)) for part in parts)
    return Groups(groups, {name: group for group in groups for name in group.tables})


def _diamond(graph: Graph, shape: Shape, table: str) -> int:
    seen = forks = 0
    for name in graph.reads[table]:
        forks |= seen & shape.above[name]
        seen |= shape.above[name]
    for database in graph.databases & shape.bits.keys():
        forks &= ~shape.bits[database]
    # what is above a fork is a fork too, so what is below any fork is below one that is a root
    between = 0
    for root in shape.members(forks & shape.roots[table]):
        between |= shape.below[root]
    return (between & seen & ~forks) | shape.bits[table] if forks else 0


def partition(graph: Graph, tables: Sequence[str], together: Iterable[Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """The finest division of tables in which each set is in one part and no two parts wait for each other.

    Tables are given upstream first and stay so inside a part.
    """
    part = _joined(tables, together)
    waits: dict[str, set[str]] = {part[table]: set() for table in tables}
    for table in tables:
        waits[part[table]].update(part[name] for name in graph.inputs(table) if name in part)
    component = _components(waits)
    found: dict[str, list[str]] = {}
    for table in tables:
        found.setdefault(component[part[table]], []).append(table)
    return tuple(tuple(names) for names in found.values())


def _joined(tables: Sequence[str], together: Iterable[Collection[str]]) -> dict[str, str]:
    """A representative for every table, the same for tables that are together."""
    leader = {table: table for table in tables}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    for first, *others in filter(None, together):
        for other in others:
            leader[find(other)] = find(first)
    return {table: find(table) for table in tables}


def _components(edges: Mapping[str, Collection[str]]) -> dict[str, str]:
    """A representative for every node, the same for nodes that reach each other (Kosaraju, without recursion)."""
    back: dict[str, list[str]] = {node: [] for node in edges}
    for node, targets in edges.items():
        for target in targets:
            back[target].append(node)
    component: dict[str, str] = {}
    for start in reversed(_finished(edges)):
        pending = [] if start in component else [start]
        while pending:
            node = pending.pop()
            if node not in component:
                component[node] = start
                pending.extend(back[node])
    return component


def _finished(edges: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes in the order in which a search in depth leaves them."""
    seen: set[str] = set()
    finished: list[str] = []
    for start in edges:
        pending = [(start, False)]
        while pending:
            node, is_left = pending.pop()
            if is_left:
                finished.append(node)
            elif node not in seen:
                seen.add(node)
                pending.append((node, True))
                pending.extend((target, False) for target in edges[node] if target not in seen)
    return finished
