"""What a rule is, and all it may see: the delta, the before-state and the after-state of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from freshlake.compiler import plan as p
from freshlake.compiler.split import Node


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

    def select(self, plan: p.Plan, flag: str, purpose: str) -> p.Plan:
        """The rows of an earlier step whose flag is true; a step of its own, so that later ones know if it is empty."""
        ...


@dataclass(frozen=True)
class Rule:
    name: str
    operator: type[p.Plan]
    delta: Callable[[Any, Derive], p.Plan | None]
    linearity: Linearity
    law: str
    kind: str = ""
    """For a rule of `Join`: the kind of join."""


class Build(Derive, Protocol):
    """Deriving a stored node may also read what it stores and add steps."""

    def stored(self, node: Node) -> p.Plan:
        """The node's rows as they were stored by the refresh before."""
        ...

    def net(self, plan: p.Plan, purpose: str) -> p.Plan:
        """Evaluate a weighted plan once, equal rows summed."""
        ...

    def loop(self, seed: p.Plan, loop: p.Loop, purpose: str) -> p.Plan:
        """`seed` and all that the recursion's step makes of it, round by round until nothing is left."""
        ...


@dataclass(frozen=True)
class NodeRule:
    """How an operator that needs its own old output is maintained as a stored node."""

    name: str
    operator: type[p.Plan]
    delta: Callable[[Node, Build], p.Plan | None]
    """The weighted change of the node's stored rows."""
    rows: Callable[[Node, Build], p.Plan]
    """The node's stored rows computed from scratch."""
    law: str
    strategy: Callable[[Node], str]
    """How the node is maintained, in a few words for people."""
    linearity: Linearity = Linearity.NONLINEAR
