"""Stream tables that do not keep their schedule: too old, or too slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from freshlake.schedule.effective import Effective
from freshlake.schedule.state import Late, Watched
from freshlake.schedule.units import Group


def stale(
    tables: Mapping[str, Watched], schedules: Mapping[str, Effective], patient: Iterable[Group], now: datetime
) -> tuple[Late, ...]:
    """Tables that have been due twice since their data timestamp: older than twice their interval.

    A patient group is not refreshed before the slowest of its tables is due, so one is stale when all of them are.
    """
    old = {name: late for name in schedules if (late := _stale(tables[name], schedules[name], now))}
    for group in patient if old else ():
        if any(name not in old and _is_scheduled(tables, schedules, name) for name in group.tables):
            old = {name: late for name, late in old.items() if name not in group.tables}
    return tuple(old[name] for name in sorted(old))


def falling_behind(
    tables: Mapping[str, Watched], schedules: Mapping[str, Effective], now: datetime
) -> tuple[Late, ...]:
    """Tables whose refreshes usually take longer than their interval, before it was stretched for that."""
    found = []
    for name in sorted(schedules):
        table, typical = tables[name], tables[name].typical_seconds
        if typical is None or not _is_scheduled(tables, schedules, name):
            continue
        interval = (schedules[name].shortest_seconds or 0) / schedules[name].stretch
        if typical > interval:
            found.append(Late(name, _age(table, now), interval))
    return tuple(found)


def _stale(table: Watched, schedule: Effective, now: datetime) -> Late | None:
    if not table.is_active or table.is_immediate or table.data_timestamp is None:
        return None
    second = schedule.moment_after(table.data_timestamp, 2)
    if second is None or now <= second:
        return None
    return Late(table.name, _age(table, now), schedule.shortest_seconds or 0)


def _is_scheduled(tables: Mapping[str, Watched], schedules: Mapping[str, Effective], name: str) -> bool:
    """Whether its schedule alone makes it due."""
    schedule = schedules.get(name)
    return schedule is not None and tables[name].is_active and not (schedule.is_immediate or schedule.is_on_demand)


def _age(table: Watched, now: datetime) -> float:
    return 0 if table.data_timestamp is None else (now - table.data_timestamp).total_seconds()
