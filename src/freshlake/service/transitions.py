"""Transitions: databases that go from triggers to the log and back, by wish or by themselves.

By themselves only where `auto` is asked for: to the log when that is possible and much is written, back when it takes
too long, or when the log cannot be read again and again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from freshlake.alerts import Alerts, Event
from freshlake.catalog import Catalog
from freshlake.catalog.enums import CdcMode
from freshlake.catalog.source_records import SourceDatabase
from freshlake.errors import CaptureBusy, CaptureUnsupported, FreshlakeError
from freshlake.refresh.engine import Engine
from freshlake.service.captures import Captures
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.captured.state import CaptureState
from freshlake.sources.captured.transition import Transition
from freshlake.sources.postgres.capture import Mode

_log = logging.getLogger("freshlake")

MAX_FAILURES = 5
"""So often in a row the log may not be read before its tables go back to triggers."""
_SHARES = (0.5, 0.75, 0.9)
"""Of the time that a transition may take: when it is warned that it takes long."""
_PAUSE = timedelta(minutes=1)


def wanted_mode(catalog: Catalog, record: SourceDatabase) -> CdcMode:
    """How a database is to be captured: as stream tables over it ask for, otherwise as the source itself says."""
    return _wanted(record, _asked(catalog, record))


def _asked(catalog: Catalog, record: SourceDatabase) -> set[CdcMode]:
    return {mode for _, mode in catalog.asked_modes(record.name)}


def _wanted(record: SourceDatabase, asked: set[CdcMode]) -> CdcMode:
    return next(iter(asked - {CdcMode.AUTO} or asked), CdcMode(record.cdc_mode))


@dataclass
class Transitions:
    engine: Engine
    captures: Captures
    alerts: Alerts
    owed: set[str] = field(default_factory=set)
    """Databases that could not be brought to what is asked of them."""
    _reasons: dict[str, str] = field(default_factory=dict)
    _warned: dict[str, float] = field(default_factory=dict)
    _again: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.captures.leave_log = self.leave_log

    def leave_log(self, name: str, why: FreshlakeError, first: Callable[[], None]) -> bool:
        """Go to triggers because of a table that the log cannot serve; False where nobody has said auto."""
        if wanted_mode(self.engine.catalog, self.engine.catalog.database(name)) is not CdcMode.AUTO:
            return False
        _log.warning("source %s goes back to triggers: %s: %s", name, why.message, why.detail)
        first()
        self.move(name, Mode.TRIGGER)
        return True

    def of(self, name: str) -> Transition:
        return Transition(self.captures.database(name), self.engine.catalog, self.engine.clock.now)

    def move(self, name: str, mode: Mode) -> None:
        """Begin to go to another kind of capture; raises why that is not possible, and then all is as before."""
        transition = self.of(name)
        before = transition.database.state()
        if before.mode is mode and (before.since is None or before.crossings):
            return
        if not transition.begin(instead=mode is Mode.TRIGGER or bool(before.crossings)):
            raise CaptureBusy(f"somebody else brings source {name} to its log at this moment", hint="try again")
        self._tell("transition_start", name, before.word, transition.database.state().word)
        if mode is Mode.TRIGGER:
            transition.to_triggers()
        else:
            transition.to_wal(self.engine.settings.wal_transition_timeout)
        self._tell_if_done(name, mode, before.word)

    def check_log(self, name: str) -> None:
        """Raise CaptureUnsupported if what is captured of a database cannot be captured from its log."""
        if (why := self.captures.database(name).obstacle()) is not None:
            raise CaptureUnsupported(
                f"source {name} cannot be captured from its log", detail=why, hint="capture it by triggers, or auto"
            )

    def settle(self, name: str) -> None:
        """What a round does when its mirrors have landed; not in every round while others keep the locks."""
        now = self.engine.clock.now()
        if now < self._again.get(name, now):
            return
        try:
            self._settle(name)
        except CaptureBusy as error:
            self._again[name] = now + _PAUSE
            _log.info("what captured source %s before is removed later: %s", name, error.message)

    def _settle(self, name: str) -> bool:
        transition = self.of(name)
        before = transition.database.state()
        done = transition.settle()
        if done:
            self._tell_if_done(name, before.mode, before.word)
        return done

    def _tell_if_done(self, name: str, mode: Mode, before: str) -> None:
        state = self.captures.database(name).state()
        if state.since is None and state.mode is mode:
            self._tell("transition_complete", name, before, state.word)

    # By themselves ---------------------------------------------------------------------------------------------------

    def consider(self, now: datetime) -> None:
        """Look at every database; one that does not answer keeps nobody else waiting for its turn."""
        for record in self.engine.catalog.databases():
            try:
                self._consider(record, now)
            except FreshlakeError as error:
                self._note(record.name, error.message)

    def _consider(self, record: SourceDatabase, now: datetime) -> None:
        database, asked = self.captures.database(record.name), _asked(self.engine.catalog, record)
        state, wanted = database.state(), _wanted(record, asked)
        if state.since is not None:
            self._watch(record, state, wanted, now)
        elif wanted is not CdcMode.AUTO:
            self._follow(record.name, wanted, is_asked=bool(asked))
        elif state.mode is Mode.WAL:
            self._guard(record.name, database)
        elif (why := self._stays(database, now)) is not None:
            self._note(record.name, why)
        else:
            self.move(record.name, Mode.WAL)

    def _follow(self, name: str, wanted: CdcMode, *, is_asked: bool) -> None:
        """Where stream tables have begun or ceased to ask for something that could not be done at once."""
        if name in self.owed or is_asked:
            self.move(name, Mode(wanted))
            self.owed.discard(name)

    def _watch(self, record: SourceDatabase, state: CaptureState, wanted: CdcMode, now: datetime) -> None:
        """A transition that takes too long is taken back; also one whose process is gone."""
        assert state.since is not None
        if self._settle(record.name):
            return
        limit = self.engine.settings.wal_transition_timeout
        share = (now - state.since) / timedelta(seconds=limit)
        if share >= 1 and (not state.crossings or (wanted is CdcMode.AUTO and state.mode is Mode.WAL)):
            self._roll_back(record.name, f"not done within {limit} s")
            return
        passed = max((s for s in _SHARES if s <= share), default=0.0)
        if passed > self._warned.get(record.name, 0.0):
            self._warned[record.name] = passed
            _log.warning("source %s is transitioning since %s of at most %s s", record.name, now - state.since, limit)

    def _guard(self, name: str, database: CapturedDatabase) -> None:
        slot = database.log.slot_state()
        if slot is None or slot.is_lost:
            self._roll_back(name, "its replication slot is missing")
        elif database.batches.failures >= MAX_FAILURES:
            self._roll_back(name, f"the log could not be read {database.batches.failures} times in a row")

    def _roll_back(self, name: str, why: str) -> None:
        transition = self.of(name)
        before = transition.database.state()
        _log.warning("source %s goes back to its capture before, or to triggers: %s", name, why)
        transition.begin(instead=True)
        if before.since is not None and not before.crossings:
            transition.take_back()
        else:
            transition.to_triggers()
        transition.database.batches.failures = 0
        self._warned.pop(name, None)
        after = transition.database.state()
        self._tell("transition_rolled_back", name, before.word, after.word, why)

    def _stays(self, database: CapturedDatabase, now: datetime) -> str | None:
        """Why a database stays with triggers; None if it is to go on."""
        least = self.engine.settings.wal_min_changes_per_second
        mirrored = database.mirrored()
        if not mirrored or any(mine.stands_at(database.key) is None for mine in mirrored):
            return "nothing is captured yet, or tables are still to be copied"
        if least and self._changes_per_second(database, now) < least:
            return f"less than {least} changes in a second"
        return database.obstacle()

    def _changes_per_second(self, database: CapturedDatabase, now: datetime) -> float:
        since, total = now - timedelta(minutes=5), 0
        for mine in database.mirrored():
            for refresh in self.engine.catalog.history(mine.mirror.id, 100):
                if refresh.start_time >= since:
                    total += refresh.rows_inserted + refresh.rows_deleted
        return total / 300

    def _note(self, name: str, why: str) -> None:
        """Said once, as long as it is the same."""
        if self._reasons.get(name) != why:
            self._reasons[name] = why
            _log.info("source %s stays with its capture: %s", name, why)

    def _tell(self, event: str, name: str, before: str, after: str, why: str | None = None) -> None:
        database = self.captures.database(name)
        tables = [mine.captured.table.full_name for mine in database.mirrored()]
        payload = {"source": name, "tables": tables, "old_mode": before, "new_mode": after, "reason": why}
        self.alerts.emit(Event.CDC_TRANSITION, None, transition=event, **payload)
