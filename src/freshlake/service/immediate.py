"""IMMEDIATE: a write of a source and what its stream tables become of it are one thing, done or not done.

A writer takes the leases of all stream tables that follow the source, writes, refreshes them to what it wrote, and
publishes them together. So writers of one source come one after the other, and readers never wait. If a table cannot
follow, the source is restored; but a commit of somebody else that came after is never undone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.errors import CommittedButNotMaintained, FreshlakeError, RefreshInProgress, WriteUndone
from freshlake.refresh.engine import Engine
from freshlake.refresh.recover import Heartbeat, wait_for_lease
from freshlake.refresh.roots import stands_at
from freshlake.service.rounds import Round, Rounds
from freshlake.sources.protocol import Position

_log = logging.getLogger("freshlake")


@dataclass
class Immediate:
    engine: Engine
    rounds: Rounds
    alerts: Alerts

    # Writing ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def maintained(self, names: Sequence[str]) -> Iterator[None]:
        """Write these plain tables inside the block; what follows them has followed when it ends."""
        edges = self._sources(names) if names and self.engine.catalog.has_mode(RefreshMode.IMMEDIATE) else []
        followers = self.rounds.followers([edge.source_name for edge in edges]) if edges else []
        if not followers:
            yield
            return
        with self._leased(followers) as leases:
            before = {edge.source_key: self.engine.source(edge).head() for edge in edges}
            yield
            after = {edge.source_key: self.engine.source(edge).head() for edge in edges}
            if after != before:
                self._follow(edges, followers, leases, before, after)
        for follower in followers:
            self.rounds.fold(self.engine.catalog.get_by_id(follower.id))

    def _sources(self, names: Sequence[str]) -> list[Dependency]:
        """The tables among these that stream tables read."""
        wanted = set(names)
        found = {}
        for edges in self.engine.catalog.all_dependencies().values():
            for edge in edges:
                if edge.stream_table_id is None and wanted & {edge.source_name, edge.location or ""}:
                    found[edge.source_key] = edge
        return list(found.values())

    @contextmanager
    def _leased(self, tables: Sequence[StreamTable]) -> Iterator[dict[int, Lease]]:
        """All leases or none, always in the same order, so that two writers cannot wait for each other."""
        seconds = self.engine.settings.lease_seconds
        with ExitStack() as held:
            leases = {}
            for table in sorted(tables, key=lambda t: t.id):
                lease = wait_for_lease(self.engine, table.id, self.engine.settings.immediate_wait_seconds)
                held.callback(self.engine.catalog.release_lease, lease)
                held.enter_context(Heartbeat(self.engine.catalog, lease, seconds))
                leases[table.id] = lease
            yield leases

    def _follow(
        self,
        edges: Sequence[Dependency],
        followers: Sequence[StreamTable],
        leases: Mapping[int, Lease],
        before: Mapping[str, Position],
        after: Mapping[str, Position],
    ) -> None:
        self.engine.reached("written")
        # other sources of these tables are read where they are now: foreign writers are caught up at the same time
        moment = self.rounds.begin(e for t in followers for e in self.engine.catalog.dependencies(t.id))
        moment = Round({**moment.pins, **after}, moment.at)
        outcome = self.rounds.run(followers, moment, leases=leases)
        if not outcome.failed:
            return
        table, error = next(iter(outcome.failed.items()))
        if all(self._undo(edge, before[edge.source_key], after[edge.source_key]) for edge in edges):
            raise WriteUndone(
                f"the write was undone: stream table {table} could not follow it", detail=str(error)
            ) from error
        names = ", ".join(edge.source_name for edge in edges)
        told = {"source": names, "version": max(at.version for at in after.values())}
        stale = [follower.full_name.short for follower in followers]
        failure = {"dependants": stale, "error_code": error.code, "error": error.message}
        self.alerts.emit(Event.COMMITTED_BUT_NOT_MAINTAINED, table, **told, **failure)
        raise CommittedButNotMaintained(
            f"{names} was written, but stream table {table} could not follow it", detail=str(error)
        ) from error

    def _undo(self, edge: Dependency, before: Position, after: Position) -> bool:
        """Restore a source if its newest commit is the one that was just made; True if it is as it was before."""
        if after == before:
            return True
        ours = after.table_id == before.table_id and after.version == before.version + 1
        if not ours or self.engine.source(edge).head() != after:
            return False
        path = self.engine.source(edge).path
        self.engine.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {before.version}")
        self.engine.reached("restored")
        return True

    # Reading ---------------------------------------------------------------------------------------------------------

    def caught_up(self, table: StreamTable) -> StreamTable:
        """The table after what foreign writers did to its sources; while somebody works on it, as it is published."""
        if table.refresh_mode is not RefreshMode.IMMEDIATE or table.is_quarantined or not self.is_behind(table):
            return table
        try:
            self.rounds.refresh(table, None)
        except RefreshInProgress:
            return table
        return self.engine.catalog.get_by_id(table.id)

    def is_behind(self, table: StreamTable) -> bool:
        """Whether a source has moved since the table was last refreshed; no Spark job."""
        if not table.is_populated or table.frontier is None:
            return False
        try:
            heads = self.engine.heads(self.engine.catalog.dependencies(table.id), {})
        except FreshlakeError as error:
            _log.warning("the sources of %s cannot be looked at: %s", table.full_name.short, error.message)
            return False
        return not stands_at(table, heads)
