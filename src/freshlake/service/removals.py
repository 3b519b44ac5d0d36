"""Removals: what Freshlake made in a database and needs no more goes now, or as soon as the database answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from freshlake.catalog import Catalog
from freshlake.catalog.source_records import Removal, SourceDatabase
from freshlake.delivery.target import Target
from freshlake.errors import FreshlakeError
from freshlake.sources.captured import CapturedDatabase
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.locking import LOCK_SECONDS
from freshlake.sources.postgres.naming import Names
from freshlake.sources.postgres.pool import Pool, origin_of
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.removing import remove, remove_unused
from freshlake.sources.postgres.tables import Captured

_log = logging.getLogger("freshlake")


@dataclass(frozen=True)
class Removals:
    catalog: Catalog
    database: Callable[[str], CapturedDatabase]

    def add(self, database: SourceDatabase, oid: int | None) -> Removal:
        """Remember that the capture of one table (None: of all) is to be removed."""
        objects = self.database(database.name).names
        what = {"project": objects.project, "schema": objects.schema, "oid": oid}
        return self.catalog.add_removal(database.name, database.connection, what)

    def remove(self, removal: Removal | None) -> bool:
        """Try to remove something; what cannot be removed now stays remembered."""
        if removal is None:
            return True
        try:
            done = self._delivered(removal) if "delivered" in removal.what else self._captured(removal)
        except FreshlakeError as error:
            self.catalog.removal_failed(removal, f"{error.code}: {error.message}")
            _log.warning("what Freshlake made in source %s is removed later: %s", removal.database, error.message)
            return False
        if done:
            self.catalog.removal_done(removal)
        return done

    def retry(self, database: str | None = None) -> None:
        """Try again what could not be removed, of one database or of all."""
        for removal in self.catalog.removals():
            if database is None or removal.database == database:
                self.remove(removal)

    def _delivered(self, removal: Removal) -> bool:
        """A table that is delivered once more stays."""
        target = removal.what["delivered"]
        with self._reached(removal) as pool:
            if self.catalog.find_delivery(removal.database, target) is not None and self._is_still(removal, pool):
                return True
            schema, _, table = target.partition(".")
            with pool.take() as connection, transaction(connection, lock_seconds=LOCK_SECONDS) as cursor:
                Target(removal.what["lake"], schema, table).drop(cursor)
        return True

    def _captured(self, removal: Removal) -> bool:
        """Of what is captured once more only the other way of capture goes, when it is known which one that is."""
        what, used = removal.what, self._used(removal.database)
        objects = Names(what["project"], what["schema"])
        with self._reached(removal) as pool:
            is_used = bool(used) if what["oid"] is None else what["oid"] in used
            if not is_used or not self._is_still(removal, pool):
                remove(pool, objects, what["oid"])
                return True
            database = self.database(removal.database)
            if database.is_settled:
                remove_unused(pool, objects, what["oid"], database.state().mode, used)
            return database.is_settled

    @contextmanager
    def _reached(self, removal: Removal) -> Iterator[Pool]:
        pool = Pool(ConnectionReference.parse(removal.connection))
        try:
            yield pool
        finally:
            pool.close()

    def _is_still(self, removal: Removal, pool: Pool) -> bool:
        """Whether this is what the source is now: another database may have its name."""
        return origin_of(pool) == origin_of(self.database(removal.database).pool)

    def _used(self, database: str) -> set[int]:
        captured = (table for table in self.catalog.captured_tables(database) if table.captured["columns"])
        return {Captured.from_json(table.captured).oid for table in captured}
