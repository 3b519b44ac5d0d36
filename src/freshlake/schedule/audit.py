"""Which stream table is audited next, as a function of when each was last.

One whose repair was interrupted comes first. Otherwise the one that has waited longest, where the time counts more for
a table that others read, since its wrong rows spread, and less for one that has not changed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

_UNCHANGED = 0.25


@dataclass(frozen=True)
class Candidate:
    """A stream table as the choice of the next audit sees it."""

    name: str
    audited_at: datetime | None = None
    readers: int = 0
    """Stream tables that read it, directly or through others."""
    is_changed: bool = True
    """Whether it has a newer version than the last audit saw."""
    is_unrepaired: bool = False
    """In quarantine, and its repair has not ended."""
    is_left_out: bool = False
    """Not loaded, or waiting for a person, or over a table in quarantine."""


def next_audit(candidates: Iterable[Candidate], now: datetime) -> Candidate | None:
    """The table to audit now; the order in which they are given does not matter."""
    open_ = sorted((c for c in candidates if not c.is_left_out), key=lambda c: c.name)
    return max(open_, key=lambda c: _urgency(c, now), default=None)


def _urgency(candidate: Candidate, now: datetime) -> tuple[int, float]:
    if candidate.is_unrepaired:
        return 2, 0.0
    if candidate.audited_at is None:
        return 1, float(candidate.readers)
    waited = max(0.0, (now - candidate.audited_at).total_seconds())
    return 0, waited * (1 + candidate.readers) * (1.0 if candidate.is_changed else _UNCHANGED)
