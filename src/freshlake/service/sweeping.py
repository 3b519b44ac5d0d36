"""Sweeping: folders of stream tables whose drop ended half-way are removed later."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from freshlake.errors import FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.refresh.leasing import leased

_log = logging.getLogger("freshlake")


@dataclass
class Sweeping:
    """Only what a drop has named goes: a folder that the catalog does not know may belong to another catalog, of
    which this one is an older copy."""

    engine: Engine

    def is_due(self) -> bool:
        return bool(self.engine.layout.doomed())

    def sweep(self) -> None:
        """Remove what is left of tables that the catalog does not have any more.

        Who drops one that it has holds the lease; without a lease it was not dropped after all.
        """
        for storage_id in self.engine.layout.doomed():
            known = {table.storage_id: table.id for table in self.engine.catalog.stream_tables()}
            if storage_id not in known:
                _log.info("removing what is left of a dropped stream table: %s", storage_id)
                self.engine.layout.remove(storage_id)
                continue
            with suppress(FreshlakeError), leased(self.engine, [known[storage_id]]):
                self.engine.layout.spare(storage_id)
