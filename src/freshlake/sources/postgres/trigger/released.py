"""How far changes were landed and given up, as the database itself knows it.

Rows of a buffer go when every mirror has landed them. A lake that was put back to an older state asks for them again,
and a database that was put back has none of those that the lake has seen since: both would read a batch that lacks
something. So the database notes how far mirrors go *before* any of them does, and how far it gives changes up before it
does so: whoever reads on from a place lies between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from freshlake.errors import SourceHistoryLost, SourceReplaced
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.position import SnapshotPosition

if TYPE_CHECKING:
    import psycopg

_HAS_SCHEMA = "SELECT to_regnamespace(%s) IS NOT NULL"
_HAS_TABLE = "SELECT to_regclass(%s) IS NOT NULL"
_IS_WHOLE = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'landed')"


@dataclass(frozen=True)
class Note:
    """How far mirrors may have come, and how far changes are given up; None where nothing is known of it."""

    landed: SnapshotPosition | None = None
    released: SnapshotPosition | None = None

    def check_known(self, start: SnapshotPosition) -> None:
        """Raise if the database does not know that a mirror has come to where it stands."""
        if self.landed is not None and self.landed.origin == start.origin and not _reaches(self.landed, start):
            raise SourceReplaced(
                "the database was put back to an older state",
                detail=f"it knows of mirrors that came to {self.landed.text}, and one stands at {start.text}",
                hint="copy its tables anew",
            )

    def check_kept(self, start: SnapshotPosition) -> None:
        """Raise if changes that lead on from a position are gone."""
        if self.released is not None and self.released.origin == start.origin and not _reaches(start, self.released):
            raise SourceHistoryLost(
                "changes after this position are not kept any more",
                detail=f"they were given up to {self.released.text}, and {start.text} is wanted",
                hint="copy the tables anew",
            )


def read_note(cursor: psycopg.Cursor[Any], names: Names) -> Note:
    """The note as the cursor's transaction sees it; one of an earlier version says less."""
    if not _is(cursor, _HAS_TABLE, names.released):
        return Note()
    query = f"SELECT origin, to_jsonb(r) ->> 'landed', snapshot FROM {names.released} r"
    origin, *texts = cursor.execute(query.encode()).fetchone() or ("", None, None)
    return Note(*(None if text is None else SnapshotPosition.parse(str(origin), text) for text in texts))


def prepare(cursor: psycopg.Cursor[Any], names: Names) -> None:
    """Make the place for the note; what is there already stays."""
    if not _is(cursor, _HAS_TABLE, names.released):
        columns = "one boolean PRIMARY KEY CHECK (one), origin text, snapshot text, landed text"
        cursor.execute(f"CREATE TABLE {names.released} ({columns})".encode())
        cursor.execute(f"INSERT INTO {names.released} VALUES (true, NULL, NULL, NULL)".encode())
    elif not _is(cursor, _IS_WHOLE, names.released):
        cursor.execute(f"ALTER TABLE {names.released} ADD COLUMN landed text".encode())


def note_landed(cursor: psycopg.Cursor[Any], names: Names, upto: SnapshotPosition) -> None:
    """Say that mirrors may come as far as a position; where nothing is installed there is nothing to be said."""
    if _is(cursor, _HAS_SCHEMA, names.schema):
        # on disk before a mirror has come there
        cursor.execute("SET LOCAL synchronous_commit TO local")
        _note(cursor, names, "landed", upto)


def note_released(cursor: psycopg.Cursor[Any], names: Names, upto: SnapshotPosition) -> None:
    """Say that changes up to a position are given up."""
    _note(cursor, names, "snapshot", upto)


def _note(cursor: psycopg.Cursor[Any], names: Names, column: str, upto: SnapshotPosition) -> None:
    """Whoever is late with an older position changes nothing."""
    prepare(cursor, names)
    cursor.execute(f"SELECT FROM {names.released} FOR UPDATE".encode())
    note = read_note(cursor, names)
    known = note.landed if column == "landed" else note.released
    if known is None or known.origin != upto.origin or upto.is_ahead_of(known):
        renew = f"UPDATE {names.released} SET origin = %s, snapshot = NULL, landed = NULL"
        renew += " WHERE origin IS DISTINCT FROM %s"
        cursor.execute(renew.encode(), [upto.origin, upto.origin])
        cursor.execute(f"UPDATE {names.released} SET {column} = %s".encode(), [upto.text])


def _reaches(position: SnapshotPosition, other: SnapshotPosition) -> bool:
    return position == other or position.is_ahead_of(other)


def _is(cursor: psycopg.Cursor[Any], query: str, name: str) -> bool:
    return cursor.execute(query.encode(), [name]).fetchone() == (True,)
