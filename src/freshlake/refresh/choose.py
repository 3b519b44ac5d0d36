"""Choose what a refresh does: a pure function from what is known to an action with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from freshlake.catalog.enums import Action, RefreshMode
from freshlake.compiler.support import Reason
from freshlake.sources.protocol import ChangeKind, Triage


@dataclass(frozen=True)
class SourceChange:
    """What happened to one source since the frontier."""

    name: str
    triage: Triage
    rows: int | None
    """Rows of the source after the change, when its metadata knows."""
    affected_columns: tuple[str, ...] = ()
    """Columns the query reads that were dropped, renamed or retyped."""

    @property
    def kind(self) -> ChangeKind:
        """What the change means for this reader: a schema change elsewhere in the table is only its data change."""
        if self.triage.kind is ChangeKind.SCHEMA_CHANGED and not self.affected_columns:
            return self.triage.data
        return self.triage.kind


@dataclass(frozen=True)
class Situation:
    mode: RefreshMode
    requested: RefreshMode | None
    is_populated: bool
    needs_reinit: bool
    definition_changed: bool
    not_differentiable: tuple[Reason, ...]
    changes: Mapping[str, SourceChange]
    max_change_ratio: float
    append_only: bool = False
    changed_texts: tuple[str, ...] = ()
    """Views and functions that are not what they were when the table was loaded."""


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str | None = None
    detail: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    not_appended: tuple[str, ...] = ()
    """Sources of a table declared append-only that did more than insert: it is an ordinary table from now on."""


def choose(now: Situation) -> Decision:
    """Every decision carries the inputs it was made from."""
    action, reason, detail = _choose(now)
    others = _not_appended(now)
    if others and reason is None:
        reason, detail = "append-only-ended", f"{', '.join(others)}: rows were updated or deleted"
    return Decision(action, reason, detail, _inputs(now), others)


def _not_appended(now: Situation) -> tuple[str, ...]:
    if not (now.append_only and now.is_populated):
        return ()
    return tuple(c.name for c in now.changes.values() if c.kind in (ChangeKind.MUTATING, ChangeKind.REPLACED))


def _choose(now: Situation) -> tuple[Action, str | None, str | None]:
    changed = {k: c for k, c in now.changes.items() if c.kind is not ChangeKind.NONE}
    if now.needs_reinit:
        return Action.REINITIALIZE, "reinitialize", "the table was marked for a rebuild"
    for change in changed.values():
        if change.kind is ChangeKind.SCHEMA_CHANGED:
            columns = ", ".join(change.affected_columns)
            return Action.REINITIALIZE, "schema-changed", f"{change.name}: {change.triage.reason or columns}"
    if now.definition_changed:
        for change in changed.values():
            if change.kind is ChangeKind.REPLACED:
                return Action.REINITIALIZE, "source-replaced", _why(change)
        what = ", ".join(now.changed_texts)
        return Action.REINITIALIZE, "definition-changed", what or "the query now compiles to another plan"
    if not now.is_populated:
        return Action.FULL, "first-load", None
    if now.requested is RefreshMode.FULL:
        return Action.FULL, "requested", None
    if not changed:
        return Action.NO_DATA, None, None
    return _by_mode(now, changed)


def _by_mode(now: Situation, changed: Mapping[str, SourceChange]) -> tuple[Action, str | None, str | None]:
    mode = now.requested or now.mode
    if mode is RefreshMode.FULL:
        return Action.FULL, "mode-full", None
    if now.not_differentiable:
        return Action.FULL, "not-differentiable", "; ".join(r.message for r in now.not_differentiable)
    lost = {ChangeKind.REPLACED: "source-replaced", ChangeKind.HISTORY_LOST: "history-lost"}
    for change in changed.values():
        if change.kind in lost:
            return Action.FULL, lost[change.kind], _why(change)
    if now.requested is RefreshMode.DIFFERENTIAL:
        return Action.DIFFERENTIAL, None, None
    for change in changed.values():
        if change.triage.truncated:
            return Action.FULL, "truncate-detected", change.name
        if now.max_change_ratio > 0 and (why := _too_much(change, now.max_change_ratio)):
            return Action.FULL, *why
    return Action.DIFFERENTIAL, None, None


def _why(change: SourceChange) -> str:
    return f"{change.name}: {change.triage.reason}" if change.triage.reason else change.name


def _too_much(change: SourceChange, limit: float) -> tuple[str, str] | None:
    pending, rows = change.triage.rows, change.rows
    if not rows:
        return "source-size-unknown", f"{change.name}: the number of rows is not known or zero"
    if pending is not None and pending / rows > limit:
        return "change-ratio-exceeded", f"{change.name}: {pending} of {rows} rows changed, limit {limit:g}"
    return None


def _inputs(now: Situation) -> dict[str, Any]:
    sources = {
        key: {"name": c.name, "change": str(c.kind), "changed_rows": c.triage.rows, "rows": c.rows}
        | ({"bytes": c.triage.bytes} if c.triage.bytes else {})
        for key, c in now.changes.items()
    }
    return {
        "mode": str(now.mode),
        "requested": str(now.requested) if now.requested else None,
        "max_change_ratio": now.max_change_ratio,
        "not_differentiable": [asdict(r) for r in now.not_differentiable],
        "sources": sources,
    }
