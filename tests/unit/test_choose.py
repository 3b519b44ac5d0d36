"""What a refresh does follows from the mode, the query and what happened to the sources, and it says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freshlake.catalog.enums import Action, RefreshMode
from freshlake.compiler.support import Reason
from freshlake.refresh.choose import Situation, SourceChange, choose
from freshlake.sources.protocol import ChangeKind, Triage


def change(kind: ChangeKind = ChangeKind.MUTATING, changed: int | None = 1, rows: int | None = 1000) -> SourceChange:
    return SourceChange("orders", Triage(kind, changed, 10), rows)


def situation(*changes: SourceChange, **other: object) -> Situation:
    return Situation(
        mode=other.get("mode", RefreshMode.AUTO),  # type: ignore[arg-type]
        requested=other.get("requested"),  # type: ignore[arg-type]
        is_populated=bool(other.get("is_populated", True)),
        needs_reinit=bool(other.get("needs_reinit", False)),
        definition_changed=bool(other.get("definition_changed", False)),
        not_differentiable=other.get("not_differentiable", ()),  # type: ignore[arg-type]
        changes={f"s{i}": c for i, c in enumerate(changes)},
        max_change_ratio=float(other.get("max_change_ratio", 0.15)),  # type: ignore[arg-type]
        append_only=bool(other.get("append_only", False)),
    )


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
