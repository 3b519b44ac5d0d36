"""What a refresh does follows from the mode, the query and what happened to the sources, and it says why."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from freshlake.catalog.enums import Action, RefreshMode
from freshlake.compiler.support import Reason
from freshlake.refresh.choose import By, choose
from freshlake.refresh.cost import Basis, Costs, Estimate
from freshlake.refresh.situation import BLOWN, PASSING, Situation, SourceChange, situation_of
from freshlake.sources.protocol import ChangeKind, Triage


def change(kind: ChangeKind = ChangeKind.MUTATING, changed: int | None = 1, rows: int | None = 1000) -> SourceChange:
    return SourceChange("orders", Triage(kind, changed, 10), rows)


def situation(*changes: SourceChange, **other: Any) -> Situation:
    usual: dict[str, Any] = {
        "mode": RefreshMode.AUTO,
        "requested": None,
        "is_populated": True,
        "needs_reinit": False,
        "definition_changed": False,
        "not_differentiable": (),
        "max_change_ratio": 0.15,
    }
    return Situation(changes={f"s{i}": c for i, c in enumerate(changes)}, **usual | other)


def costs(differential: float, full: float, basis: Basis = Basis.MEASURED, refreshes: int = 30) -> Costs:
    return Costs(Estimate(differential, 0, 1, 5, Basis.MEASURED), Estimate(full, 0, 1, 5, basis), refreshes)


UNSUPPORTED = (Reason("not-differentiable", "a window function has no differential rule yet"),)
NONE, INSERTS = change(ChangeKind.NONE, 0), change(ChangeKind.INSERT_ONLY)


@pytest.mark.parametrize(
    ("now", "action", "reason"),
    [
        pytest.param(situation(NONE, NONE), Action.NO_DATA, None, id="nothing changed"),
        pytest.param(situation(NONE, INSERTS), Action.DIFFERENTIAL, None, id="one of two sources changed"),
        pytest.param(situation(change()), Action.DIFFERENTIAL, None, id="a small change"),
        pytest.param(situation(NONE, is_populated=False), Action.FULL, "first-load", id="never loaded"),
        pytest.param(
            situation(NONE, needs_reinit=True), Action.REINITIALIZE, "reinitialize", id="marked for a rebuild"
        ),
        pytest.param(
            situation(NONE, needs_reinit=True, storage_lost="the log is gone"),
            Action.REINITIALIZE,
            "storage-lost",
            id="what was stored is gone",
        ),
        pytest.param(
            situation(NONE, definition_changed=True), Action.REINITIALIZE, "definition-changed", id="another query"
        ),
        pytest.param(
            situation(NONE, requested=RefreshMode.FULL), Action.FULL, "requested", id="full on request, nothing changed"
        ),
        pytest.param(situation(change(), mode=RefreshMode.FULL), Action.FULL, "mode-full", id="mode full"),
        pytest.param(situation(NONE, mode=RefreshMode.FULL), Action.NO_DATA, None, id="mode full, nothing changed"),
        pytest.param(
            situation(change(), not_differentiable=UNSUPPORTED), Action.FULL, "not-differentiable", id="no rule"
        ),
        pytest.param(
            situation(change(ChangeKind.REPLACED)), Action.FULL, "source-replaced", id="a source was replaced"
        ),
        pytest.param(
            situation(change(ChangeKind.HISTORY_LOST)), Action.FULL, "history-lost", id="history was vacuumed away"
        ),
        pytest.param(
            situation(change(ChangeKind.REPLACED), requested=RefreshMode.DIFFERENTIAL),
            Action.FULL,
            "source-replaced",
            id="what is lost cannot be had by asking for it",
        ),
        pytest.param(situation(change(changed=150)), Action.DIFFERENTIAL, None, id="exactly at the ratio"),
        pytest.param(situation(change(changed=151)), Action.FULL, "change-ratio-exceeded", id="above the ratio"),
        pytest.param(
            situation(change(changed=1), change(changed=900)),
            Action.FULL,
            "change-ratio-exceeded",
            id="one source above the ratio is enough",
        ),
        pytest.param(
            situation(change(changed=900), max_change_ratio=0), Action.DIFFERENTIAL, None, id="no ratio, no fallback"
        ),
        pytest.param(
            situation(change(changed=900), requested=RefreshMode.DIFFERENTIAL),
            Action.DIFFERENTIAL,
            None,
            id="differential on request, however much changed",
        ),
        pytest.param(situation(change(changed=None)), Action.DIFFERENTIAL, None, id="size of the change unknown"),
    ],
)
def test_choice(now: Situation, action: Action, reason: str | None) -> None:
    decision = choose(now)
    assert (decision.action, decision.reason) == (action, reason)


def test_a_rebuild_comes_before_a_requested_mode() -> None:
    now = situation(change(), needs_reinit=True, requested=RefreshMode.FULL)
    assert choose(now).action is Action.REINITIALIZE


def test_a_schema_change_rebuilds_only_readers_of_the_changed_columns() -> None:
    triage = Triage(ChangeKind.SCHEMA_CHANGED, 1, 10, data=ChangeKind.INSERT_ONLY, changed_columns=("price",))
    unaffected = SourceChange("orders", triage, 1000)
    affected = replace(unaffected, affected_columns=("price",))
    assert choose(situation(unaffected)).action is Action.DIFFERENTIAL
    decision = choose(situation(affected))
    assert (decision.action, decision.reason) == (Action.REINITIALIZE, "schema-changed")
    assert "price" in (decision.detail or "")


def test_a_truncated_source_is_read_in_full_unless_asked_otherwise() -> None:
    truncated = replace(change(), triage=replace(change().triage, truncated=True))
    assert choose(situation(truncated)).reason == "truncate-detected"
    assert choose(situation(truncated, requested=RefreshMode.DIFFERENTIAL)).action is Action.DIFFERENTIAL


def test_a_source_of_unknown_size_is_not_guessed() -> None:
    assert choose(situation(change(rows=None))).reason == "source-size-unknown"
    assert choose(situation(change(rows=0))).reason == "source-size-unknown"


def test_the_first_load_is_not_held_up_by_what_happened_before_it() -> None:
    now = situation(change(ChangeKind.HISTORY_LOST), is_populated=False, not_differentiable=UNSUPPORTED)
    assert choose(now).reason == "first-load"


def test_every_decision_carries_what_it_was_made_from() -> None:
    now = situation(change(changed=7), NONE, requested=RefreshMode.DIFFERENTIAL, not_differentiable=UNSUPPORTED)
    inputs = choose(now).inputs
    assert inputs["sources"]["s0"] == {
        "name": "orders",
        "change": "MUTATING",
        "changed_rows": 7,
        "rows": 1000,
        "bytes": 10,
    }
    assert inputs["sources"]["s1"]["change"] == str(ChangeKind.NONE)
    assert (inputs["mode"], inputs["requested"]) == (str(RefreshMode.AUTO), str(RefreshMode.DIFFERENTIAL))
    assert inputs["not_differentiable"][0]["message"] == UNSUPPORTED[0].message


def test_the_decision_says_in_words_what_was_too_much() -> None:
    detail = choose(situation(change(changed=500))).detail
    assert detail == "orders: 500 of 1000 rows changed, limit 0.15"


@pytest.mark.parametrize(
    ("now", "reason", "sources"),
    [
        (situation(INSERTS, append_only=True), None, ()),
        (situation(change(), INSERTS), None, ()),
        (situation(INSERTS, change(), append_only=True), "append-only-ended", ("orders",)),
        (situation(change(ChangeKind.REPLACED), append_only=True), "source-replaced", ("orders",)),
        (situation(change(changed=900), append_only=True), "change-ratio-exceeded", ("orders",)),
        (situation(change(), append_only=True, is_populated=False), "first-load", ()),
    ],
)
def test_a_table_is_append_only_until_a_source_does_more(
    now: Situation, reason: str | None, sources: tuple[str, ...]
) -> None:
    decision = choose(now)
    assert (decision.reason, decision.not_appended) == (reason, sources)


# What it would take ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "action", "reason", "by"),
    [
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 100)), Action.FULL, "cost-model", By.COST, id="full cheaper"
        ),
        pytest.param(
            situation(change(changed=900), costs=costs(100, 1000)),
            Action.DIFFERENTIAL,
            None,
            By.COST,
            id="differential cheaper, however much changed",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 810)), Action.DIFFERENTIAL, None, By.COST, id="close"
        ),
        pytest.param(
            situation(change(changed=10), costs=replace(costs(1000, 810), settled=True)),
            Action.FULL,
            "cost-model",
            By.COST,
            id="close, and much was measured",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 810), margin=0.95),
            Action.FULL,
            "cost-model",
            By.COST,
            id="another margin",
        ),
        pytest.param(
            situation(change(changed=900), costs=costs(100, 1000, refreshes=9)),
            Action.FULL,
            "change-ratio-exceeded",
            By.RATIO,
            id="too little history",
        ),
        pytest.param(
            situation(change(changed=900), costs=costs(100, 1000, refreshes=9), min_history=9),
            Action.DIFFERENTIAL,
            None,
            By.COST,
            id="enough history by the setting",
        ),
        pytest.param(
            situation(change(changed=900), costs=costs(1000, 900, Basis.DERIVED)),
            Action.FULL,
            "change-ratio-exceeded",
            By.RATIO,
            id="not known well enough, above the ratio",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 900, Basis.DERIVED)),
            Action.DIFFERENTIAL,
            None,
            By.RATIO,
            id="not known well enough, below the ratio",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 100), max_change_ratio=0),
            Action.DIFFERENTIAL,
            None,
            By.RULE,
            id="no fallback wanted",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 100), requested=RefreshMode.DIFFERENTIAL),
            Action.DIFFERENTIAL,
            None,
            By.RULE,
            id="differential on request",
        ),
        pytest.param(
            situation(change(changed=10), costs=costs(1000, 100), mode=RefreshMode.DIFFERENTIAL),
            Action.FULL,
            "cost-model",
            By.COST,
            id="mode differential falls back too",
        ),
    ],
)
def test_the_cheaper_way_is_taken_when_it_is_known(now: Situation, action: Action, reason: str | None, by: By) -> None:
    decision = choose(now)
    assert (decision.action, decision.reason, decision.inputs["chosen"]["by"]) == (action, reason, by)


def test_the_estimates_are_told() -> None:
    detail = choose(situation(change(changed=10), costs=costs(12_345, 100))).detail
    assert detail == "FULL is estimated at 100 ms, DIFFERENTIAL at 12,345 ms"


# Bounds ---------------------------------------------------------------------------------------------------------------


BOUNDS = [
    {"never_full": True},
    {"max_full_rows": 999},
    {"max_full_seconds": 9},
    {"max_full_seconds": 9, "full_ms": 9_001.0},
    {"max_full_seconds": 9, "full_ms": 9_001.0, "max_full_rows": 10_000},
]


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize(
    ("now", "refused"),
    [
        pytest.param(situation(change()), False, id="differential anyway"),
        pytest.param(situation(NONE), False, id="nothing changed"),
        pytest.param(situation(NONE, is_populated=False), False, id="first load"),
        pytest.param(situation(change(), is_populated=False, definition_changed=True), False, id="first load, changed"),
        pytest.param(situation(change(), requested=RefreshMode.FULL), False, id="full on request"),
        pytest.param(situation(NONE, needs_reinit=True, requested=RefreshMode.FULL), False, id="rebuilt on request"),
        pytest.param(situation(change(ChangeKind.HISTORY_LOST)), True, id="history lost"),
        pytest.param(situation(change(ChangeKind.REPLACED)), True, id="replaced"),
        pytest.param(situation(change(), not_differentiable=UNSUPPORTED), True, id="no rule"),
        pytest.param(situation(change(), mode=RefreshMode.FULL), True, id="mode full"),
        pytest.param(situation(NONE, needs_reinit=True), True, id="rebuild"),
        pytest.param(situation(NONE, definition_changed=True), True, id="another query"),
    ],
)
def test_a_recompute_that_is_forbidden_is_refused(now: Situation, refused: bool, bound: dict[str, Any]) -> None:
    decision = choose(replace(now, **bound))
    assert (decision.refusal is not None) == refused
    if decision.refusal:
        assert (decision.refusal.code, decision.inputs["chosen"]["refused"]) == ("full-refused", "full-refused")
        assert next(iter(bound)) in decision.refusal.detail
        assert str(decision.reason) in decision.refusal.detail
    assert choose(now).refusal is None


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "now",
    [
        situation(change(changed=900)),
        situation(change(changed=10), costs=costs(1000, 100)),
        situation(replace(change(), triage=replace(change().triage, truncated=True))),
    ],
)
def test_what_would_only_be_cheaper_in_full_is_differential_where_full_is_forbidden(
    now: Situation, bound: dict[str, Any]
) -> None:
    wanted, decision = choose(now), choose(replace(now, **bound))
    assert wanted.action is Action.FULL
    assert (decision.action, decision.reason, decision.refusal) == (Action.DIFFERENTIAL, "full-forbidden", None)
    assert str(wanted.reason) in str(decision.detail)
    assert decision.no_full, "and it is not done again as FULL when it fails"


def test_a_budget_counts_the_rows_of_all_sources() -> None:
    lost = situation(change(ChangeKind.HISTORY_LOST), NONE, max_full_rows=2000)
    assert choose(lost).refusal is None
    assert choose(replace(lost, max_full_rows=1999)).refusal is not None
    unknown = situation(change(ChangeKind.HISTORY_LOST), change(rows=None), max_full_rows=10**9)
    assert choose(unknown).refusal is not None, "what is not known may be too much"


def test_a_budget_of_time_is_held_against_the_estimate() -> None:
    lost = situation(change(ChangeKind.HISTORY_LOST), max_full_seconds=9, full_ms=9_000.0)
    assert choose(lost).refusal is None
    refusal = choose(replace(lost, full_ms=9_050.0)).refusal
    assert refusal is not None
    assert "max_full_seconds is 9, FULL is estimated at 9.1 s" in refusal.detail
    refusal = choose(replace(lost, full_ms=None)).refusal
    assert refusal is not None, "what is not known may be too much"
    assert "not known" in refusal.detail


def test_a_decision_of_an_earlier_version_is_made_again() -> None:
    inputs = dict(choose(situation(change(ChangeKind.HISTORY_LOST))).inputs)
    for name in ("max_full_seconds", "full_ms"):
        inputs.pop(name)
    assert choose(situation_of(inputs)).inputs["chosen"] == inputs["chosen"]


# The fuse -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "blown"),
    [
        pytest.param(situation(change(changed=100), fuse_rows=100), False, id="at the limit"),
        pytest.param(situation(change(changed=101), fuse_rows=100), True, id="above the limit"),
        pytest.param(situation(change(changed=1), change(changed=101), fuse_rows=100), True, id="one source"),
        pytest.param(situation(change(changed=60), change(changed=60), fuse_rows=100), False, id="each source alone"),
        pytest.param(situation(change(changed=None), fuse_rows=100), False, id="size of the change unknown"),
        pytest.param(situation(change(ChangeKind.REPLACED, None), fuse_rows=100), True, id="replaced"),
        pytest.param(situation(change(changed=101), fuse_rows=100, mode=RefreshMode.FULL), True, id="mode full"),
        pytest.param(situation(change(changed=101), fuse_rows=100, is_populated=False), False, id="first load"),
        pytest.param(
            situation(change(changed=101), fuse_rows=100, requested=RefreshMode.DIFFERENTIAL), False, id="asked for"
        ),
        pytest.param(situation(change(changed=101), fuse_rows=100, requested=RefreshMode.FULL), False, id="full asked"),
        pytest.param(situation(change(changed=1), fuse_rows=100, fuse_state=BLOWN), True, id="still blown"),
        pytest.param(situation(NONE, fuse_rows=100, fuse_state=BLOWN), False, id="blown, nothing to do"),
        pytest.param(situation(change(changed=101), fuse_rows=100, fuse_state=PASSING), False, id="resumed"),
        pytest.param(
            situation(change(ChangeKind.REPLACED, None), fuse_rows=100, never_full=True), True, id="before the bounds"
        ),
    ],
)
def test_a_change_that_is_too_large_blows_the_fuse(now: Situation, blown: bool) -> None:
    refusal = choose(now).refusal
    assert (refusal.code if refusal else None) == ("fuse-blown" if blown else None)


# Replay ---------------------------------------------------------------------------------------------------------------


def _any(drawn: random.Random) -> Situation:
    def one(*values: Any) -> Any:
        return drawn.choice(values)

    def source() -> SourceChange:
        kind = one(*ChangeKind)
        columns = one((), ("price",)) if kind is ChangeKind.SCHEMA_CHANGED else ()
        data = one(ChangeKind.NONE, ChangeKind.INSERT_ONLY, ChangeKind.MUTATING)
        triage = Triage(kind, one(None, 0, 7, 900), one(0, 10), one(None, "why"), one(True, False, False), data=data)
        return SourceChange(one("orders", "customers"), triage, one(None, 0, 1000), columns)

    return situation(
        *(source() for _ in range(one(1, 1, 2, 3))),
        mode=one(*RefreshMode),
        requested=one(None, None, *RefreshMode),
        is_populated=one(True, True, True, False),
        needs_reinit=one(True, False, False, False),
        definition_changed=one(True, False, False, False),
        not_differentiable=one((), (), UNSUPPORTED),
        max_change_ratio=one(0.0, 0.15, 1.0),
        append_only=one(True, False),
        changed_texts=one((), ("view v",)),
        costs=one(None, costs(drawn.uniform(1, 9), drawn.uniform(1, 9), one(*Basis), one(5, 50))),
        never_full=one(True, False, False),
        max_full_rows=one(None, 10, 10_000),
        max_full_seconds=one(None, None, 3),
        full_ms=one(None, 2_000.0, 4_000.5),
        fuse_rows=one(None, 5, 5_000),
        fuse_state=one(None, None, BLOWN, PASSING),
        storage_lost=one(None, "the log is gone"),
    )


def test_every_decision_can_be_made_again_from_what_the_history_keeps() -> None:
    drawn, actions = random.Random(7), set()
    for _ in range(3_000):
        decision = choose(_any(drawn))
        again = choose(situation_of(json.loads(json.dumps(decision.inputs))))
        assert (again.action, again.reason, again.detail) == (decision.action, decision.reason, decision.detail)
        assert (again.refusal, again.no_full) == (decision.refusal, decision.no_full)
        assert again.not_appended == decision.not_appended
        assert json.dumps(again.inputs) == json.dumps(decision.inputs)
        actions.add((decision.action, decision.refusal is None))
    assert len(actions) > 5
