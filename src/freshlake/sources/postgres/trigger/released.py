"""How far changes were given up, as the database itself knows it.

Rows of a buffer go when every mirror has landed them. A lake that was put back to an older state asks for them again,
and a database that was put back has none of those that the lake has seen since: both would read a batch that lacks
something. So the database notes how far it gave changes up *before* it does so, and the lake after it: whoever reads
compares the two with the place that he starts from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from freshlake.errors import SourceHistoryLost, SourceReplaced
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.position import SnapshotPosition

if TYPE_CHECKING:
    import psycopg


def prepare(cursor: psycopg.Cursor[Any], names: Names) -> None:
    """Make the place for the note; what is there already stays."""
    if not _exists(cursor, names):
        cursor.execute(
            f"CREATE TABLE {names.released} (one boolean PRIMARY KEY CHECK (one), origin text, snapshot text)".encode()
        )
        cursor.execute(f"INSERT INTO {names.released} VALUES (true, NULL, NULL)".encode())


def note(cursor: psycopg.Cursor[Any], names: Names, upto: SnapshotPosition) -> None:
    """Say that changes up to a position are given up; whoever is late with an older one changes nothing."""
    prepare(cursor, names)
    known = _noted(cursor, names, lock=True)
    if known is None or known.origin != upto.origin or upto.is_ahead_of(known):
        values = [upto.origin, upto.text]
        cursor.execute(f"UPDATE {names.released} SET origin = %s, snapshot = %s".encode(), values)


def check(
    cursor: psycopg.Cursor[Any], names: Names, start: SnapshotPosition, known: SnapshotPosition | None = None
) -> None:
    """Raise if changes that lead on from a position are gone.

    `known` is how far the lake knows them to be given up; it must have asked for that before the transaction began.
    """
    noted = _noted(cursor, names)
    if known is not None and known.origin == start.origin and not _reaches(noted, known):
        raise SourceReplaced(
            "the database was put back to an older state",
            detail="it does not know of changes that it has given up",
            hint="copy its tables anew",
        )
    if noted is not None and noted.origin == start.origin and not _reaches(start, noted):
        raise SourceHistoryLost(
            "changes after this position are not kept any more",
            detail=f"they were given up to {noted.text}, and {start.text} is wanted",
            hint="copy the tables anew",
        )


def _reaches(position: SnapshotPosition | None, other: SnapshotPosition) -> bool:
    return position is not None and (position == other or position.is_ahead_of(other))


def _noted(cursor: psycopg.Cursor[Any], names: Names, *, lock: bool = False) -> SnapshotPosition | None:
    if not _exists(cursor, names):
        return None
    query = f"SELECT origin, snapshot FROM {names.released}{' FOR UPDATE' if lock else ''}"
    found: tuple[Any, Any] = cursor.execute(query.encode()).fetchone() or (None, None)
    return None if found[0] is None else SnapshotPosition.parse(*found)


def _exists(cursor: psycopg.Cursor[Any], names: Names) -> bool:
    return cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [names.released]).fetchone() == (True,)
