"""Recovery: a log that is ahead of the catalog is the truth; whatever a dead refresh left beside it is rolled back."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from freshlake.catalog.enums import Action
from freshlake.catalog.records import Commit, Lease, NodeState, StreamTable
from freshlake.compiler.split import ROOT
from freshlake.errors import StorageCorrupt, StorageMissing
from freshlake.refresh.choose import changed_rows
from freshlake.refresh.leasing import leased
from freshlake.refresh.loss import checked_logs, mark_lost
from freshlake.storage.certificate import Certificate

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

_log = logging.getLogger("freshlake.recover")


def adopt(engine: Engine, table: StreamTable, lease: Lease) -> StreamTable:
    """Bring catalog and logs together before a refresh begins.

    The table's own log is the commit point. A certificate there that the catalog does not know belongs to a process
    that died in between: it is committed now. Node logs beyond what the table's certificate names were never committed.
    A table whose logs are gone, or not what they were, is marked for a rebuild, which reads nothing of them.
    """
    engine.catalog.fail_interrupted(table.id)
    if not table.is_populated:
        return table
    try:
        return _brought_together(engine, table, lease)
    except (StorageMissing, StorageCorrupt) as error:
        return mark_lost(engine, table, error)


def _brought_together(engine: Engine, table: StreamTable, lease: Lease) -> StreamTable:
    logs = checked_logs(engine, table)
    root = engine.layout.root(table, table.generation)
    if logs[ROOT].head > table.version:
        certificate = root.last_certificate()
        if certificate is not None and certificate.version > table.version:
            _log.info("table %s: adopting version %s", table.full_name, certificate.version)
            table = engine.catalog.commit_refresh(table.id, lease.epoch, _commit_of(table, certificate))
    for node_id, state in table.nodes.items():
        if logs[node_id].head > state.version:
            _log.info("table %s: rolling node %s back to version %s", table.full_name, node_id, state.version)
            node = engine.layout.node(table.storage_id, table.generation, node_id)
            node.rollback(state.version, lease.epoch)
    return table


def roll_back(engine: Engine, table: StreamTable, lease: Lease) -> None:
    """Drop what an attempt that failed left in the logs of internal nodes; what comes next is computed anew."""
    for node_id, state in table.nodes.items():
        engine.layout.node(table.storage_id, table.generation, node_id).rollback(state.version, lease.epoch)


@contextmanager
def held(engine: Engine, stream_table_id: int, wait_seconds: float) -> Iterator[tuple[Lease, StreamTable]]:
    """A table that nobody else writes meanwhile, brought together with its logs; raises RefreshInProgress."""
    with leased(engine, [stream_table_id], wait_seconds=wait_seconds) as leases:
        lease = leases[stream_table_id]
        yield lease, adopt(engine, engine.catalog.get_by_id(stream_table_id), lease)


def _commit_of(table: StreamTable, certificate: Certificate) -> Commit:
    known = table.row_count
    count = certificate.row_count
    if count is None and known is not None:
        count = known + certificate.rows_inserted - certificate.rows_deleted
    return Commit(
        refresh_id=certificate.refresh_id,
        action=Action(certificate.action),
        generation=table.generation,
        version=certificate.version,
        frontier=certificate.to_frontier,
        data_timestamp=datetime.fromisoformat(certificate.to_frontier["data_timestamp"]),
        rows_inserted=certificate.rows_inserted,
        rows_deleted=certificate.rows_deleted,
        row_count=count,
        nodes=_moved(table.nodes, certificate),
        fallback_reason=certificate.reason,
        source_changes=changed_rows(certificate.decision) if certificate.decision else None,
        decision=certificate.decision,
        changes=certificate.changes,
        publish=False,  # the refresh that found it publishes, alone or with the table's group
    )


def _moved(nodes: Mapping[str, NodeState], certificate: Certificate) -> dict[str, NodeState]:
    return {n: replace(s, version=certificate.nodes.get(n, s.version)) for n, s in nodes.items()}
