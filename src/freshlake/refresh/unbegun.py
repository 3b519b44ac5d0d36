"""Refreshes that cannot begin: they leave what those leave that fail, so that nobody waits for them in silence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from freshlake.catalog.records import Lease, StreamTable
from freshlake.errors import FreshlakeError, NotFound
from freshlake.refresh.failing import ELSEWHERE, fail_under, known
from freshlake.refresh.leasing import leased
from freshlake.refresh.terms import Terms

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

_log = logging.getLogger("freshlake")


@contextmanager
def recorded(engine: Engine, table: StreamTable, terms: Terms, lease: Lease | None = None) -> Iterator[None]:
    """What is raised inside is a failed refresh of the table, unless the table is in other hands."""
    try:
        with known(table.full_name):
            yield
    except ELSEWHERE:
        raise
    except FreshlakeError as error:
        _leave_trace(engine, table, error, terms, lease or terms.leases.get(table.id))
        raise


def _leave_trace(engine: Engine, table: StreamTable, error: FreshlakeError, terms: Terms, lease: Lease | None) -> None:
    try:
        if lease is not None:
            fail_under(engine, lease, error, terms)
            return
        with leased(engine, [table.id], terms=terms) as leases:
            fail_under(engine, leases[table.id], error, terms)
    except (*ELSEWHERE, NotFound):
        pass  # whoever has the table finds out himself; or it was dropped
    except FreshlakeError as unsaid:
        _log.warning("the failed refresh of %s is not in its history: %s", table.full_name.short, unsaid.message)
