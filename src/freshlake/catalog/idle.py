"""Many stream tables in which nothing changed, recorded in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, insert, select, update

from freshlake.catalog.database import Database
from freshlake.catalog.enums import Action, RefreshStatus
from freshlake.catalog.history import new_refresh_id
from freshlake.catalog.records import StreamTable
from freshlake.catalog.tables import leases, refresh_history, stream_tables


class Idle(Database):
    """Move data timestamps."""

    def record_idle(self, seen: Sequence[StreamTable], at: datetime) -> int:
        """Record NO_DATA for tables whose sources all stand where they stood; returns for how many.

        One that somebody works on, or that moved since it was read, is left alone: its own refresh says more.
        """
        now = self._clock.now()
        with self._write() as connection:
            wanted = select(leases.c.stream_table_id).where(leases.c.owner.is_not(None))
            held = set(connection.execute(wanted).scalars())
            columns = (stream_tables.c.id, stream_tables.c.last_refresh_at)
            found = connection.execute(select(*columns).where(stream_tables.c.id.in_([t.id for t in seen])))
            stands = {row.id: row.last_refresh_at for row in found}
            idle = [t for t in seen if t.id not in held and stands.get(t.id) == t.last_refresh_at]
            if not idle:
                return 0
            moved = update(stream_tables).where(stream_tables.c.id == bindparam("of"))
            moved = moved.values(
                data_timestamp=bindparam("moment"),
                frontier=bindparam("stand"),
                last_refresh_at=now,
                consecutive_errors=0,
                retries=0,
                retry_at=None,
            )
            connection.execute(moved, [_moved(table, at) for table in idle])
            connection.execute(insert(refresh_history), [_row(table, at, now, self.owner) for table in idle])
            return len(idle)


def _moment(table: StreamTable, at: datetime) -> datetime:
    return at if table.data_timestamp is None else max(at, table.data_timestamp)


def _moved(table: StreamTable, at: datetime) -> dict[str, object]:
    moment = _moment(table, at)
    stand = {**(table.frontier or {}), "data_timestamp": moment.isoformat()}
    return {"of": table.id, "moment": moment, "stand": stand}


def _row(table: StreamTable, at: datetime, now: datetime, owner: str) -> dict[str, object]:
    return {
        "refresh_id": new_refresh_id(),
        "stream_table_id": table.id,
        "status": RefreshStatus.COMPLETED,
        "action": Action.NO_DATA,
        "data_timestamp": _moment(table, at),
        "start_time": now,
        "end_time": now,
        "duration_ms": 0,
        "rows_inserted": 0,
        "rows_deleted": 0,
        "rows_updated": 0,
        "source_changes": 0,
        "generation": table.generation,
        "version": table.version,
        "owner": owner,
    }
