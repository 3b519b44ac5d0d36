"""How one refresh fits into the round that it is part of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from freshlake.catalog.records import Lease


@dataclass(frozen=True)
class Terms:
    """`at` is the moment of which the sources are read: that at which the round pinned their heads, or now.

    Without `publish` readers do not see the result until its group is published. With `retries` a failure that may
    pass is tried again later, and counted only when that did not help. `leases` are held by the caller. Without
    `counts` a failure says nothing against the table: what it could not follow is undone. With `repairs` a table in
    quarantine is refreshed too, to put it right.
    """

    at: datetime | None = None
    publish: bool = True
    retries: bool = False
    counts: bool = True
    leases: Mapping[int, Lease] = field(default_factory=dict)
    repairs: bool = False

    def not_before(self, known: datetime | None) -> datetime:
        """The data timestamp of a refresh: time does not go back for a table that others have brought further."""
        assert self.at is not None
        return self.at if known is None else max(self.at, known)


DEFAULT_TERMS = Terms()
