"""Fold a stream table and its nodes: log into base, off the critical path, never past what is published."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from freshlake.catalog.enums import FoldPolicy
from freshlake.catalog.records import Lease, StreamTable
from freshlake.compiler.split import ROOT
from freshlake.errors import FreshlakeError, StreamTableNotPopulated
from freshlake.refresh.leasing import leased
from freshlake.refresh.loss import mark_if_lost
from freshlake.refresh.recover import adopt
from freshlake.refresh.result import FoldResult
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.stored import stored_nodes
from freshlake.storage.policy import should_fold

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine


def fold_if_due(engine: Engine, table: StreamTable) -> FoldResult | None:
    """By the table's policy; the reason is kept in the result."""
    if table.fold_policy is FoldPolicy.MANUAL:
        return None
    reason = _due(engine, table)
    return fold(engine, table, reason) if reason else None


def _due(engine: Engine, table: StreamTable) -> str | None:
    if table.fold_policy is not FoldPolicy.ALWAYS and _fresh(engine, table):
        return None
    for node in stored_nodes(engine, table, engine.compiled(table)).values():
        assert node.fold is not None
        pending = node.table.pending(node.fold, node.version)
        reason = should_fold(table.fold_policy, pending, table.row_count, engine.settings)
        if reason:
            return reason
    return None


def _fresh(engine: Engine, table: StreamTable) -> bool:
    """Looking at the log costs a few milliseconds, so a young one is not looked at after every refresh."""
    behind = table.version - (table.folded_version or 0)
    return behind % 5 != 0 and behind < engine.settings.fold_after_refreshes


def fold(engine: Engine, table: StreamTable, reason: str | None = None, *, wait_seconds: float = 0.0) -> FoldResult:
    """Bring the published versions of every node's log into its base, one commit per node."""
    started = time.perf_counter()
    with leased(engine, [table.id], wait_seconds=wait_seconds) as leases, translated():
        lease = leases[table.id]
        table = adopt(engine, engine.catalog.get_by_id(table.id), lease)
        if not table.is_populated:
            raise StreamTableNotPopulated(f"stream table {table.full_name.short} has no data yet")
        try:
            versions, rows = _fold_nodes(engine, table, lease)
            _cleanup(engine, engine.catalog.get_by_id(table.id), lease)
        except Exception:
            with suppress(FreshlakeError):  # what made the fold fail is what is told
                mark_if_lost(engine, engine.catalog.get_by_id(table.id))
            raise
    took = (time.perf_counter() - started) * 1000
    return FoldResult(str(table.full_name), versions, rows, took, reason)


def _fold_nodes(engine: Engine, table: StreamTable, lease: Lease) -> tuple[int, int]:
    engine.worker.size_for(small=False)
    folded, rows = 0, 0
    for node_id, node in stored_nodes(engine, table, engine.compiled(table)).items():
        assert node.fold is not None
        upto = _readable(table) if node_id == ROOT else node.version
        pending = node.table.pending(node.fold, upto)
        if upto <= node.fold.folded_version:
            continue
        engine.reached(f"fold {node_id or 'root'}")
        point = node.table.fold(engine.worker.running, upto, node.fold, lease.epoch)
        engine.reached(f"folded {node_id or 'root'}")
        engine.catalog.add_fold(
            table.id,
            lease.epoch,
            generation=table.generation,
            folded_version=point.folded_version,
            base_version=point.base_version,
            node=node_id,
        )
        if node_id == ROOT:
            folded, rows = pending.versions, pending.rows
    return folded, rows


def _cleanup(engine: Engine, table: StreamTable, lease: Lease) -> None:
    """Drop log versions that are folded, and that no reader of this table needs for its changes or its old state."""
    delivered = engine.catalog.minimum_delivered_version(table.id)
    needed = [] if delivered is None else [delivered]
    keep_after = min(oldest_fold(engine, table), retained_version(engine, table), *needed)
    for node_id, node in stored_nodes(engine, table, engine.compiled(table)).items():
        assert node.fold is not None
        after = keep_after if node_id == ROOT else node.version
        engine.reached(f"cleanup {node_id or 'root'}")
        node.table.cleanup(min(after, node.fold.folded_version), node.fold.folded_version, lease.epoch)


def oldest_fold(engine: Engine, table: StreamTable) -> int:
    """The version up to which the oldest base in use is folded.

    A consumer reads the state it stands at (before-states of joins, verify) as a base plus the log after it, so both
    stay until the slowest consumer has passed them.
    """
    slowest = engine.catalog.minimum_consumer_version(table.id, table.generation)
    oldest = _readable(table) if slowest is None else min(slowest, _readable(table))
    fold = engine.catalog.newest_fold(table.id, generation=table.generation, upto=oldest)
    return 0 if fold is None else fold.folded_version


def _readable(table: StreamTable) -> int:
    """The newest version of the newest generation that readers see, or will see once it is published."""
    return table.published_version if table.generation == table.published_generation else table.version


def retained_version(engine: Engine, table: StreamTable) -> int:
    """The newest version older than the retention: later ones stay for `changes(since=…)`."""
    limit = engine.clock.now() - timedelta(hours=engine.settings.log_retention_hours)
    return engine.catalog.newest_version_before(table.id, table.generation, limit)
