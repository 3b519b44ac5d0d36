"""What a scheduler would plan for every stream table now, whether one runs or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from freshlake.refresh.engine import Engine
from freshlake.schedule.effective import Effective, effective_schedules
from freshlake.schedule.state import State, Watched
from freshlake.schedule.tick import tick
from freshlake.service.known import Known
from freshlake.service.watched import limits, watched


@dataclass(frozen=True)
class Plan:
    """By full name."""

    levels: Mapping[str, int]
    seen: Mapping[str, Watched]
    schedules: Mapping[str, Effective]
    due: Mapping[str, datetime]
    """When a table is due next, which may have passed; none while scheduling is switched off."""
    stale: frozenset[str]
    """Older than twice its schedule."""


def plan_of(engine: Engine, now: datetime) -> Plan:
    dag, allowed = Known(engine.catalog).current(), limits(engine.settings)
    looked = engine.catalog.look()
    seen = {row.full_name: watched(row, now) for row in looked if row.full_name in dag.ids}
    # tables are as old as they are, also while nothing is refreshed
    decided = tick(dag.graph, State(seen, dag.declared, replace(allowed, enabled=True)), now)
    return Plan(
        dag.graph.levels,
        seen,
        effective_schedules(dag.graph, seen, allowed),
        decided.moments if allowed.enabled else {},
        frozenset(late.table for late in decided.stale),
    )
