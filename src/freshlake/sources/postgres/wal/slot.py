"""The logical slot: how far the server keeps its log for us, and whether it still does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureUnsupported, SourceHistoryLost
from freshlake.sources.postgres.capture import CopyPoint
from freshlake.sources.postgres.connection import connect, limits, setting, translated
from freshlake.sources.postgres.position import LsnPosition
from freshlake.sources.postgres.reference import ConnectionReference

if TYPE_CHECKING:
    import psycopg

MEGABYTE = 1024 * 1024
WARNING_MB = 100
CRITICAL_MB = 1024

_STATE = """
SELECT slot_name::text, plugin::text, active, confirmed_flush_lsn::text, coalesce(wal_status, 'reserved'),
       (pg_current_wal_insert_lsn() - confirmed_flush_lsn)::bigint,
       coalesce(pg_current_wal_insert_lsn() - restart_lsn, 0)::bigint
FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()
"""


class Alert(StrEnum):
    """What a person should know about a slot."""

    MISSING = "replication_slot_missing"
    LAG = "slot_lag_exceeds_threshold"


class Level(StrEnum):
    """How bad it is: a critical slot makes its source unhealthy."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True)
class SlotState:
    """A slot as the server shows it; `retained_bytes` is what it keeps on the server's disk, `lag_bytes` what of it
    was not confirmed."""

    name: str
    active: bool
    confirmed: str | None
    wal_status: str
    lag_bytes: int
    retained_bytes: int

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed log that was not read."""
        return self.wal_status == "lost" or self.confirmed is None


@dataclass(frozen=True)
class SlotHealth:
    """A judgement: no alert means that all is well."""

    level: Level
    alert: Alert | None
    detail: str = ""


def state(cursor: psycopg.Cursor[Any], name: str) -> SlotState | None:
    """The slot, or None if there is none of the name in this database."""
    row = cursor.execute(_STATE, [name]).fetchone()
    if row is None:
        return None
    slot, plugin, active, confirmed, wal_status, lag, retained = row
    if plugin != "pgoutput":
        raise CaptureUnsupported(f"slot {name} is made for {plugin}", hint="drop it; Freshlake makes its own")
    return SlotState(slot, active, confirmed, wal_status, lag or 0, retained)


def judge(slot: SlotState | None, *, warning_mb: int = WARNING_MB, critical_mb: int = CRITICAL_MB) -> SlotHealth:
    """Whether a slot is there, and keeps no more log than it may."""
    if slot is None:
        return SlotHealth(Level.CRITICAL, Alert.MISSING, "changes since its removal are lost")
    if slot.is_lost:
        return SlotHealth(Level.CRITICAL, Alert.MISSING, f"the server has invalidated slot {slot.name}")
    megabytes = slot.retained_bytes / MEGABYTE
    detail = f"the server keeps {megabytes:.0f} MB of log for slot {slot.name}"
    if megabytes >= critical_mb:
        return SlotHealth(Level.CRITICAL, Alert.LAG, detail)
    if megabytes >= warning_mb:
        return SlotHealth(Level.WARNING, Alert.LAG, detail)
    return SlotHealth(Level.OK, None)


def required(cursor: psycopg.Cursor[Any], name: str, origin: str) -> LsnPosition:
    """How far a slot was confirmed; raises SourceHistoryLost if it is gone."""
    found = state(cursor, name)
    if found is None or found.is_lost or found.confirmed is None:
        raise SourceHistoryLost(
            f"replication slot {name} is missing or was invalidated",
            detail=judge(found).detail,
            hint="make the slot anew and copy the tables at its snapshot",
        )
    return LsnPosition.parse(origin, found.confirmed)


@contextmanager
def created(
    reference: ConnectionReference, name: str, origin: str, *, temporary: bool = False, seconds: float = 0
) -> Iterator[CopyPoint]:
    """Make a slot; while the block runs, its snapshot sees exactly the transactions that the slot will not send.

    The server waits for all transactions that are running now, each for at most `seconds` (0: without limit).
    """
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    with connect(reference, replication=True) as connection:
        with translated():
            # it holds the snapshot in a transaction without doing anything, as long as a copy takes
            for limit, value in limits(connection).items():
                connection.execute(f"SET {limit} TO {setting(value)}".encode())
            connection.execute(f"SET lock_timeout TO {setting(str(round(seconds * 1000)))}".encode())
            made = connection.execute(f"CREATE_REPLICATION_SLOT {name} {kind} pgoutput EXPORT_SNAPSHOT".encode())
            _, lsn, snapshot, _ = made.fetchone() or ("", "", "", "")
        yield CopyPoint(LsnPosition.parse(origin, lsn), snapshot)


def drop(cursor: psycopg.Cursor[Any], name: str) -> None:
    """Drop a slot if it is there."""
    if state(cursor, name) is not None:
        cursor.execute("SELECT pg_drop_replication_slot(%s)", [name])
