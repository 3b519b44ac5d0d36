"""What DDL has done to the captured tables of a database: looked for only if something is not as it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.describe import describe_oids
from freshlake.sources.postgres.events import Resync
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.server import Server, look
from freshlake.sources.postgres.tables import Captured, Table
from freshlake.sources.postgres.watching import added, gaps, reguarded, signature

if TYPE_CHECKING:
    import psycopg

_log = logging.getLogger("freshlake")


class Gaps:
    """One source database; `is_whole` tells whether somebody reads all columns that a table has."""

    def __init__(self, source: str, names: Names, is_whole: Callable[[Captured], bool]) -> None:
        self._source, self._names, self._is_whole = source, names, is_whole
        self._sound: tuple[Mode, str] | None = None
        self._policies: dict[int, str] = {}

    def find(self, cursor: psycopg.Cursor[Any], mode: Mode, tables: Sequence[Captured]) -> dict[int, Resync]:
        """The tables whose changes cannot be followed any more, by their numbers."""
        sign = (mode, signature(cursor, self._names, tables))
        if sign == self._sound:
            return {}
        server = look(cursor)
        now = describe_oids(cursor, server, [table.oid for table in tables])
        self._tell_of_policies(server, tables, now)
        found = {**self._grown(tables, now), **gaps(cursor, server, self._names, tables, now, mode)}
        if not found:
            self._sound = sign
        return found

    def _tell_of_policies(self, server: Server, tables: Sequence[Captured], now: Mapping[int, Table]) -> None:
        """Capture sees all rows whatever policies say, so nothing is done about them; it is said once."""
        for captured, table in reguarded(tables, now):
            if self._policies.get(table.oid) != table.row_security:
                self._policies[table.oid] = table.row_security
                needs = f"; user {server.user} needs BYPASSRLS before it can be copied again"
                told = (f"{self._source}.{captured.table.full_name}", needs if table.hides_rows else "")
                _log.warning("row security of %s has changed; its mirror has all rows as before%s", *told)

    def _grown(self, tables: Sequence[Captured], now: Mapping[int, Table]) -> dict[int, Resync]:
        """The tables that have got columns, if somebody reads all that there are."""
        known = {captured.oid: captured for captured in tables}
        return {
            oid: Resync(known[oid], Reason.SCHEMA_CHANGED, f"columns added: {', '.join(names)}")
            for oid, names in added(tables, now).items()
            if self._is_whole(known[oid])
        }
