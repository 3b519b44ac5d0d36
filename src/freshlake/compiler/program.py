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
    LOOP = "loop"
    """Evaluate the plan, then the body over the result, again and again until it is empty; all results together."""
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
    body: Plan | None = None
    """For a LOOP: what one round makes of the round before, which it reads under the step's own name."""
    limit: int = 0
    """For a LOOP: the level beyond which it is given up."""
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
