"""Compacting: buffers of triggers that have grown long while nobody read them are added up by schedulers."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from freshlake.errors import FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.compaction import Compaction

_log = logging.getLogger("freshlake")

_GROWTH = 2
"""A buffer is added up again when it is so many times as long as it was left."""


@dataclass
class Compacting:
    engine: Engine
    captures: Captures
    _left: dict[tuple[str, int], int] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)

    def consider(self) -> None:
        """Look at every database; what cannot be done now is said once, and tried again."""
        least = self.engine.settings.compact_threshold
        for record in self.engine.catalog.databases() if least else ():
            try:
                self._consider(self.captures.database(record.name), least)
                self._reasons.pop(record.name, None)
            except FreshlakeError as error:
                self._note(record.name, error.message)

    def _consider(self, database: CapturedDatabase, least: int) -> None:
        compaction = Compaction(database, self.engine.catalog)
        due = self._due(database, compaction.long(least))
        if not due:
            return
        span = compaction.claim()
        if span is None:
            _log.debug(
                "buffers of source %s are not compacted now: its mirrors are at work, or have read them", database.name
            )
            return
        self.engine.reached("compacting")
        names = {mine.captured.oid: mine.captured.table.full_name for mine in database.mirrored()}
        for oid, rows in due.items():
            left = self._left[database.name, oid] = rows - compaction.run(oid, span)
            told = (f"{database.name}.{names.get(oid, oid)}", rows, left)
            _log.info("the buffer of %s is compacted: %s changes became %s", *told)

    def _due(self, database: CapturedDatabase, long: dict[int, int]) -> dict[int, int]:
        """Not those that could not be made much shorter the last time, and have hardly grown since."""
        own = {key: rows for key, rows in self._left.items() if key[0] == database.name}
        for name, oid in own.keys() - {(database.name, oid) for oid in long}:
            del self._left[name, oid]
        return {oid: rows for oid, rows in long.items() if rows >= _GROWTH * self._left.get((database.name, oid), 0)}

    def _note(self, name: str, why: str) -> None:
        if self._reasons.get(name) != why:
            self._reasons[name] = why
            _log.warning("buffers of source %s are compacted later: %s", name, why)
