"""Repair: the corrections that an audit found, committed like the result of a refresh that reads nothing new.

The frontier stays. Internal nodes come first, the table's own log is the commit point, and the lease fences it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from freshlake.catalog.enums import Action
from freshlake.catalog.records import Lease
from freshlake.errors import FreshlakeError
from freshlake.refresh.audit import Inspection
from freshlake.refresh.choose import Decision
from freshlake.refresh.commit import Done, Work
from freshlake.refresh.definition import definition_of
from freshlake.refresh.inputs import Inputs
from freshlake.refresh.refused import defect
from freshlake.refresh.run import Runner
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.stored import stored_nodes
from freshlake.refresh.terms import Terms

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

REASON = "audit-mismatch"


def repair(engine: Engine, lease: Lease, found: Inspection) -> Done:
    """Store what puts the table right; readers see it if they saw the table's newest version before."""
    table, compiled = found.table, engine.compiled(found.table)
    refresh = engine.catalog.begin_refresh(lease)
    decision = Decision(Action.REPAIR, REASON, None, {"sources": {}})
    definition, terms = definition_of(table), Terms(table.data_timestamp, publish=_is_published(found))
    work = Repair(engine, table, lease, refresh.refresh_id, decision, found.spans, compiled, definition, engine.reached)
    try:
        with translated():
            return replace(work, terms=terms, known_rows=found.row_counts).store(found)
    except Exception as error:
        known = error if isinstance(error, FreshlakeError) else defect(table.full_name, error)
        engine.catalog.fail_refresh(
            refresh.refresh_id,
            known,
            max_consecutive_errors=engine.settings.max_consecutive_errors,
            action=decision.action,
            fallback_reason=decision.reason,
            counted=False,
        )
        raise known from error


def _is_published(found: Inspection) -> bool:
    """A group that is not published yet is not published in parts."""
    table = found.table
    return (table.generation, table.version) == (table.published_generation, table.published_version)


@dataclass
class Repair(Work):
    """The append of a refresh, at the frontier where the table stands."""

    def store(self, found: Inspection) -> Done:
        stored = stored_nodes(self.engine, self.table, self.compiled)
        runner = Runner(self.engine.worker, self.compiled, Inputs(self.spans, stored), self.engine.settings)
        runner.results = dict(found.corrections)
        return self._append_results(runner, stored)

    def _frontier(self) -> dict[str, Any]:
        return dict(self.table.frontier or {})

    def _measured(self, target_rows: int | None) -> dict[str, Any]:
        """It says nothing about what refreshes cost."""
        return {}
