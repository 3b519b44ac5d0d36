"""A refresh as data: steps that are run and explained from the same value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from freshlake.compiler.plan import Plan


class StepKind(StrEnum):
    MATERIALIZE = "materialize"
    """Evaluate the plan once and keep its rows for later steps."""
    SELECT = "select"
    """Keep the rows of an earlier step whose flag column is true."""
    NET = "net"
    """Evaluate a weighted plan once, equal rows summed, and keep it for later steps."""
    RESULT = "result"
    """The change of a stored node: consolidated and appended to its log."""


@dataclass(frozen=True)
class Step:
    name: str
    kind: StepKind
    plan: Plan
    purpose: str
    flag: str | None = None
    node: str | None = None
    """For a RESULT: the node it belongs to ('' is the stream table itself)."""
    consolidated: bool = False
    """The plan already yields one entry per distinct row with a positive weight, so nothing needs to be summed."""


@dataclass(frozen=True)
class Applied:
    """One rule applied to one operator, for explain."""

    operator: str
    rule: str
    why: str


@dataclass(frozen=True)
class RefreshProgram:
    strategy: str
    steps: tuple[Step, ...]
    applied: tuple[Applied, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    """Node id → name of the step that yields its change."""
