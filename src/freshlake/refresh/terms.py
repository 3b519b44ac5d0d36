"""How one refresh fits into the round that it is part of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from freshlake.catalog.records import Lease
from freshlake.errors import FreshlakeError


@dataclass(frozen=True)
class Terms:
    """`at` is the moment of which the sources are read: that at which the round pinned their heads, or now.

    Without `publish` readers do not see the result until its group is published. With `retries` a failure that may
    pass is tried again later, and counted only when that did not help. `leases` are held by the caller. Without
    `counts` a failure says nothing against the table: what it could not follow is undone. With `repairs` a table in
    quarantine is refreshed too, to put it right. For a table that others refresh it waits so many seconds.
    `unreachable` are the sources whose heads the round could not take.
    """

    at: datetime | None = None
    publish: bool = True
    retries: bool = False
    counts: bool = True
    leases: Mapping[int, Lease] = field(default_factory=dict)
    repairs: bool = False
    wait_seconds: float = 0.0
    unreachable: Mapping[str, FreshlakeError] = field(default_factory=dict)

    def check_reached(self, source_keys: Iterable[str]) -> None:
        """Raise why the round could not take the head of one of these sources."""
        for key in source_keys:
            if key in self.unreachable:
                raise self.unreachable[key]

    def not_before(self, known: datetime | None) -> datetime:
        """The data timestamp of a refresh: time does not go back for a table that others have brought further."""
        assert self.at is not None
        return self.at if known is None else max(self.at, known)


DEFAULT_TERMS = Terms()
