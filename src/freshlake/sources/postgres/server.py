"""What a source database is and lets us do: version, history, and the capturing user's reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from freshlake.errors import CaptureUnsupported

if TYPE_CHECKING:
    import psycopg

MINIMUM_VERSION = 14


@dataclass(frozen=True)
class Server:
    """One database of one server, as one user sees it.

    `origin` names its history: another one means another server, another database, or the same server after a
    failover or a restore to a point in time. Positions of one origin say nothing about another, since transaction
    numbers and places in the log are given out again.
    """

    version: int
    origin: str
    database: str
    database_oid: int
    user: str
    wal_level: str
    is_superuser: bool
    may_replicate: bool
    sees_all_rows: bool
    may_create_schema: bool
    free_slots: int
    money_digits: int

    @property
    def major(self) -> int:
        return self.version // 10_000


_FACTS = """
SELECT current_setting('server_version_num')::int AS version,
       c.system_identifier || '/' || d.oid AS cluster,
       d.datname::text AS database, d.oid::bigint AS database_oid, r.rolname::text AS "user",
       pg_encoding_to_char(d.encoding)::text AS encoding, pg_is_in_recovery() AS in_recovery,
       current_setting('wal_level') AS wal_level,
       r.rolsuper AS is_superuser, r.rolreplication OR r.rolsuper AS may_replicate,
       r.rolbypassrls OR r.rolsuper AS sees_all_rows,
       has_database_privilege(d.oid, 'CREATE') AS may_create_schema,
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots) AS free_slots
FROM pg_control_system() c, pg_database d, pg_roles r
WHERE d.datname = current_database() AND r.rolname = current_user
"""
# The timeline of what is written now; the control file would tell that of the last checkpoint.
_TIMELINE = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
# Writers of money count in the smallest unit of their own locale, which is the session's default.
_LOCALE = "SELECT set_config('lc_monetary', reset_val, true) FROM pg_settings WHERE name = 'lc_monetary'"
_DIGITS = "SELECT scale('1'::money::numeric)"


def look(cursor: psycopg.Cursor[Any]) -> Server:
    """Ask the server; must run in a transaction. Refuses what no capture can work with."""
    row = cursor.execute(_FACTS).fetchone()
    names = [column.name for column in cursor.description or ()]
    facts = dict(zip(names, row or (), strict=True))
    _check(facts.pop("in_recovery"), facts.pop("encoding"), facts)
    origin = f"{facts.pop('cluster')}/{_value(cursor, _TIMELINE)}"
    return Server(origin=origin, money_digits=_money_digits(cursor), **facts)


def _check(in_recovery: bool, encoding: str, facts: Mapping[str, Any]) -> None:
    name, major = facts["database"], facts["version"] // 10_000
    if major < MINIMUM_VERSION:
        detail = f"capture needs version {MINIMUM_VERSION} or newer"
        raise CaptureUnsupported(
            f"database {name} runs on PostgreSQL {major}", detail=detail, hint="upgrade the server"
        )
    if in_recovery:
        hint = "connect to the primary: target_session_attrs=read-write in the address"
        raise CaptureUnsupported(f"database {name} is a standby, on which nothing can be installed", hint=hint)
    if encoding == "SQL_ASCII":
        detail = "its encoding is SQL_ASCII, so the server does not know what characters its bytes stand for"
        raise CaptureUnsupported(f"the texts of database {name} cannot be read", detail=detail, hint="use UTF8")


def _money_digits(cursor: psycopg.Cursor[Any]) -> int:
    before = _value(cursor, "SELECT current_setting('lc_monetary')")
    cursor.execute(_LOCALE)
    digits = int(_value(cursor, _DIGITS))
    cursor.execute("SELECT set_config('lc_monetary', %s, true)", [before])
    return digits


def _value(cursor: psycopg.Cursor[Any], query: str) -> Any:
    row = cursor.execute(query).fetchone()
    assert row is not None
    return row[0]
