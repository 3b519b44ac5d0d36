"""The publication: which tables the server sends, and the replica identity that makes it send whole old rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureUnsupported, PrivilegeMissing
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.describe import describe_oids
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.locking import LOCK_SECONDS, Lock, acquire, alone, check_privileges, lock
from freshlake.sources.postgres.naming import Names, literal, quoted
from freshlake.sources.postgres.server import Server, look
from freshlake.sources.postgres.tables import Captured, Identity, Partition, Table, TableKind, check_capturable

if TYPE_CHECKING:
    import psycopg

_MEMBERS = """
SELECT r.prrelid::bigint, r.oid::text FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
WHERE p.pubname = %s
"""
_INDEX = """
SELECT quote_ident(c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s AND i.indisreplident
"""
_NOTE = """
SELECT obj_description(p.oid, 'pg_publication') FROM pg_publication p WHERE p.pubname = %s
"""
_PLACES = """
SELECT c.oid::bigint, quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%s::oid[])
"""
_TREE = """
SELECT DISTINCT f.oid::bigint FROM unnest(%s::oid[]) AS w (oid) CROSS JOIN LATERAL (
    SELECT t.relid::oid FROM pg_partition_tree(w.oid) t UNION SELECT w.oid) f (oid)
"""


def obstacles(server: Server, captured: Captured) -> list[str]:
    """Why a table cannot be captured from the log; empty if it can."""
    found = _obstacles(server)
    table = captured.table
    if not table.key and not is_full(table):
        found.append("it has no primary key, and its replica identity is not FULL")
    if server.major < 18 and any(column.generated for column in captured.columns):
        found.append(f"generated columns are not sent by PostgreSQL {server.major}")
    return found


def _obstacles(server: Server) -> list[str]:
    found = []
    if server.wal_level != "logical":
        found.append(f"the server's wal_level is {server.wal_level}, not logical")
    if not server.may_replicate:
        found.append(f"user {server.user} lacks the attribute REPLICATION")
    return found


def check_log(server: Server) -> None:
    """Raise CaptureUnsupported if nothing in a database can be captured from its log."""
    why = _obstacles(server)
    if why:
        raise CaptureUnsupported(
            f"database {server.database} cannot be captured from its log",
            detail="; ".join(why),
            hint="set wal_level = logical and grant REPLICATION, or capture it by triggers",
        )


def is_full(table: Table) -> bool:
    """Whether the log has the whole old rows of a table."""
    identities = [p.identity for p in table.partitions] or [table.identity]
    return all(identity is Identity.FULL for identity in identities)


def publish(
    connection: psycopg.Connection[Any], names: Names, tables: Sequence[Captured], *, lock_seconds: float = LOCK_SECONDS
) -> tuple[Captured, ...]:
    """Let the server send tables with their old rows, in one transaction; what is there already stays.

    The replica identities of before are noted with the publication, for `unpublish`.
    """
    with transaction(connection) as cursor:
        server = look(cursor)
        _check(server, names, tables)
        locked = lock(cursor, server, tables, lock_seconds, _mode)
        alone(cursor, names.schema)
        identities = _noted(cursor, names)
        for place, oid, clause in _to_alter(cursor, locked):
            identities.setdefault(oid, clause)
            cursor.execute(f"ALTER TABLE {place} REPLICA IDENTITY FULL".encode())
        _add(cursor, server, names, tables)
        _note(cursor, names, identities)
        marks = dict(cursor.execute(_MEMBERS, [names.publication]).fetchall())
        now = describe_oids(cursor, server, marks)
        return tuple(t.of(now[t.oid]).marked(str(marks[t.oid])) for t in locked)


def _mode(table: Table) -> Lock:
    """Another identity needs the whole table for a moment; a publication needs nobody to alter it."""
    return Lock.ALTERING if is_full(table) and table.identity is Identity.FULL else Lock.EVERYTHING


def _check(server: Server, names: Names, tables: Sequence[Captured]) -> None:
    for captured in tables:
        check_capturable(captured.table)
        why = obstacles(server, captured)
        if why:
            raise CaptureUnsupported(
                f"table {captured.table.full_name} cannot be captured from the log",
                detail="; ".join(why),
                hint="capture it by triggers, or remove what stands in the way",
            )
    check_privileges(server, [t.table for t in tables])
    if not server.may_create_schema:
        raise PrivilegeMissing(
            f"user {server.user} may not create publication {names.publication} in database {server.database}",
            hint=f"GRANT CREATE ON DATABASE {quoted(server.database)} TO {quoted(server.user)}",
        )


def _to_alter(cursor: psycopg.Cursor[Any], tables: Iterable[Captured]) -> list[tuple[str, str, str]]:
    """Tables and partitions whose identity is not FULL: name, number, and the clause that names their identity now."""
    holders: list[Table | Partition] = [p for t in tables for p in (t.table.partitions or (t.table,))]
    # partitions that come later take over the identity of their parent on some versions, so it gets the same
    holders += [t.table for t in tables if t.table.kind is TableKind.PARTITIONED]
    return [
        (f"{quoted(h.schema)}.{quoted(h.name)}", str(h.oid), _clause(cursor, h))
        for h in holders
        if h.identity is not Identity.FULL
    ]


def _clause(cursor: psycopg.Cursor[Any], holder: Table | Partition) -> str:
    if holder.identity is Identity.INDEX:
        (index,) = cursor.execute(_INDEX, [holder.oid]).fetchone() or (None,)
        return f"USING INDEX {index}" if index else "NOTHING"
    return "NOTHING" if holder.identity is Identity.NOTHING else "DEFAULT"


def touch(cursor: psycopg.Cursor[Any], names: Names) -> None:
    """Change the catalog without changing anything."""
    alone(cursor, names.schema)
    _note(cursor, names, _noted(cursor, names))


def _note(cursor: psycopg.Cursor[Any], names: Names, identities: dict[str, str]) -> None:
    cursor.execute(f"COMMENT ON PUBLICATION {names.publication} IS {literal(json.dumps(identities))}".encode())


def _noted(cursor: psycopg.Cursor[Any], names: Names) -> dict[str, str]:
    (note,) = cursor.execute(_NOTE, [names.publication]).fetchone() or (None,)
    return dict(json.loads(note)) if note else {}


def _add(cursor: psycopg.Cursor[Any], server: Server, names: Names, tables: Sequence[Captured]) -> None:
    """Partitions are sent under their own numbers: under the parent's, an old row that is only a key looks whole."""
    options = "publish = 'insert, update, delete, truncate', publish_via_partition_root = false"
    if server.major >= 18:
        options += ", publish_generated_columns = stored"
    exists = cursor.execute("SELECT FROM pg_publication WHERE pubname = %s", [names.publication]).fetchone() is not None
    verb = f"ALTER PUBLICATION {names.publication} SET" if exists else f"CREATE PUBLICATION {names.publication} WITH"
    cursor.execute(f"{verb} ({options})".encode())
    members = dict(cursor.execute(_MEMBERS, [names.publication]).fetchall())
    for captured in tables:
        if captured.oid not in members:
            place = captured.table.quoted_name
            cursor.execute(f"ALTER PUBLICATION {names.publication} ADD TABLE {place}".encode())


