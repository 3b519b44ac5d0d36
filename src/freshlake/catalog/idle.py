"""Where stream tables stand, read cheaply; and many in which nothing changed, recorded in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, String, Text, Update, cast, insert, literal, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Action, DefinitionKind, RefreshStatus
from freshlake.catalog.history import new_refresh_id
from freshlake.catalog.records import USES, Json, stream_table_key
from freshlake.catalog.tables import leases, refresh_history, stream_tables

_STAND = (
    *("id", "generation", "version", "published_generation", "published_version"),
    *("is_populated", "needs_reinit", "storage_id", "definition_kind", "defining_query"),
)

_Row = tuple[Any, ...]


@dataclass(frozen=True)
class Standing:
    """How far a stream table has come, and what it is made from."""

    id: int
    generation: int
    version: int
    published_generation: int
    published_version: int
    is_populated: bool
    needs_reinit: bool
    storage_id: str
    definition_kind: DefinitionKind
    defining_query: str
    uses: Mapping[str, str]
    frontier: Json | None

    @property
    def is_published(self) -> bool:
        return (self.generation, self.version) == (self.published_generation, self.published_version)

    @property
    def source_key(self) -> str:
        return stream_table_key(self.id)


class Idle(Database):
    """Look at all tables again and again, and move the data timestamps of those in which nothing changed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._stood: dict[int, tuple[_Row, Standing]] = {}

    def standings(self) -> Mapping[int, Standing]:
        """Where all stream tables stand. A frontier is read again only where it is another text than before."""
        with self._read() as connection:
            rows = _rows(connection)
        known = self._stood
        self._stood = {i: known[i] if i in known and known[i][0] == row else _parsed(row) for i, row in rows.items()}
        return {i: standing for i, (_, standing) in self._stood.items()}

    def record_idle(self, tables: Iterable[Standing], at: datetime) -> int:
        """Record NO_DATA for tables whose sources all stood where they stood; returns for how many.

        One that somebody works on, or that is another one since it was looked at, is left alone: its own refresh says
        more. So is one that others have brought further.
        """
        now, known = self._clock.now(), self._stood
        with self._write() as connection:
            rows, left = _rows(connection), _left_alone(connection, at)
            same = (t.id for t in tables if t.id in known and known[t.id] == (rows.get(t.id), t))
            idle = [i for i in same if i not in left]
            if idle:
                connection.execute(_history(idle, at, now, self.owner))
                connection.execute(_moved(idle, at, now))
            return len(idle)


def _rows(connection: Connection) -> dict[int, _Row]:
    columns = [stream_tables.c[name] for name in _STAND]
    query = select(*columns, cast(stream_tables.c.session_settings, Text), cast(stream_tables.c.frontier, Text))
    return {row[0]: tuple(row) for row in connection.execute(query)}


def _parsed(row: _Row) -> tuple[_Row, Standing]:
    *plain, settings, frontier = row
    values = (*plain, json.loads(settings).get(USES, {}), None if frontier is None else json.loads(frontier))
    return row, Standing(*values)


def _left_alone(connection: Connection, at: datetime) -> set[int]:
    held = select(leases.c.stream_table_id).where(leases.c.owner.is_not(None))
    further = select(stream_tables.c.id).where(stream_tables.c.data_timestamp > at)
    return {*connection.execute(held).scalars(), *connection.execute(further).scalars()}


def _moved(ids: Sequence[int], at: datetime, now: datetime) -> Update:
    """The positions in the frontier stay; the moment at which they were seen has a column of its own."""
    values = {"data_timestamp": at, "last_refresh_at": now, "consecutive_errors": 0, "retries": 0, "retry_at": None}
    return update(stream_tables).where(stream_tables.c.id.in_(ids)).values(**values)


def _history(ids: Sequence[int], at: datetime, now: datetime, owner: str) -> Insert:
    """One row for each, made from the tables themselves."""
    own = {"stream_table_id": "id", "generation": "generation", "version": "version"}
    same = {
        "status": RefreshStatus.COMPLETED,
        "action": Action.NO_DATA,
        "data_timestamp": at,
        "start_time": now,
        "end_time": now,
        **dict.fromkeys(("duration_ms", "rows_inserted", "rows_deleted", "rows_updated", "source_changes"), 0),
        "owner": owner,
    }
    history, table = refresh_history.c, stream_tables.c
    values: dict[str, ColumnElement[Any]] = {n: literal(value, history[n].type) for n, value in same.items()}
    values |= {name: table[column] for name, column in own.items()}
    values["refresh_id"] = literal(f"{new_refresh_id()}-", String) + cast(table.id, String)
    chosen = select(*values.values()).where(table.id.in_(ids)).order_by(table.id)
    return insert(refresh_history).from_select(list(values), chosen)
