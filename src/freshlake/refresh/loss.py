"""Storage that was lost or altered outside Freshlake: found, and marked for a rebuild from the sources.

A rebuild makes a new generation and reads nothing of the old one, so it needs nothing of what is lost. Until it is
published readers get an error, never other rows; stream tables above follow as over a source that was replaced.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from freshlake.catalog.records import StreamTable
from freshlake.compiler.split import ROOT
from freshlake.errors import RefreshFailed, StorageCorrupt, StorageError, StorageMissing, SystemFailure
from freshlake.storage.failures import FAILURES, detail, may_pass
from freshlake.storage.intact import check, check_files
from freshlake.storage.layout import FoldPoint
from freshlake.storage.log import Log

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

_log = logging.getLogger("freshlake.recover")


def checked_logs(engine: Engine, table: StreamTable) -> dict[str, Log]:
    """The logs of a loaded table by node; raises StorageMissing or StorageCorrupt where they are not what they were."""
    found = {}
    for node_id, (version, fold) in _points(table).items():
        path = engine.layout.node(table.storage_id, table.generation, node_id).path
        found[node_id] = Log(path)
        check(path, found[node_id], version, fold.base_version)
    return found


def damage(engine: Engine, table: StreamTable) -> str | None:
    """What of a table is gone or altered; None if all that its state needs is there."""
    if not table.is_populated:
        return None
    try:
        checked_logs(engine, table)
        for node_id, (version, fold) in _points(table).items():
            check_files(engine.layout.node(table.storage_id, table.generation, node_id).path, version, fold)
    except (StorageMissing, StorageCorrupt) as error:
        return None if may_pass(error) else error.message
    except (OSError, MemoryError, SystemFailure):
        return None  # the machine does not say
    except FAILURES as error:
        return detail(error)
    return None


def mark_if_lost(engine: Engine, table: StreamTable) -> None:
    """After something failed that reads what is stored: its next refresh rebuilds a table that it cannot read."""
    if not table.needs_reinit and (lost := damage(engine, table)) is not None:
        mark_lost(engine, table, StorageMissing(lost))


def mark_lost(engine: Engine, table: StreamTable, error: StorageError) -> StreamTable:
    """Have a table rebuilt; raises RefreshFailed where a lake that is not there at all, or its machine, is to blame."""
    if may_pass(error) or not engine.layout.is_mounted:
        message = f"the storage of stream table {table.full_name.short} does not answer"
        hint = f"look at the folder {engine.layout.lake}: is it mounted, can it be read"
        raise RefreshFailed(message, detail=error.message, hint=hint) from error
    _log.warning("%s is rebuilt, its storage was lost or altered: %s", table.full_name.short, error.message)
    return engine.catalog.update(table.id, needs_reinit=True)


def _points(table: StreamTable) -> dict[str, tuple[int, FoldPoint]]:
    """Where the nodes stand."""
    states = {n: (s.version, s.base_version, s.folded_version) for n, s in table.nodes.items()}
    states[ROOT] = (table.version, table.fold_base_version, table.folded_version)
    return {n: (version, FoldPoint(base or 0, folded or 0)) for n, (version, base, folded) in states.items()}
