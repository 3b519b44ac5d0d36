"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from freshlake.compiler import compile as compile_module
from freshlake.compiler import plan as p
from freshlake.compiler.refusals import Position
from freshlake.compiler.support import Reason
from freshlake.compiler.walk import nodes
from tests.integration.capture_database import Database, clear, new_database
from tests.integration.postgres_server import LOGICAL, Server, binaries, embedded, server


@pytest.fixture
def windows_without_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if windows had no rule: what happens to queries without one does not depend on which operators have one."""
    known = compile_module.reasons
    window = Reason("not-differentiable", "a window function has no differential rule yet", "use mode AUTO or FULL")

    def reasons(plan: p.Plan, places: Mapping[str, Position]) -> tuple[Reason, ...]:
        return (*known(plan, places), *([window] if any(isinstance(n, p.Window) for n in nodes(plan)) else []))

    monkeypatch.setattr(compile_module, "reasons", reasons)


@pytest.fixture(scope="session", params=["installed", "embedded"])
def capture_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A PostgreSQL that decodes its log: the one that is installed (Debian 12: 15), and that of the Python package."""
    with server(binaries() if request.param == "installed" else embedded(), LOGICAL) as running:
        yield running


@pytest.fixture(scope="session")
def capture_database(capture_server: Server) -> Iterator[Database]:
    """A database that tests use one after the other."""
    with new_database(capture_server) as made:
        yield made


@pytest.fixture
def database(capture_database: Database) -> Iterator[Database]:
    """A database that is empty for each test."""
    yield capture_database
    clear(capture_database)
