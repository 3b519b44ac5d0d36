"""A new definition of a stream table: loaded aside, then swapped in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from freshlake.catalog.enums import Action
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.compiler.compile import CompiledQuery
from freshlake.errors import FreshlakeError
from freshlake.refresh import commit
from freshlake.refresh.choose import Decision
from freshlake.refresh.definition import Definition
from freshlake.refresh.engine import Engine
from freshlake.refresh.inputs import spans_of
from freshlake.refresh.leasing import leased
from freshlake.refresh.recover import adopt
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.terms import Terms
from freshlake.service.moment import Round
from freshlake.service.names import Names


def rebuild(
    engine: Engine,
    names: Names,
    table: StreamTable,
    definition: Definition,
    compiled: CompiledQuery,
    edges: tuple[Dependency, ...],
    moment: Round,
    changes: Mapping[str, Any],
    reason: str,
) -> StreamTable:
    """Load a table by a new definition beside what it holds, and swap it in at once; raises what the load raises."""
    decision = Decision(Action.REINITIALIZE, reason, None, {"sources": {}})
    with leased(engine, [table.id], wait_seconds=engine.settings.immediate_wait_seconds) as leases:
        lease = leases[table.id]
        engine.require_columns(table, compiled)
        current = adopt(engine, engine.catalog.get_by_id(table.id), lease)
        refresh = engine.catalog.begin_refresh(lease)
        sources = {e.source_key: engine.source(e) for e in edges}
        spans = spans_of(replace(current, frontier=None), sources, engine.heads(edges, moment.pins))
        work = commit.Work(
            engine,
            current,
            lease,
            refresh.refresh_id,
            decision,
            spans,
            compiled,
            definition,
            engine.reached,
            changes,
            edges,
            Terms(moment.at),
        )
        try:
            with translated():
                work.perform()
        except FreshlakeError as error:
            engine.catalog.fail_refresh(
                refresh.refresh_id,
                error,
                max_consecutive_errors=engine.settings.max_consecutive_errors,
                action=decision.action,
                fallback_reason=decision.reason,
                counted=False,
            )
            raise
    engine.forget(table)
    engine.ddl += 1
    after = engine.catalog.get_by_id(table.id)
    names.show(after)
    return after
