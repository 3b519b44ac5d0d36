"""What a rule is, and all it may see: the delta, the before-state and the after-state of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from freshlake.compiler import plan as p


class Linearity(StrEnum):
    LINEAR = "linear"
    BILINEAR = "bilinear"
    NONLINEAR = "non-linear"


class Derive(Protocol):
    """The view a rule has of the query below it."""

    def delta(self, plan: p.Plan) -> p.Plan | None:
        """The weighted change of `plan`; None when nothing below it changed."""
        ...

    def after(self, plan: p.Plan) -> p.Plan:
        """The rows of `plan` after the refresh, unweighted."""
        ...

    def before(self, plan: p.Plan) -> p.Plan:
        """The rows of `plan` before the refresh, weighted and not consolidated."""
        ...

    def share(self, plan: p.Plan, purpose: str) -> p.Plan:
        """Evaluate once, use many times."""
        ...


@dataclass(frozen=True)
class Rule:
    name: str
    operator: type[p.Plan]
    delta: Callable[[Any, Derive], p.Plan | None]
    linearity: Linearity
    law: str
