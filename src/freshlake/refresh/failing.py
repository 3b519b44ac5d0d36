"""How refreshes fail: what may pass by itself, what ends a table at once, and the trace that is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from freshlake.catalog.names import TableName
from freshlake.catalog.records import Lease
from freshlake.errors import (
    CatalogError,
    CommitConflict,
    FreshlakeError,
    FuseBlown,
    LeaseLost,
    RefreshInProgress,
    SourceDropped,
    SystemFailure,
    ValueNotRepresentable,
)
from freshlake.refresh.choose import Decision
from freshlake.refresh.refused import defect
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.terms import Terms

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

MAY_PASS = (SystemFailure, CatalogError, CommitConflict)
"""Errors that may pass by themselves: a lost executor, a full disk, another writer, a catalog that does not answer."""

ELSEWHERE = (RefreshInProgress, LeaseLost)
"""Errors that say that a table is in other hands, where nothing is wrong with it."""


@contextmanager
def known(name: TableName) -> Iterator[None]:
    """Whatever is raised inside is an error of Freshlake, a defect of it if nobody has foreseen it."""
    try:
        with translated():
            yield
    except FreshlakeError:
        raise
    except Exception as error:
        raise defect(name, error) from error


def fail(
    engine: Engine, refresh_id: str, error: FreshlakeError, terms: Terms, decision: Decision | None = None
) -> None:
    """Mark a refresh that had begun as failed."""
    engine.catalog.fail_refresh(
        refresh_id,
        error,
        max_consecutive_errors=engine.settings.max_consecutive_errors,
        action=decision.action if decision else None,
        fallback_reason=decision.reason if decision else None,
        decision=dict(decision.inputs) if decision else None,
        fatal=isinstance(error, SourceDropped | ValueNotRepresentable | FuseBlown),
        counted=terms.counts,
        retry=terms.retries and isinstance(error, MAY_PASS),
    )


def fail_under(engine: Engine, lease: Lease, error: FreshlakeError, terms: Terms) -> None:
    """Leave what a failed refresh leaves, for one that could not begin."""
    fail(engine, engine.catalog.begin_refresh(lease).refresh_id, error, terms)
