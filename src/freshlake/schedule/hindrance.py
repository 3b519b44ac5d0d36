"""Which stream tables must not be refreshed now, and which of the others that holds back.

A table that is being refreshed holds back its group and everything below: they are refreshed when it has ended, for the
longer time at once. A table that rests (not active, fuse blown, waiting for a retry, frozen) is read as it is, except
where that would show two states of one root: a table that meets the root by another way too is left out, and rests then
itself. `diamond_consistency` none allows two states. A table in quarantine is not read at all: its readers wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from freshlake.schedule.graph import Graph
from freshlake.schedule.shape import Shape, shape_of
from freshlake.schedule.state import Consistency, Skipped, Tier, Watched
from freshlake.schedule.units import Groups

RUNNING = "running"
RESTING = "resting"
UPSTREAM_UNAVAILABLE = "upstream-unavailable"
UPSTREAM_EMPTY = "upstream-empty"
UPSTREAM_QUARANTINED = "upstream-quarantined"


def hindrances(graph: Graph, groups: Groups, tables: Mapping[str, Watched], now: datetime) -> dict[str, Skipped]:
    """Why each table that must not be refreshed now must not, by name."""
    found = _resting(graph, tables, now)
    if found:
        _leave_out(graph, tables, found)
    for name, leased in _running(graph, groups, tables).items():
        if name not in found or found[name].reason != RESTING:
            detail = f"{leased} is being refreshed"
            found[name] = Skipped(name, RUNNING, detail, None if name == leased else leased)
    return found


def _resting(graph: Graph, tables: Mapping[str, Watched], now: datetime) -> dict[str, Skipped]:
    wanted = _wanted(graph, tables)
    words = {name: _words(tables.get(name), now, is_wanted=name in wanted) for name in graph.reads}
    return {name: Skipped(name, RESTING, f"{name} {word}") for name, word in words.items() if word}


def _words(table: Watched | None, now: datetime, *, is_wanted: bool) -> str | None:
    if table is None:
        return "is not known"
    if table.is_quarantined:
        return "is in quarantine"
    if not table.is_active:
        return "is not active"
    if table.is_blown:
        return "has blown its fuse"
    if table.retry_at is not None and table.retry_at > now:
        return f"failed and is tried again at {table.retry_at:%Y-%m-%d %H:%M:%S}"
    return "is frozen" if table.tier is Tier.FROZEN and not is_wanted else None


def _wanted(graph: Graph, tables: Mapping[str, Watched]) -> set[str]:
    """Who waits for a table waits for all that it reads."""
    asked = {name for name in graph.reads if name in tables and tables[name].is_wanted}
    return asked.union(*(graph.upstream(name) for name in asked))


def _running(graph: Graph, groups: Groups, tables: Mapping[str, Watched]) -> dict[str, str]:
    """Tables that are being refreshed, their groups and all that is below, each with the table it waits for."""
    found = {name: name for name in graph.reads if name in tables and tables[name].is_leased}
    pending = list(found)
    while pending:
        name = pending.pop()
        group = groups.of.get(name)
        for other in (*graph.readers(name), *(group.tables if group else ())):
            if other not in found:
                found[other] = found[name]
                pending.append(other)
    return found


def _leave_out(graph: Graph, tables: Mapping[str, Watched], found: dict[str, Skipped]) -> None:
    """Add the tables that cannot read resting ones as they are; upstream first, since these rest then themselves."""
    shape = shape_of(graph)
    live = {source: shape.bits[source] for source in graph.sources}
    rest = dict.fromkeys(graph.sources, 0)
    for name in graph.order():
        if name not in found and (skipped := _left_out(graph, shape, tables, found, live, rest, name)):
            found[name] = skipped
        if name in found:
            live[name], rest[name] = 0, shape.bits[name]
        elif not graph.reads[name]:
            live[name], rest[name] = shape.bits[name], 0
        else:
            live[name], rest[name] = _seen(graph, live, rest, name)


def _seen(graph: Graph, live: Mapping[str, int], rest: Mapping[str, int], name: str) -> tuple[int, int]:
    """The roots that a table sees as they are now, and the resting tables through which it sees others."""
    roots = resting = 0
    for upstream in graph.reads[name]:
        roots |= live[upstream]
        resting |= rest[upstream]
    return roots, resting


def _left_out(
    graph: Graph,
    shape: Shape,
    tables: Mapping[str, Watched],
    found: Mapping[str, Skipped],
    live: Mapping[str, int],
    rest: Mapping[str, int],
    name: str,
) -> Skipped | None:
    for upstream in sorted(graph.inputs(name)):
        if upstream in tables and tables[upstream].is_quarantined:
            return Skipped(name, UPSTREAM_QUARANTINED, found[upstream].detail, upstream)
        if upstream in found and (upstream not in tables or tables[upstream].data_timestamp is None):
            return Skipped(name, UPSTREAM_EMPTY, found[upstream].detail, upstream)
    if tables[name].consistency is Consistency.NONE:
        return None
    torn = _torn(graph, shape, live, rest, name)
    return Skipped(name, UPSTREAM_UNAVAILABLE, found[torn].detail, torn) if torn else None


def _torn(graph: Graph, shape: Shape, live: Mapping[str, int], rest: Mapping[str, int], name: str) -> str | None:
    """A resting table through which one input shows a root that another input shows in another state."""
    inputs = graph.reads[name]
    for resting in shape.members(_seen(graph, live, rest, name)[1]):
        own = shape.bits[resting]
        through = [upstream for upstream in inputs if rest[upstream] & own]
        for other in inputs:
            shown = live[other]
            for beside in shape.members(rest[other] & ~own):
                shown |= shape.roots[beside]
            if shown & shape.roots[resting] and through != [other]:
                return resting
    return None
