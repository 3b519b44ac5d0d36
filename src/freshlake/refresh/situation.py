"""What is known when a refresh is chosen, as a value and as the plain data that the history keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from freshlake.catalog.enums import RefreshMode
from freshlake.catalog.records import StreamTable
from freshlake.compiler.support import Reason
from freshlake.config import Settings
from freshlake.refresh.cost import Costs
from freshlake.sources.protocol import ChangeKind, Triage

BLOWN, PASSING = "blown", "passing"
"""States of a fuse: refreshes are refused; the next one may pass."""


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
    costs: Costs | None = None
    """What both ways are estimated to take, if the table's history says."""
    min_history: int = 10
    margin: float = 0.8
    never_full: bool = False
    max_full_rows: int | None = None
    """No FULL by itself over sources of more rows."""
    max_full_seconds: int | None = None
    """No FULL by itself that is estimated to take longer."""
    full_ms: float | None = None
    """That estimate, made only for such a table; None when nothing is known."""
    fuse_rows: int | None = None
    """More changed rows of one source stop the table until a person decides."""
    fuse_state: str | None = None
    storage_lost: str | None = None
    """What is gone or altered of what was stored, where `needs_reinit` is set for that."""


def bounds(table: StreamTable, settings: Settings) -> dict[str, Any]:
    """What the options of a table and the settings say about choosing."""
    return {
        "min_history": settings.cost_model_min_history,
        "margin": settings.cost_model_safety_margin,
        "never_full": table.never_full,
        "max_full_rows": table.max_full_rows,
        "max_full_seconds": table.max_full_seconds,
        "fuse_rows": table.fuse_rows,
        "fuse_state": table.fuse_state,
    }


def inputs_of(now: Situation) -> dict[str, Any]:
    """Everything that the choice looks at."""
    return {
        "mode": str(now.mode),
        "requested": str(now.requested) if now.requested else None,
        "is_populated": now.is_populated,
        "needs_reinit": now.needs_reinit,
        "definition_changed": now.definition_changed,
        "changed_texts": list(now.changed_texts),
        "append_only": now.append_only,
        "not_differentiable": [asdict(r) for r in now.not_differentiable],
        "sources": {key: _source(c) for key, c in now.changes.items()},
        "max_change_ratio": now.max_change_ratio,
        "min_history": now.min_history,
        "margin": now.margin,
        "never_full": now.never_full,
        "max_full_rows": now.max_full_rows,
        "max_full_seconds": now.max_full_seconds,
        "full_ms": now.full_ms,
        "fuse_rows": now.fuse_rows,
        "fuse_state": now.fuse_state,
        "costs": now.costs.to_json() if now.costs else None,
        **({"storage_lost": now.storage_lost} if now.storage_lost else {}),
    }


def _source(c: SourceChange) -> dict[str, Any]:
    found = {"name": c.name, "change": str(c.kind), "changed_rows": c.triage.rows, "rows": c.rows}
    rare = {
        "bytes": c.triage.bytes,
        "truncated": c.triage.truncated,
        "why": c.triage.reason,
        "affected_columns": list(c.affected_columns),
    }
    return found | {name: value for name, value in rare.items() if value}


def situation_of(inputs: Mapping[str, Any]) -> Situation:
    """The inverse of `inputs_of`, as far as the choice depends on it."""
    return Situation(
        mode=RefreshMode(inputs["mode"]),
        requested=RefreshMode(inputs["requested"]) if inputs["requested"] else None,
        is_populated=inputs["is_populated"],
        needs_reinit=inputs["needs_reinit"],
        definition_changed=inputs["definition_changed"],
        changed_texts=tuple(inputs["changed_texts"]),
        append_only=inputs["append_only"],
        not_differentiable=tuple(Reason(**r) for r in inputs["not_differentiable"]),
        changes={key: _change_of(c) for key, c in inputs["sources"].items()},
        max_change_ratio=inputs["max_change_ratio"],
        min_history=inputs["min_history"],
        margin=inputs["margin"],
        never_full=inputs["never_full"],
        max_full_rows=inputs["max_full_rows"],
        # decisions of earlier versions know nothing of these
        max_full_seconds=inputs.get("max_full_seconds"),
        full_ms=inputs.get("full_ms"),
        fuse_rows=inputs["fuse_rows"],
        fuse_state=inputs["fuse_state"],
        costs=Costs.from_json(inputs["costs"]) if inputs["costs"] else None,
        storage_lost=inputs.get("storage_lost"),
    )


def _change_of(found: Mapping[str, Any]) -> SourceChange:
    triage = Triage(
        ChangeKind(found["change"]),
        found["changed_rows"],
        found.get("bytes", 0),
        found.get("why"),
        found.get("truncated", False),
    )
    return SourceChange(found["name"], triage, found["rows"], tuple(found.get("affected_columns", ())))
