"""What a mutation is: a rule or a part of it, replaced by a wrong one while a test runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from freshlake.compiler import plan as p
from freshlake.compiler.rules import RULES

Patch = AbstractContextManager[Any]

POSITIVE = p.text(f"{p.WEIGHT} > 0", p.WEIGHT)


@dataclass(frozen=True)
class Mutation:
    name: str
    patches: Callable[[], list[Patch]]
    story: str
    """The file of tests/scenarios that should notice it, if the tests of the rules alone do not."""


def rule(operator: type[p.Plan], change: Callable[[p.Plan, Any, Any], p.Plan | None]) -> list[Patch]:
    """`change(node, derive, original)` takes the place of a rule."""
    old = RULES[operator]
    new = replace(old, delta=lambda node, view: change(node, view, old.delta))
    return [mock.patch.dict(RULES, {operator: new})]


def attr(target: object, name: str, value: object) -> Patch:
    return mock.patch.object(target, name, value)
