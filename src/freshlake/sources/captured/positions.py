"""Positions of a database as the lake keeps them: numbered, with what the database itself calls them."""

from __future__ import annotations

from freshlake.catalog.source_records import SourceDatabase
from freshlake.errors import InternalError
from freshlake.sources.postgres.position import LsnPosition, SnapshotPosition, position_from_json
from freshlake.sources.postgres.position import Position as Place
from freshlake.sources.protocol import Position

_KINDS: dict[str, type[SnapshotPosition] | type[LsnPosition]] = {"snapshot": SnapshotPosition, "lsn": LsnPosition}


def newest(database: SourceDatabase) -> Position | None:
    """The position that was pinned last."""
    return None if database.position is None else numbered(database.version, position_from_json(database.position))


def numbered(version: int, place: Place) -> Position:
    """A place under its number; its history is the table whose versions are numbered."""
    kind = "snapshot" if isinstance(place, SnapshotPosition) else "lsn"
    return Position(place.origin, version, f"{kind} {place.text}")


def place_of(position: Position) -> Place:
    """What the database calls a position."""
    kind, _, text = position.fingerprint.partition(" ")
    if kind not in _KINDS:
        raise InternalError(f"'{position.fingerprint}' is not a position of a database")
    return _KINDS[kind].parse(position.table_id, text)
