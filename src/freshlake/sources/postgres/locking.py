"""Before anything is installed: the tables' locks, and the privileges that are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureBusy, PrivilegeMissing, SourceSchemaChanged
from freshlake.sources.postgres.compare import compare
from freshlake.sources.postgres.describe import describe_oids
from freshlake.sources.postgres.naming import quoted
from freshlake.sources.postgres.server import Server
from freshlake.sources.postgres.tables import Captured, Table, check_capturable

if TYPE_CHECKING:
    import psycopg

LOCK_SECONDS = 5.0
"""How long to try, altogether."""

# Others queue behind whoever waits, and a writer that waits for us longer than `deadlock_timeout` looks for a deadlock
# and may be the one who is stopped. So each try is shorter than that, and lets go of everything.
_TRY_MS = "SELECT least(800, 0.8 * setting::int)::int FROM pg_settings WHERE name = 'deadlock_timeout'"


class Lock(StrEnum):
    """Locks of PostgreSQL, by what they keep away."""

    ALTERING = "SHARE UPDATE EXCLUSIVE"
    WRITING = "SHARE ROW EXCLUSIVE"
    EVERYTHING = "ACCESS EXCLUSIVE"


def acquire(cursor: psycopg.Cursor[Any], locks: Mapping[str, Lock], seconds: float) -> None:
    """Get all locks or none; raises CaptureBusy. The names are those of statements."""
    import psycopg

    if not locks:
        return
    modes = {mode: [name for name, wanted in locks.items() if wanted is mode] for mode in Lock}
    wanted = "; ".join(f"LOCK TABLE {', '.join(names)} IN {mode} MODE" for mode, names in modes.items() if names)
    (milliseconds,) = cursor.execute(_TRY_MS).fetchone() or (800,)
    for _ in range(max(1, round(seconds * 1000 / milliseconds))):
        cursor.execute(f"SAVEPOINT fl_lock; SET LOCAL statement_timeout TO {milliseconds}".encode())
        try:
            cursor.execute(wanted.encode())
        except (psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected):
            cursor.execute("ROLLBACK TO SAVEPOINT fl_lock; RELEASE SAVEPOINT fl_lock")
        else:
            # what is locked later is ours, and vacuum gives way within a second or two
            rest = f"SET LOCAL statement_timeout TO 0; SET LOCAL lock_timeout TO '{max(seconds, LOCK_SECONDS):g}s'"
            cursor.execute(f"RELEASE SAVEPOINT fl_lock; {rest}".encode())
            return
    raise CaptureBusy(
        f"others kept the locks of {', '.join(locks)}", detail=f"tried for {seconds:g} s to get all of them at once"
    )


def alone(cursor: psycopg.Cursor[Any], schema: str) -> None:
    """Make or remove what is shared in a schema while nobody else does, to the end of the transaction.

    Whoever is here has his tables' locks already, so nobody waits for a table because of this for long.
    """
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [schema])


def lock(
    cursor: psycopg.Cursor[Any],
    server: Server,
    tables: Iterable[Captured],
    seconds: float,
    mode: Callable[[Table], Lock] = lambda _: Lock.WRITING,
) -> list[Captured]:
    """Keep others away from the tables; the tables as they are then, in the order of their numbers."""
    wanted = sorted(tables, key=lambda t: t.oid)
    oids = [captured.oid for captured in wanted]
    before = describe_oids(cursor, server, oids).values()
    acquire(cursor, {table.quoted_name: mode(table) for table in before}, seconds)
    found = describe_oids(cursor, server, oids)
    return [_unchanged(captured, found.get(captured.oid)) for captured in wanted]


def _unchanged(captured: Captured, now: Table | None) -> Captured:
    difference = compare(captured, now)
    if difference.reason is not None or now is None:
        raise SourceSchemaChanged(
            f"table {captured.table.full_name} changed before its capture began",
            detail=difference.detail,
            hint="describe the table again",
        )
    check_capturable(now)
    return captured.of(now)


def check_privileges(server: Server, tables: Iterable[Table]) -> None:
    """Raise PrivilegeMissing, with the statement that grants what is missing."""
    for table in tables:
        if not table.is_owned:
            raise PrivilegeMissing(
                f"user {server.user} does not own table {table.full_name}",
                detail="only an owner may install what capture needs, and remove it",
                hint=f"GRANT {quoted(table.owner)} TO {quoted(server.user)}",
            )
        if table.hides_rows:
            raise PrivilegeMissing(
                f"row security hides rows of table {table.full_name} from user {server.user}",
                hint=f"ALTER ROLE {quoted(server.user)} BYPASSRLS",
            )
