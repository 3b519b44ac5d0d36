"""Landing: what a round does around the refresh of mirrors, so that all of a database stand at one position.

Before: tables that DDL, a gap or a lost history has cut off are marked, captured anew and copied, all at a new position
that the other mirrors go to as well. After: the database forgets what every mirror has landed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from freshlake.catalog.enums import Status
from freshlake.catalog.records import StreamTable, database_key
from freshlake.errors import FreshlakeError, SourceHistoryLost, SourceReplaced, TableNotFound
from freshlake.refresh.engine import Engine
from freshlake.refresh.failing import MAY_PASS
from freshlake.service.captures import Captures
from freshlake.service.moment import Round
from freshlake.service.transitions import Transitions
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.database import FAILED, Mirrored
from freshlake.sources.captured.schema import lake_schema
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.protocol import Position

_log = logging.getLogger("freshlake")

HISTORY_LOST = "history-lost"


@dataclass
class Landing:
    engine: Engine
    captures: Captures
    transitions: Transitions

    @contextmanager
    def ready(self, tables: Sequence[StreamTable], moment: Round) -> Iterator[Round]:
        """The moment at which these tables are refreshed: a later one for a database of which something is copied."""
        databases = sorted({t.full_name.database for t in tables if t.is_mirror and t.full_name.database})
        with ExitStack() as held:
            copied: list[tuple[str, Position, list[Mirrored]]] = []
            for name in databases:
                moment, at, due = self._ready(held, name, moment, {table.id for table in tables})
                copied += [(name, at, due)] if at is not None else []
            yield moment
            for name, at, due in copied:
                self._settle(self.captures.database(name), at, due)
        for name in databases:
            self._release(name)

    def _ready(
        self, held: ExitStack, name: str, moment: Round, asked: Collection[int]
    ) -> tuple[Round, Position | None, list[Mirrored]]:
        key = database_key(name)
        if key in moment.unreachable:
            return moment, None, []  # which its mirrors will say
        try:
            database = self.captures.database(name)
            # one that did not answer lately is looked at here, where nobody else waits for it
            end = database.attainable(moment.pins.get(key) or database.head())
            moment = replace(moment, pins={**moment.pins, key: end})
            self._notice(database, end, asked)
            due = self._due(database, asked)
            if not due:
                database.land(end)
                return moment, None, []
            # a slot that is made begins for all tables; otherwise only those that are copied are kept from DDL
            kept = [mine for mine in database.mirrored() if _is_there(mine)] if database.reads_log else due
            at = held.enter_context(database.copying([mine.captured for mine in kept]))
            database.land(at)
        except FreshlakeError as error:
            pins = {k: v for k, v in moment.pins.items() if k != key}
            return replace(moment, pins=pins, unreachable={**moment.unreachable, key: error}), None, []
        self.engine.reached("copying")
        return replace(moment, pins={**moment.pins, key: at}), at, due

    def _notice(self, database: CapturedDatabase, end: Position, asked: Collection[int]) -> None:
        """Mark the tables whose changes do not lead to a position; nothing is read for one that rests in ERROR."""
        mirrored = database.mirrored()
        gaps = database.gaps()
        for mine in mirrored:
            if mine.captured.oid in gaps and mine.resync is None:
                self._mark(mine, gaps[mine.captured.oid].reason, gaps[mine.captured.oid].detail)
        # also where nothing is read from: when others have landed more, the database knows no difference any more
        for start, error in database.lost().items():
            self._mark_lost(database, start, error)
        mirrored = [mine for mine in database.mirrored() if _is_followed(mine, asked)]
        for start in {at for mine in mirrored if (at := mine.stands_at(database.key)) is not None and at != end}:
            try:
                resyncs = database.resyncs(start, end)
            except (SourceHistoryLost, SourceReplaced) as error:
                self._mark_lost(database, start, error)
                continue
            for mine in mirrored:
                if mine.stands_at(database.key) == start and (resync := resyncs.get(mine.captured.oid)) is not None:
                    self._mark(mine, resync.reason, resync.detail)

    def _mark_lost(self, database: CapturedDatabase, start: Position, error: FreshlakeError) -> None:
        """Mark those that still stand there: others may have landed this meanwhile, after which it was given up."""
        for mine in database.mirrored():
            if mine.stands_at(database.key) == start:
                self._mark(mine, HISTORY_LOST, error.message)

    def _mark(self, mine: Mirrored, reason: str, words: str) -> None:
        # before anything is captured anew: from then on nobody could see that something is missing
        self.engine.catalog.mark_resync(mine.mirror.id, f"{reason}: {words}")
        _log.warning("%s is copied anew: %s", mine.mirror.full_name, words or reason)

    def _due(self, database: CapturedDatabase, asked: Collection[int]) -> list[Mirrored]:
        """The mirrors that have to be copied, captured as their tables are now.

        One in ERROR waits until it is refreshed itself: nothing is prepared for it as long as others are.
        """
        for mine in _waiting(database, asked):
            try:
                self._renew(database, mine)
            except TableNotFound:
                self.engine.catalog.mark_resync(mine.mirror.id, f"{Reason.TABLE_DROPPED}: was dropped or renamed")
            except MAY_PASS:
                raise
            except FreshlakeError as error:
                self.engine.catalog.mark_resync(mine.mirror.id, f"{FAILED}: {error}")
        return [mine for mine in _waiting(database, asked) if _is_there(mine)]

    def _renew(self, database: CapturedDatabase, mine: Mirrored) -> None:
        captured = self.captures.renewed(database, mine.mirror, mine.captured)
        if not self.captures.mirrors.fits(mine.mirror, lake_schema(captured)):
            self.engine.catalog.mark_resync(mine.mirror.id, f"{Reason.SCHEMA_CHANGED}: its columns changed")
            self.captures.mirrors.reshape(mine.mirror, lake_schema(captured))
        elif mine.resync is not None and not _is_there(mine):
            self.engine.catalog.mark_resync(mine.mirror.id, f"{HISTORY_LOST}: it is captured again")
        database.amend(mine.mirror, mine.captured, captured)
        if captured.oid != mine.captured.oid:
            removals, record = self.captures.removals, self.engine.catalog.database(database.name)
            removals.remove(removals.add(record, mine.captured.oid))

    def _settle(self, database: CapturedDatabase, at: Position, due: Sequence[Mirrored]) -> None:
        """Tables that stand at the position of their copy are whole again, unless more of them was asked for since."""
        copied = {mine.mirror.id: mine.captured.columns for mine in due}
        with self.engine.catalog.transaction():
            for mine in database.mirrored():
                known = (mine.mirror.frontier or {}).get("sources", {}).get(database.key)
                columns = copied.get(mine.mirror.id)
                if mine.resync is not None and known == at.to_json() and columns == mine.captured.columns:
                    database.put(mine.mirror, mine.captured.copied(columns), database.state())
                    self.engine.catalog.mark_resync(mine.mirror.id, None)

    def _release(self, name: str) -> None:
        """What the database keeps for longer than needed does no harm, so this may fail."""
        try:
            database = self.captures.database(name)
            database.batches.forget()
            self._leave_behind(database)
            database.release()
            self.transitions.settle(name)
        except FreshlakeError as error:
            _log.warning("changes in source %s are forgotten later: %s", name, error.message)

    def _leave_behind(self, database: CapturedDatabase) -> None:
        """Nothing is kept for a mirror in ERROR that the others have passed: it is copied when it goes on."""
        known = ((mine, mine.stands_at(database.key)) for mine in database.mirrored())
        standing = [(mine, at.version) for mine, at in known if at is not None]
        slowest = min((at for mine, at in standing if _is_followed(mine, ())), default=0)
        for mine, at in standing:
            if at < slowest and not _is_followed(mine, ()):
                self._mark(mine, HISTORY_LOST, "others have gone on without it")


def _waiting(database: CapturedDatabase, asked: Collection[int]) -> list[Mirrored]:
    due = [mine for mine in database.mirrored() if mine.stands_at(database.key) is None]
    return [mine for mine in due if _is_followed(mine, asked)]


def _is_followed(mine: Mirrored, asked: Collection[int]) -> bool:
    return mine.mirror.status is not Status.ERROR or mine.mirror.id in asked


def _is_there(mine: Mirrored) -> bool:
    return not (mine.resync or "").startswith((Reason.TABLE_DROPPED, FAILED))
