"""Upkeep: no task stops another."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from freshlake.service.upkeep import Upkeep

TASKS = ("sweep", "retry", "consider", "compact", "guard", "bring_late", "slots", "buffers")


@pytest.mark.parametrize("broken", TASKS)
def test_a_task_that_fails_leaves_the_others_alone(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def task(name: str) -> Any:
        def run(*_: object) -> None:
            done.append(name)
            if name == broken:
                raise RuntimeError(f"{name} is broken")

        return run

    catalog = SimpleNamespace(databases=lambda: [SimpleNamespace(name="shop")])
    captures = SimpleNamespace(
        engine=SimpleNamespace(catalog=catalog), removals=SimpleNamespace(retry=task("retry")), guard=task("guard")
    )
    parts = (
        captures,
        SimpleNamespace(consider=task("consider")),
        SimpleNamespace(consider=task("compact")),
        SimpleNamespace(bring_late=task("bring_late")),
        SimpleNamespace(consider=task("slots")),
        SimpleNamespace(consider=task("buffers")),
        SimpleNamespace(sweep=task("sweep")),
    )
    with caplog.at_level(logging.ERROR, "freshlake"):
        Upkeep(*(cast(Any, part) for part in parts)).run(datetime(2026, 5, 1, tzinfo=UTC))
    assert tuple(done) == TASKS
    assert f"{broken} is broken" in caplog.text
