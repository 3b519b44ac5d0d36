"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from freshlake.compiler import compile as compile_module
from freshlake.compiler import plan as p
from freshlake.compiler.refusals import Position
from freshlake.compiler.support import Reason
from freshlake.compiler.walk import nodes


@pytest.fixture
def windows_without_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if windows had no rule: what happens to queries without one does not depend on which operators have one."""
    known = compile_module.reasons
    window = Reason("not-differentiable", "a window function has no differential rule yet", "use mode AUTO or FULL")

    def reasons(plan: p.Plan, places: Mapping[str, Position]) -> tuple[Reason, ...]:
        return (*known(plan, places), *([window] if any(isinstance(n, p.Window) for n in nodes(plan)) else []))

    monkeypatch.setattr(compile_module, "reasons", reasons)
