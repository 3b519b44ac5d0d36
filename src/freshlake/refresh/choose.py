"""Choose what a refresh does: a pure function from what is known to an action with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from freshlake.catalog.enums import Action, RefreshMode
from freshlake.refresh.cost import Costs, Way, verdict
from freshlake.refresh.situation import BLOWN, PASSING, Situation, SourceChange, inputs_of
from freshlake.sources.protocol import ChangeKind


@dataclass(frozen=True)
class Refusal:
    """Why the refresh is not done: the code of an error, and the detail."""

    code: str
    detail: str


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str | None = None
    detail: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    not_appended: tuple[str, ...] = ()
    """Sources of a table declared append-only that did more than insert: it is an ordinary table from now on."""
    refusal: Refusal | None = None
    no_full: str | None = None
    """Why a DIFFERENTIAL that fails may not be done again as FULL; None when it may."""

    def to_json(self) -> dict[str, Any]:
        """As the history keeps it."""
        return {**self.inputs, "detail": self.detail}


def changed_rows(decision: Mapping[str, Any]) -> int:
    """How many changed rows of its sources a refresh was chosen for."""
    return sum(source["changed_rows"] or 0 for source in decision["sources"].values())


class By(StrEnum):
    """What settled a choice: a rule that leaves none, the fixed ratio, or the estimated times."""

    RULE = "rule"
    RATIO = "ratio"
    COST = "cost"


STORAGE_LOST = "storage-lost"
"""Reason of a rebuild: what was stored is gone, or others have altered it."""

_Choice = tuple[Action, str | None, str | None, By]


def choose(now: Situation) -> Decision:
    """Every decision carries the inputs it was made from."""
    action, reason, detail, by = _choose(now)
    others = _not_appended(now)
    if others and reason is None:
        reason, detail = "append-only-ended", f"{', '.join(others)}: rows were updated or deleted"
    refusal = _refusal(now, action, reason, detail)
    chosen = {"action": str(action), "reason": reason, "by": str(by), "refused": refusal.code if refusal else None}
    return Decision(action, reason, detail, {**inputs_of(now), "chosen": chosen}, others, refusal, _forbidden(now))


def _not_appended(now: Situation) -> tuple[str, ...]:
    if not (now.append_only and now.is_populated):
        return ()
    return tuple(c.name for c in now.changes.values() if c.kind in (ChangeKind.MUTATING, ChangeKind.REPLACED))


def _choose(now: Situation) -> _Choice:
    changed = {k: c for k, c in now.changes.items() if c.kind is not ChangeKind.NONE}
    if now.needs_reinit:
        marked = "reinitialize", "the table was marked for a rebuild"
        reason, detail = (STORAGE_LOST, now.storage_lost) if now.storage_lost else marked
        return Action.REINITIALIZE, reason, detail, By.RULE
    for change in changed.values():
        if change.kind is ChangeKind.SCHEMA_CHANGED:
            columns = ", ".join(change.affected_columns)
            return Action.REINITIALIZE, "schema-changed", f"{change.name}: {change.triage.reason or columns}", By.RULE
    if now.definition_changed:
        for change in changed.values():
            if change.kind is ChangeKind.REPLACED:
                return Action.REINITIALIZE, "source-replaced", _why(change), By.RULE
        what = ", ".join(now.changed_texts)
        return Action.REINITIALIZE, "definition-changed", what or "the query now compiles to another plan", By.RULE
    if not now.is_populated:
        return Action.FULL, "first-load", None, By.RULE
    if now.requested is RefreshMode.FULL:
        return Action.FULL, "requested", None, By.RULE
    if not changed:
        return Action.NO_DATA, None, None, By.RULE
    return _by_mode(now, changed)


def _by_mode(now: Situation, changed: Mapping[str, SourceChange]) -> _Choice:
    mode = now.requested or now.mode
    if mode is RefreshMode.FULL:
        return Action.FULL, "mode-full", None, By.RULE
    if now.not_differentiable:
        return Action.FULL, "not-differentiable", "; ".join(r.message for r in now.not_differentiable), By.RULE
    lost = {ChangeKind.REPLACED: "source-replaced", ChangeKind.HISTORY_LOST: "history-lost"}
    for change in changed.values():
        if change.kind in lost:
            return Action.FULL, lost[change.kind], _why(change), By.RULE
    if now.requested is RefreshMode.DIFFERENTIAL:
        return Action.DIFFERENTIAL, None, None, By.RULE
    if mode is RefreshMode.IMMEDIATE and not any(change.triage.truncated for change in changed.values()):
        return Action.DIFFERENTIAL, None, None, By.RULE  # a writer waits, and writes little at a time
    action, reason, detail, by = _by_size(now, changed)
    if action is Action.FULL and (why := _forbidden(now)):
        return Action.DIFFERENTIAL, "full-forbidden", f"{why}; it would be FULL: {reason}, {detail}", by
    return action, reason, detail, by


def _by_size(now: Situation, changed: Mapping[str, SourceChange]) -> _Choice:
    """Both ways are possible: the cheaper one, as far as that is known."""
    for change in changed.values():
        if change.triage.truncated:
            return Action.FULL, "truncate-detected", change.name, By.RULE
    if now.max_change_ratio == 0:
        return Action.DIFFERENTIAL, None, None, By.RULE
    for change in changed.values():
        if not change.rows:
            unknown = f"{change.name}: the number of rows is not known or zero"
            return Action.FULL, "source-size-unknown", unknown, By.RULE
    costs = now.costs if now.costs is not None and now.costs.refreshes >= now.min_history else None
    clear = verdict(costs, now.margin) if costs else None
    if costs and clear is Way.FULL:
        return Action.FULL, "cost-model", _estimated(costs), By.COST
    if clear is Way.DIFFERENTIAL:
        return Action.DIFFERENTIAL, None, None, By.COST
    for change in changed.values():
        if (much := _too_much(change, now.max_change_ratio)) is not None:
            return Action.FULL, "change-ratio-exceeded", much, By.RATIO
    return Action.DIFFERENTIAL, None, None, By.RATIO


def _estimated(costs: Costs) -> str:
    return f"FULL is estimated at {costs.full.ms:,.0f} ms, DIFFERENTIAL at {costs.differential.ms:,.0f} ms"


def _too_much(change: SourceChange, limit: float) -> str | None:
    pending, rows = change.triage.rows, change.rows
    if pending is None or not rows or pending / rows <= limit:
        return None
    return f"{change.name}: {pending} of {rows} rows changed, limit {limit:g}"


def _refusal(now: Situation, action: Action, reason: str | None, detail: str | None) -> Refusal | None:
    """A first load is never refused, nor is what was asked for by naming a mode."""
    if action is Action.NO_DATA or not now.is_populated:
        return None
    if now.requested is None and (blown := _blown(now)):
        return Refusal("fuse-blown", blown)
    recomputes = action in (Action.FULL, Action.REINITIALIZE) and now.requested is not RefreshMode.FULL
    if recomputes and (why := _forbidden(now)):
        return Refusal("full-refused", "; ".join([why, ": ".join(part for part in (reason, detail) if part)]))
    return None


def _forbidden(now: Situation) -> str | None:
    if now.never_full:
        return "never_full is set"
    return _too_many_rows(now) or _too_long(now)


def _too_long(now: Situation) -> str | None:
    if now.max_full_seconds is None:
        return None
    if now.full_ms is None:
        return f"max_full_seconds is {now.max_full_seconds}, and how long a FULL takes is not known"
    seconds = now.full_ms / 1000
    if seconds <= now.max_full_seconds:
        return None
    return f"max_full_seconds is {now.max_full_seconds}, FULL is estimated at {seconds:,.1f} s"


def _too_many_rows(now: Situation) -> str | None:
    if now.max_full_rows is None:
        return None
    known = [c.rows for c in now.changes.values() if c.rows is not None]
    if len(known) < len(now.changes):
        return f"max_full_rows is {now.max_full_rows}, and the number of source rows is not known"
    if sum(known) <= now.max_full_rows:
        return None
    return f"max_full_rows is {now.max_full_rows}, the sources have {sum(known)} rows"


def _blown(now: Situation) -> str | None:
    if now.fuse_state == BLOWN:
        return "it has not been resumed since"
    if now.fuse_state == PASSING or now.fuse_rows is None:
        return None
    for change in now.changes.values():
        pending = _pending(change)
        if pending is not None and pending > now.fuse_rows:
            return f"{change.name}: {pending} rows changed, fuse_rows is {now.fuse_rows}"
    return None


def _pending(change: SourceChange) -> int | None:
    """Of a source that was replaced any row may be another."""
    whole = change.kind in (ChangeKind.REPLACED, ChangeKind.HISTORY_LOST)
    return change.rows if whole and change.triage.rows is None else change.triage.rows


def _why(change: SourceChange) -> str:
    return f"{change.name}: {change.triage.reason}" if change.triage.reason else change.name
