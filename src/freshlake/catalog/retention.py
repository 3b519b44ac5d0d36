"""Retention: the history forgets old refreshes, but not those that others still learn from."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, Select, delete, func, select

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Action, RefreshStatus
from freshlake.catalog.tables import refresh_history

RECOMPUTES = 50
"""So many old FULL refreshes of a table stay: they are rare, and the choice of the next one rests on their times."""
PORTION = 10_000
"""Most rows that go in one transaction, so that no refresh waits long for it."""

_history = refresh_history.c


class Retention(Database):
    """Prune the history."""

    def prune_history(self, before: datetime, portion: int = PORTION) -> int:
        """Forget refreshes that began before a time, the oldest first; returns how many, a full portion if more wait.

        The newest that a table completed before it stays, because it says which versions of its log are old.
        """
        with self._read() as connection:
            rows = _forgettable(connection, before, portion)
        if not rows:
            return 0
        with self._write() as connection:
            return connection.execute(delete(refresh_history).where(_history.sequence.in_(rows))).rowcount


def _forgettable(connection: Connection, before: datetime, portion: int) -> list[int]:
    # rows are in the order of time, so this reads only what is old
    young = select(_history.sequence).where(_history.start_time >= before).order_by(_history.sequence).limit(1)
    first = connection.execute(young).scalar()
    old = select(_history.sequence).where(_history.status != RefreshStatus.RUNNING)
    if first is not None:
        old = old.where(_history.sequence < first)
    kept = {*connection.execute(_newest(first)).scalars(), *connection.execute(_recomputes(first)).scalars()}
    found = connection.execute(old.order_by(_history.sequence).limit(portion + len(kept))).scalars()
    return [sequence for sequence in found if sequence not in kept][:portion]


def _newest(first: int | None) -> Select[tuple[int]]:
    done = select(func.max(_history.sequence)).where(_history.status == RefreshStatus.COMPLETED)
    done = done if first is None else done.where(_history.sequence < first)
    return done.group_by(_history.stream_table_id, _history.generation)


def _recomputes(first: int | None) -> Select[tuple[int]]:
    place = func.row_number().over(partition_by=_history.stream_table_id, order_by=_history.sequence.desc())
    full = select(_history.sequence, place.label("place")).where(
        _history.status == RefreshStatus.COMPLETED, _history.action.in_((Action.FULL, Action.REINITIALIZE))
    )
    ranked = (full if first is None else full.where(_history.sequence < first)).subquery()
    return select(ranked.c.sequence).where(ranked.c.place <= RECOMPUTES)
