"""Play a story in a lake of its own: after every round each scenario is refreshed, compared with its query as a bag,
and held against what its file says."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import freshlake
from freshlake.catalog.enums import Action
from freshlake.clock import ManualClock
from freshlake.errors import FreshlakeError
from freshlake.lake import Freshlake
from freshlake.refresh.result import RefreshResult
from tests.bags import assert_same_rows
from tests.scenarios.checks import Wrong, acted, changed, fails, refused, same, shape, unordered
from tests.scenarios.oracle import Oracle, mentions, oracle, written
from tests.scenarios.shown import shown
from tests.scenarios.story import CREATED, Expected, Facts, Round, Scenario, Statement, Story

SETTINGS = {"differential_max_change_ratio": "0"}
"""Tiny tables change by large shares all the time; the ratio would turn AUTO into FULL."""


@dataclass
class Player:
    """`failures` and `results` are what the tests look at; a scenario that failed is left alone from then on."""

    story: Story
    folder: Path
    only: Collection[str] | None = None
    """Play these scenarios, and those they read."""
    failures: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[str, str], RefreshResult] = field(default_factory=dict)
    changed: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Rows that a reader saw come and go."""
    passed: set[tuple[str, str]] = field(default_factory=set)
    """(scenario, moment) at which everything was as it should be."""
    on_created: Callable[[Freshlake, str], None] | None = None
    _clock: ManualClock = field(default_factory=ManualClock)
    _before: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    """Refreshes that were judged."""

    def play(self) -> None:
        fl = self._connect()
        try:
            try:
                self._run(fl, self.story.setup)
                truth = oracle(fl.spark.newSession(), self.story)
                self._copy(fl, truth, self.story.setup)
            except Wrong as error:
                self._all_fail(str(error))
                return
            self._create(fl, truth)
            for played in self.story.rounds:
                if played.reopen:
                    fl.close()
                    fl = self._connect()
                self._round(fl, truth, played)
            self._end(fl)
        finally:
            fl.close()

    @property
    def _scenarios(self) -> Iterator[Scenario]:
        wanted = set(self.only if self.only is not None else (s.name for s in self.story.scenarios))
        for scenario in reversed(self.story.scenarios):
            if scenario.name in wanted:
                wanted |= {o.name for o in self.story.scenarios if mentions(scenario.query, o.name)}
        return (s for s in self.story.scenarios if s.name in wanted and s.name not in self.failures)

    def _connect(self) -> Freshlake:
        settings: dict[str, Any] = {**SETTINGS, **self.story.settings}
        return freshlake.connect(self.folder, settings=settings, clock=self._clock)

    # What happens ----------------------------------------------------------------------------------------------------

    def _run(self, fl: Freshlake, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            try:
                fl.sql(statement.sql)
            except Exception as error:
                reason = str(error).splitlines()[0]
                raise Wrong(f"{self._at(statement.line)}: the statement failed: {reason}\n{statement.sql}") from None

    def _copy(self, fl: Freshlake, truth: Oracle, statements: tuple[Statement, ...]) -> set[str]:
        tables = written(s.sql for s in statements)
        for table in tables:
            truth.copy(fl.spark.table(table), table)
        return tables

    def _create(self, fl: Freshlake, truth: Oracle) -> None:
        for scenario in list(self._scenarios):
            with self._watched(scenario, CREATED):
                if scenario.refused:
                    refused(fl, scenario)
                    continue
                fl.create_stream_table(
                    scenario.name,
                    scenario.query,
                    refresh_mode=scenario.mode,
                    partition_by=[scenario.partition] if scenario.partition else None,
                    fold_policy="manual",
                )
                self._told |= {r.refresh_id for r in fl.history(scenario.name, limit=100)}
                if self.on_created:
                    self.on_created(fl, scenario.name)
                self._contents(fl, truth, scenario, scenario.expected.get(CREATED))

    def _round(self, fl: Freshlake, truth: Oracle, played: Round) -> None:
        self._clock.advance(played.seconds)
        try:
            self._run(fl, played.changes)
            tables = self._copy(fl, truth, played.changes)
        except Wrong as error:
            self._all_fail(str(error))
            return
        for scenario in list(self._scenarios):
            if scenario.refused:
                continue
            with self._watched(scenario, played.name):
                expected = scenario.expected.get(played.name)
                self._refresh(fl, truth, scenario, played, expected, self._usual(truth, scenario, played, tables))

    def _refresh(
        self,
        fl: Freshlake,
        truth: Oracle,
        scenario: Scenario,
        played: Round,
        expected: Expected | None,
        usual: set[str],
    ) -> None:
        facts = expected.facts if expected else Facts()
        if facts.error:
            fails(fl, scenario, facts.error)
            same(self._before[scenario.name], [shown(r) for r in fl.table(scenario.name).collect()], "as before")
        else:
            asked = fl.refresh(scenario.name, mode="DIFFERENTIAL" if scenario.mode == "DIFFERENTIAL" else None)
            result = self._of_round(fl, asked)
            self.results[scenario.name, played.name] = result
            acted(result, scenario, facts, usual)
            if played.fold:
                fl.fold(scenario.name)
            before = Counter(self._before[scenario.name])
            self._contents(fl, truth, scenario, expected)
            after = Counter(self._before[scenario.name])
            self.changed[scenario.name, played.name] = (after - before).total(), (before - after).total()
            changed(result, self.changed[scenario.name, played.name], facts)

    def _of_round(self, fl: Freshlake, asked: RefreshResult) -> RefreshResult:
        """What the round did to a table: one that is published with others came along when those were refreshed."""
        brought = [r for r in fl.history(asked.table, limit=100) if r.refresh_id not in self._told]
        self._told |= {r.refresh_id for r in brought}
        done = [r for r in brought if str(r.status) == "COMPLETED" and str(r.action) != "NO_DATA"]
        if str(asked.action) != "NO_DATA" or not done:
            return asked
        (made,) = done
        action, inserted, deleted = Action(str(made.action)), made.rows_inserted, made.rows_deleted
        return replace(asked, action=action, reason=made.reason, rows_inserted=inserted, rows_deleted=deleted)

    def _usual(self, truth: Oracle, scenario: Scenario, played: Round, tables: set[str]) -> set[str]:
        """The actions a refresh may take where its file says nothing."""
        act = scenario.always.action or "DIFFERENTIAL"
        if played.seconds or any(mentions(scenario.query, o.name) for o in self.story.scenarios):
            # time may pass without a row that minds, and what is below may have come out the same
            return {act, "NO_DATA"}
        return {act} if tables & truth.reads[scenario.name] else {"NO_DATA"}

    def _contents(self, fl: Freshlake, truth: Oracle, scenario: Scenario, expected: Expected | None) -> None:
        """Against the query run by Spark, then against the rows that the file shows."""
        now, ours = self._clock.now(), fl.table(scenario.name)
        if scenario.name not in self._before and shape(theirs := truth.frame(scenario.name, now)) != shape(ours):
            raise Wrong(f"the columns are {shape(ours)}, those of the query {shape(theirs)}")
        found = ours.collect()
        self._before[scenario.name] = [shown(row) for row in found]
        if expected and expected.rows is not None:
            same(list(expected.rows), self._before[scenario.name], "as the file says")
        try:
            assert_same_rows(map(unordered, found), map(unordered, truth.rows(scenario.name, now)))
        except AssertionError as error:
            raise Wrong(f"left is the stream table, right its query\n{error}") from None

    def _end(self, fl: Freshlake) -> None:
        """Nothing is applied twice, and the table's own check agrees."""
        for scenario in list(self._scenarios):
            last = self.story.rounds[-1].name if self.story.rounds else CREATED
            said = scenario.expected.get(last)
            if scenario.refused or (said and said.facts.error):
                continue
            with self._watched(scenario, "the end"):
                again = fl.refresh(scenario.name)
                if str(again.action) != "NO_DATA":
                    raise Wrong(f"refreshed again without a change: {again.action}, expected NO_DATA")
                verified = fl.verify(scenario.name)
                if not verified.equal:
                    raise Wrong(f"verify found {verified}")

    # How it is told ---------------------------------------------------------------------------------------------------

    def _at(self, line: int) -> str:
        return f"{self.story.path.name}:{line}"

    def _all_fail(self, message: str) -> None:
        for scenario in list(self._scenarios):
            self.failures[scenario.name] = message

    @contextmanager
    def _watched(self, scenario: Scenario, moment: str) -> Iterator[None]:
        said = scenario.expected.get(moment)
        where = f"{self._at(said.line if said else scenario.line)}: {scenario.name}, {moment}"
        try:
            yield
            self.passed.add((scenario.name, moment))
        except Wrong as error:
            self.failures[scenario.name] = f"{where}: {error}"
        except FreshlakeError as error:
            self.failures[scenario.name] = f"{where}: error {error.code}: {error}"
        except Exception:
            self.failures[scenario.name] = f"{where}: crash\n{traceback.format_exc()[-4000:]}"