def published(cursor: psycopg.Cursor[Any], names: Names) -> set[int]:
    """The numbers of the tables in the publication."""
    return {oid for oid, _ in cursor.execute(_MEMBERS, [names.publication])}


def unpublish(
    connection: psycopg.Connection[Any],
    names: Names,
    oids: Iterable[int] | None = None,
    *,
    lock_seconds: float = LOCK_SECONDS,
) -> None:
    """Remove some tables or the whole publication, and give the tables their replica identity back.

    What is gone is no error.
    """
    oids = None if oids is None else {*oids}
    with transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
        if cursor.execute("SELECT FROM pg_publication WHERE pubname = %s", [names.publication]).fetchone() is None:
            return
        given_back = _given_back(cursor, names, oids)
        dropped = [] if oids is None else [str(oid) for oid in published(cursor, names) & oids]
        # a table leaves the publication under a lock that others wait with, too
        locks = {**dict.fromkeys(dropped, Lock.ALTERING), **dict.fromkeys(given_back, Lock.EVERYTHING)}
        places = {str(oid): place for oid, place in cursor.execute(_PLACES, [[*map(int, locks)]])}
        acquire(cursor, {place: locks[oid] for oid, place in places.items()}, lock_seconds)
        alone(cursor, names.schema)
        if oids is None:
            cursor.execute(f"DROP PUBLICATION {names.publication}".encode())
        else:
            _drop_tables(cursor, names, [places[oid] for oid in dropped if oid in places], given_back)
        for oid in given_back.keys() & places.keys():
            cursor.execute(f"ALTER TABLE {places[oid]} REPLICA IDENTITY {given_back[oid]}".encode())


def _given_back(cursor: psycopg.Cursor[Any], names: Names, oids: set[int] | None) -> dict[str, str]:
    """The identities of some tables or of all, but of no partition that is still sent with another table."""
    noted = _noted(cursor, names)
    if oids is None:
        return noted
    kept = set(_family(cursor, published(cursor, names) - oids))
    return {oid: noted[oid] for oid in _family(cursor, oids) if oid in noted and oid not in kept}


def _family(cursor: psycopg.Cursor[Any], oids: Iterable[int]) -> list[str]:
    """The numbers of tables and of their partitions."""
    return [str(oid) for (oid,) in cursor.execute(_TREE, [list(oids)])]


def _drop_tables(
    cursor: psycopg.Cursor[Any], names: Names, places: Iterable[str], given_back: Mapping[str, str]
) -> None:
    for place in places:
        cursor.execute(f"ALTER PUBLICATION {names.publication} DROP TABLE {place}".encode())
    _note(cursor, names, {oid: clause for oid, clause in _noted(cursor, names).items() if oid not in given_back})


def missing(cursor: psycopg.Cursor[Any], names: Names, tables: Iterable[Captured]) -> dict[int, Resync]:
    """The tables that the server does not send, or not as it did when their capture began."""
    members = dict(cursor.execute(_MEMBERS, [names.publication]).fetchall())
    gap = "it is not, or not without a break, in the publication"
    return {t.oid: Resync(t, Reason.CAPTURE_MISSING, gap) for t in tables if members.get(t.oid) != t.mark}
