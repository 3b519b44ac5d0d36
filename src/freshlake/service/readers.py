"""Readers of a table that was repaired: which of them the log leads to the right rows, and which it does not.

A repair adds to the log what was missing from the stored rows. A reader that had taken over the wrong rows is put right
by that. One that had read the right rows before they were damaged would get them twice, so it is rebuilt. A reader took
over what is stored if it equals its query over that, and if the rows it stands at and those that were repaired share
one base: otherwise they may differ by more than the log says.
"""

from __future__ import annotations

import time
from contextlib import suppress

from freshlake.catalog.records import StreamTable
from freshlake.errors import FreshlakeError, NotFound
from freshlake.refresh.audit import inspect
from freshlake.refresh.engine import Engine
from freshlake.refresh.recover import held
from freshlake.sources.protocol import ChangeKind, Position
from freshlake.sources.stream_table import StreamTableSource, position_of

_WAIT_SECONDS = 20.0
"""For all readers together. Who holds one of them may wait for the table, which is held here: he waits for longer."""


def not_taken_over(engine: Engine, table: StreamTable) -> list[StreamTable]:
    """The readers that must be rebuilt; raises RefreshInProgress when others work on one of them for long.

    No refresh of them begins meanwhile, since the table is in quarantine. Which one that runs still may have read the
    right rows is not known before it ends.
    """
    found, until = [], time.monotonic() + _WAIT_SECONDS
    for reader in engine.catalog.dependents(table.source_key):
        # a drop may have waited for its lease
        with suppress(NotFound), held(engine, reader.id, until - time.monotonic()) as (_, current):
            if not _follows(engine, table, current):
                found.append(current)
    return found


def _follows(engine: Engine, table: StreamTable, reader: StreamTable) -> bool:
    known = (reader.frontier or {}).get("sources", {}).get(table.source_key)
    if known is None or reader.needs_reinit or reader.is_quarantined:
        return True  # it is loaded, rebuilt or put right by itself
    at, now = Position.from_json(known), position_of(table, table.generation, table.version)
    source = StreamTableSource(engine.catalog, table.id, engine.layout.root, table.full_name.short)
    if source.triage(at, now).kind in (ChangeKind.NONE, ChangeKind.REPLACED, ChangeKind.HISTORY_LOST):
        return True  # nothing to follow, or all of it is computed again
    if at.version < (table.folded_version or 0):
        return False
    try:
        seen = inspect(engine, reader)
    except FreshlakeError:
        return False
    seen.release()
    return seen.is_verified and seen.is_equal
