"""Which groups readers must not see the rest of: one of their tables was stopped by a failure and not by a person.

A group is published at once. While a table of it waits for its retry, has blown its fuse, is in ERROR or in quarantine,
or is held back by such a table, the others are refreshed, and published with it when it goes on. What a person has
suspended or frozen, and what was never loaded, is left out instead. So is a mirror that has failed: its table may be
gone from the database, which is no reason to keep the others back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from freshlake.schedule.graph import Graph
from freshlake.schedule.hindrance import RUNNING
from freshlake.schedule.state import Skipped, Tier, Watched
from freshlake.schedule.units import Groups


def withheld(
    graph: Graph, groups: Groups, tables: Mapping[str, Watched], hindered: Mapping[str, Skipped], now: datetime
) -> frozenset[str]:
    """The tables of all groups that must not be published now."""
    found: set[str] = set()
    for group in groups.all if hindered else ():
        if any(_holds(graph, tables, hindered, name, now) for name in group.tables if name in hindered):
            found.update(group.tables)
    return frozenset(found)


def _holds(
    graph: Graph, tables: Mapping[str, Watched], hindered: Mapping[str, Skipped], name: str, now: datetime
) -> bool:
    if hindered[name].reason == RUNNING:
        return False
    cause = _cause(hindered, name)
    if cause not in tables:
        return False
    is_mirror = cause == name and not graph.databases.isdisjoint(graph.reads[name])
    return _has_failed(tables[cause], now) and not (is_mirror and not tables[cause].is_active)


def _cause(hindered: Mapping[str, Skipped], name: str) -> str:
    """The table that rests, where others are left out because of it."""
    while (because := hindered[name].because_of) is not None and because in hindered:
        name = because
    return name


def _has_failed(table: Watched, now: datetime) -> bool:
    if table.tier is Tier.FROZEN:
        return False
    if not table.is_active:
        return table.is_failed
    return table.is_blown or (table.retry_at is not None and table.retry_at > now)
