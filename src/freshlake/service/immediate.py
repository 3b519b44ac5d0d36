"""IMMEDIATE: a write of a source and what its stream tables become of it are one thing, done or not done.

A writer takes the leases of all stream tables that follow the source, writes, refreshes them to what it wrote, and
publishes them together. So writers of one source come one after the other, and readers never wait. If a table cannot
follow, the source is restored; but a commit of somebody else that came after is never undone.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from freshlake.alerts import Alerts, Event
from freshlake.catalog.enums import RefreshMode, Status
from freshlake.catalog.records import Dependency, Lease, StreamTable
from freshlake.errors import (
    CommittedButNotMaintained,
    FreshlakeError,
    FuseBlown,
    RefreshInProgress,
    StreamTableSuspended,
    WriteUndone,
)
from freshlake.refresh.edges import tracked
from freshlake.refresh.engine import Engine
from freshlake.refresh.leasing import keep, leased
from freshlake.refresh.roots import stands_at
from freshlake.refresh.situation import BLOWN
from freshlake.service.moment import Round
from freshlake.service.rounds import Rounds
from freshlake.sources.delta.undo import mark_of, undo
from freshlake.sources.protocol import Position

_log = logging.getLogger("freshlake")
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class _Write:
    """One write on its way: what it changed, and who has to follow under which leases."""

    edges: Sequence[Dependency]
    followers: Sequence[StreamTable]
    leases: Mapping[int, Lease]
    before: Mapping[str, Position]
    after: Mapping[str, Position]
    mark: str


@dataclass
class Immediate:
    engine: Engine
    rounds: Rounds
    alerts: Alerts
    _marking: threading.Lock = field(default_factory=threading.Lock)

    # Writing ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def maintained(self, names: Sequence[str]) -> Iterator[None]:
        """Write these plain tables inside the block; what follows them has followed when it ends."""
        edges = (
            tracked(self.engine.catalog, names) if names and self.engine.catalog.has_mode(RefreshMode.IMMEDIATE) else []
        )
        followers = self.rounds.followers([edge.source_name for edge in edges]) if edges else []
        if not followers:
            yield
            return
        wait = self.engine.settings.immediate_wait_seconds
        with leased(self.engine, [follower.id for follower in followers], wait_seconds=wait) as leases:
            self.engine.reached("leased")
            before = self._heads(edges)
            with self._marked() as mark:
                keep(self.engine, leases.values())
                yield
            after = self._heads(edges)
            if after != before:
                self._follow(_Write(edges, followers, leases, before, after, mark))
        for follower in followers:
            self.rounds.fold(self.engine.catalog.get_by_id(follower.id))

    def _heads(self, edges: Sequence[Dependency]) -> dict[str, Position]:
        return {edge.source_key: self.engine.source(edge).head() for edge in edges}

    @contextmanager
    def _marked(self) -> Iterator[str]:
        """Commits made inside carry a mark: words of the user's own, or ours.

        The setting belongs to the session, which the user's threads share: they write one after the other.
        """
        configuration = self.engine.spark.conf
        with self._marking:
            if (own := configuration.get(_USER_METADATA, None)) is not None:
                yield own
                return
            mark = json.dumps({"freshlake_write": uuid4().hex})
            configuration.set(_USER_METADATA, mark)
            try:
                yield mark
            finally:
                configuration.unset(_USER_METADATA)

    def _follow(self, write: _Write) -> None:
        self.engine.reached("written")
        # other sources of these tables are read where they are now: foreign writers are caught up at the same time
        moment = self.rounds.begin(e for t in write.followers for e in self.engine.catalog.dependencies(t.id))
        moment = Round({**moment.pins, **write.after}, moment.at)
        outcome = self.rounds.run(write.followers, moment, leases=write.leases)
        if not outcome.failed:
            return
        table, error = next(iter(outcome.failed.items()))
        if self._undone(write):
            raise WriteUndone(
                f"the write was undone: stream table {table} could not follow it", detail=str(error)
            ) from error
        raise self._not_maintained(write, table, error) from error

    def _undone(self, write: _Write) -> bool:
        """Restore the sources, if nobody can have built on what was written: all of it is ours, and so are the leases.

        Who takes a lease over catches the table up with the write.
        """
        changed = [edge for edge in write.edges if write.after[edge.source_key] != write.before[edge.source_key]]
        try:
            keep(self.engine, write.leases.values())
            ours = all(self._is_ours(edge, write) for edge in changed)
        except FreshlakeError as error:
            _log.warning("a write could not be undone: %s", error.message)
            return False
        if not ours:
            return False
        self.engine.reached("undo")
        versions = {self.engine.source(edge).path: write.after[edge.source_key].version for edge in changed}
        undone = all(undo(self.engine.spark, path, version) for path, version in versions.items())
        self.engine.reached("undone")
        return undone

    def _is_ours(self, edge: Dependency, write: _Write) -> bool:
        before, after, source = write.before[edge.source_key], write.after[edge.source_key], self.engine.source(edge)
        if after.table_id != before.table_id or after.version != before.version + 1 or source.head() != after:
            return False
        return mark_of(source.path, after.version) == write.mark

    def _not_maintained(self, write: _Write, table: str, error: FreshlakeError) -> CommittedButNotMaintained:
        names = ", ".join(edge.source_name for edge in write.edges)
        told = {"source": names, "version": max(at.version for at in write.after.values())}
        stale = [follower.full_name.short for follower in write.followers]
        failure = {"dependants": stale, "error_code": error.code, "error": error.message}
        self.alerts.emit(Event.COMMITTED_BUT_NOT_MAINTAINED, table, **told, **failure)
        return CommittedButNotMaintained(
            f"{names} was written, but stream table {table} could not follow it", detail=str(error)
        )

    # Reading ---------------------------------------------------------------------------------------------------------

    def caught_up(self, table: StreamTable) -> StreamTable:
        """The table after what foreign writers did to its sources; while somebody works on it, as it is published."""
        if table.refresh_mode is not RefreshMode.IMMEDIATE or table.is_quarantined or not self.is_behind(table):
            return table
        if table.status is Status.SUSPENDED or table.fuse_state == BLOWN:
            return _as_it_is(table, "is suspended" if table.status is Status.SUSPENDED else "has blown its fuse")
        try:
            self.rounds.refresh(table, None)
        except RefreshInProgress:
            return table
        except (FuseBlown, StreamTableSuspended) as error:
            return _as_it_is(table, error.message)
        return self.engine.catalog.get_by_id(table.id)

    def is_behind(self, table: StreamTable) -> bool:
        """Whether a source has moved since, or readers do not see what was committed yet; no Spark job."""
        if not table.is_populated or table.frontier is None:
            return False
        if not table.is_published:
            return True
        try:
            heads = self.engine.heads(self.engine.catalog.dependencies(table.id), {})
        except FreshlakeError as error:
            _log.warning("the sources of %s cannot be looked at: %s", table.full_name.short, error.message)
            return False
        return not stands_at(table, heads)


def _as_it_is(table: StreamTable, why: str) -> StreamTable:
    """What readers get of a table that does not follow its sources now: its last published state."""
    _log.warning("%s is read as of %s: %s", table.full_name.short, table.data_timestamp, why)
    return table
