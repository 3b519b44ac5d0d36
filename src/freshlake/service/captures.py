"""Captures: source databases, and capture of their tables from the first stream table that names one to the last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from threading import Lock, RLock

from freshlake.catalog.enums import CdcMode, DefinitionKind
from freshlake.catalog.names import SEPARATOR, TableName
from freshlake.catalog.records import Dependency, StreamTable
from freshlake.catalog.source_records import Removal, SourceDatabase
from freshlake.delivery.target import SCHEMA as DELIVERED
from freshlake.errors import AlreadyExists, CaptureUnsupported, FreshlakeError, TableNotFound
from freshlake.refresh.engine import Engine
from freshlake.service.as_text import taken_as_text
from freshlake.service.mirrors import Mirrors
from freshlake.service.names import Names, captured_relations
from freshlake.service.removals import Removals
from freshlake.service.source_names import database_name, qualified
from freshlake.sources.captured import CapturedDatabase, CapturedSource
from freshlake.sources.captured.schema import lake_schema, stored_names
from freshlake.sources.captured.state import CaptureState
from freshlake.sources.postgres.capture import Mode
from freshlake.sources.postgres.compare import Reason
from freshlake.sources.postgres.connection import transaction
from freshlake.sources.postgres.finding import find_table
from freshlake.sources.postgres.naming import DEFAULT_SCHEMA
from freshlake.sources.postgres.pool import Pool, origin_of
from freshlake.sources.postgres.reference import ConnectionReference
from freshlake.sources.postgres.server import look
from freshlake.sources.postgres.tables import (
    Captured,
    Table,
    capture_all,
    capture_nothing,
    capture_some,
    check_capturable,
    refused,
    widened,
)
from freshlake.sources.postgres.trigger.install import keep_installed
from freshlake.sources.postgres.wal.publication import check_log, publish
from freshlake.statements.relations import has_star

_log = logging.getLogger("freshlake")


@dataclass
class Captures:
    engine: Engine
    names: Names
    _open: dict[str, tuple[tuple[str, datetime], CapturedDatabase]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)
    _making: Lock = field(default_factory=Lock)
    """Threads make mirrors one after the other: two may want the same one."""
    _unguarded: dict[str, str] = field(default_factory=dict)
    leave_log: Callable[[str, FreshlakeError, Callable[[], None]], bool] = lambda *_: False
    """Bring a database to triggers, after a last step, because of a table that its log cannot serve; if that may be."""

    dropped: Callable[[StreamTable], None] = lambda _: None
    """Told of every mirror that goes."""

    def __post_init__(self) -> None:
        self.mirrors = Mirrors(self.engine, self.names)
        self.removals = Removals(self.engine.catalog, self.database)
        self.engine.captured, self.engine.awaited = self.source, self.awaited

    # Databases -------------------------------------------------------------------------------------------------------

    def database(self, name: str) -> CapturedDatabase:
        """The database in this process; raises NotFound."""
        engine, record = self.engine, self.engine.catalog.database(name)
        added = (record.connection, record.created_at)
        with self._lock:
            known = self._open.get(name)
            if known is None or known[0] != added:
                self._close(name)  # another process has dropped it and added it again
                made = CapturedDatabase(
                    engine.catalog, engine.spark, record, engine.layout.staging, takes_all=self._takes_all
                )
                self._open[name] = added, made
            return self._open[name][1]

    def source(self, edge: Dependency) -> CapturedSource:
        """What a mirror reads."""
        return CapturedSource(self.database(edge.source_name), edge.location or "")

    def close(self) -> None:
        with self._lock:
            for name in tuple(self._open):
                self._close(name)

    def _close(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name)[1].close()

    def add(
        self,
        name: str,
        connection: str,
        *,
        schemas: Sequence[str] | None,
        tables: Sequence[str] | None,
        as_text: Sequence[str] | None,
        cdc_mode: CdcMode,
    ) -> SourceDatabase:
        """Add a source database that answers; nothing is changed there yet."""
        word = database_name(name)
        reference = ConnectionReference.parse(connection)
        pool = Pool(reference)
        mode = _first_mode(cdc_mode)
        try:
            with pool.take() as taken, transaction(taken, read_only=True) as cursor:
                server = look(cursor)
        finally:
            pool.close()
        if mode is Mode.WAL:
            check_log(server)
        return self.engine.catalog.insert_database(
            word,
            str(reference),
            schemas=None if schemas is None else tuple(schemas),
            tables=None if tables is None else tuple(map(qualified, tables)),
            as_text=tuple(as_text or ()),
            cdc_mode=cdc_mode,
            capture=CaptureState(mode).to_json(),
        )

    def forget(self, name: str) -> None:
        """Remove a source database without mirrors, and whatever of ours is still in it."""
        record = self.engine.catalog.database(name)
        with self.engine.catalog.transaction():
            removal = self.removals.add(record, None)
            self.engine.catalog.delete_database(name)
        self.removals.remove(removal)
        with self._lock:
            self._close(name)

    # Tables ----------------------------------------------------------------------------------------------------------

    def mentioned(self, text: str) -> set[TableName]:
        """The tables of source databases that a query names."""
        databases = {database.name for database in self.engine.catalog.databases()}
        return {TableName.of(parts) for parts in captured_relations(text, databases)}

    def meant(self, schema: str, table: str) -> TableName | None:
        """The table of a source database that Spark would know as `database__schema.table`."""
        database, found, rest = schema.partition(SEPARATOR)
        if not found or self.engine.catalog.find_database(database) is None:
            return None
        return TableName.of([database, rest, table])

    def ensure(self, wanted: Iterable[TableName]) -> list[StreamTable]:
        """Make the mirrors that are not there yet, of which nothing is captured until somebody reads them."""
        made: list[StreamTable] = []
        with self._making:
            try:
                for name in sorted(wanted):
                    if self.engine.catalog.find(name) is None:
                        made += self._made(name)
                        self.names.show(self.engine.catalog.get(name))
            except BaseException:
                self.drop(made)
                raise
        return made

    def _made(self, name: TableName) -> list[StreamTable]:
        """The mirror of a table, unless another process was faster."""
        database = self.database(name.database or "")
        described = self.describe(database, name)
        nothing = capture_nothing(described)
        try:
            mirror = self.mirrors.create(
                name, lake_schema(described), lambda new: database.put(new, nothing, database.state())
            )
        except AlreadyExists:
            return []
        return [mirror]

    def follow(self, edges: Iterable[Dependency], asked: CdcMode | None = None) -> None:
        """Capture what these edges read; a mirror that lacks columns is copied with them by its next refresh.

        The first table of a database is captured as is `asked` for, the others as those before them.
        """
        for mirror, _, names in self._read(edges):
            database = self.database(mirror.full_name.database or "")
            if not database.mirrored():
                # what is left of an earlier capture may be another way of it
                self.removals.retry(database.name)
            wider = self._widened(database, mirror, names, asked)
            if wider is None:
                continue
            database.amend(mirror, wider, self._installed(database, mirror, wider, wider, asked))
            _log.info("%s is captured: %s", mirror.full_name, ", ".join(wider.names))
            if self.engine.settings.block_source_ddl:
                self.guard(database.name)

    def _widened(
        self, database: CapturedDatabase, mirror: StreamTable, names: Collection[str] | None, asked: CdcMode | None
    ) -> Captured | None:
        """Store what is to be captured before it is installed, so that nothing is left there without anybody knowing.

        It is stored with the mark that the mirror has to be copied, and never becomes less.
        """
        catalog = self.engine.catalog
        with catalog.transaction():
            captured = database.captured(mirror)
            missing = frozenset[str]() if captured is None else captured.lacks(names) - set(captured.names)
            if captured is None or not missing:
                return None
            if not database.mirrored():
                mode = _first_mode(asked or CdcMode(catalog.database(database.name).cdc_mode))
                catalog.put_capture(database.name, CaptureState(mode).to_json(), CaptureState(mode).word)
            wider = widened(captured, missing)
            database.put(mirror, wider, database.state())
            new = [name for name in wider.names if name not in captured.names]
            catalog.mark_resync(mirror.id, f"{Reason.SCHEMA_CHANGED}: columns that were not captured: {', '.join(new)}")
            return wider

    def _read(self, edges: Iterable[Dependency]) -> Iterator[tuple[StreamTable, Captured, Collection[str] | None]]:
        """The mirrors that edges lead to, and the columns they read by their names in the database (None: all)."""
        for edge in edges:
            if edge.stream_table_id is None or TableName.parse(edge.source_name).database is None:
                continue
            mirror = self.engine.catalog.get_by_id(edge.stream_table_id)
            captured = self.database(mirror.full_name.database or "").captured(mirror)
            if captured is not None:
                named, used = stored_names(captured), edge.columns_used
                yield mirror, captured, None if used is None else [named.get(name, name) for name in used]

    def lacking(self, edges: Iterable[Dependency]) -> dict[TableName, frozenset[str]]:
        """The columns that these edges read and that their mirrors have no values of."""
        found = {mirror.full_name: captured.lacks(names) for mirror, captured, names in self._read(edges)}
        return {name: missing for name, missing in found.items() if missing}

    def awaited(self, edges: Sequence[Dependency]) -> str | None:
        """What these edges read and their mirrors lack, which is captured from now on; None if they lack nothing."""
        if not (found := self.lacking(edges)):
            return None
        self.follow(edges)
        return ", ".join(f"{name}.{column}" for name, missing in found.items() for column in sorted(missing))

    def renewed(self, database: CapturedDatabase, mirror: StreamTable, before: Captured) -> Captured:
        """The same of a table as it is now, captured from now on if it was not; all of it for who reads all."""
        described = self.describe(database, mirror.full_name)
        whole = described.whole_names
        names = whole if self._takes_all(mirror) else {*whole} & {*before.names}
        chosen = capture_some(described.table, names, described.as_text)
        return self._installed(database, mirror, before, chosen)

    def _installed(
        self,
        database: CapturedDatabase,
        mirror: StreamTable,
        before: Captured,
        described: Captured,
        asked: CdcMode | None = None,
    ) -> Captured:
        if database.state().mode is Mode.WAL:
            try:
                with database.pool.take() as connection:
                    return publish(connection, database.names, [described])[0]
            except CaptureUnsupported as error:
                # all tables go to triggers together, as they are described
                known = partial(database.amend, mirror, before, described)
                if asked is CdcMode.WAL or not self.leave_log(database.name, error, known):
                    raise
        with database.pool.take() as connection:
            return keep_installed(connection, database.names, [described])[0]

    def describe(self, database: CapturedDatabase, name: TableName) -> Captured:
        """What of a table could be captured; raises TableNotFound, CaptureUnsupported …"""
        record, wanted = self.engine.catalog.database(database.name), str(name).removeprefix(f"{name.database}.")
        with database.pool.take() as connection, transaction(connection, read_only=True) as cursor:
            table = find_table(cursor, look(cursor), wanted)
        full = table.full_name
        chosen = record.schemas is None or table.schema in record.schemas
        if not chosen or (record.tables is not None and full not in record.tables):
            raise TableNotFound(
                f"table {full} is not one of those that source {record.name} was added with",
                hint="add the source again with this table, or without limits",
            )
        self._check_not_ours(record, table)
        check_capturable(table)
        texts = taken_as_text(name, table, record.as_text)
        for column, why in refused(table, texts).items():
            _log.warning("column %s of %s is left out: %s; %s", column, name, why.reason, why.rewrite)
        return capture_all(table, texts)

    def _check_not_ours(self, record: SourceDatabase, table: Table) -> None:
        """What this lake writes there is not read again: it would change with every refresh of what it is made of."""
        delivered = {d.database for d in self.engine.catalog.deliveries() if d.target == table.full_name}
        is_ours = any(self.is_same(record.name, name) for name in delivered)
        if is_ours or table.schema in (DELIVERED, DEFAULT_SCHEMA):
            raise CaptureUnsupported(
                f"table {table.full_name} cannot be captured",
                detail="Freshlake writes to it",
                hint="read the stream table that is delivered there",
            )

    def is_same(self, name: str, other: str) -> bool:
        """Whether two sources lead to one database, which its address need not show."""
        one, two = self.database(name), self.database(other)
        if one.pool.reference == two.pool.reference:
            return True
        try:
            return origin_of(one.pool) == origin_of(two.pool)
        except FreshlakeError:
            return False  # where one answers and the other does not, they are two

    def guard(self, name: str) -> None:
        """Refuse DDL on what is captured of a database, if that is set; said once if it cannot be."""
        try:
            self.database(name).guard(blocks=self.engine.settings.block_source_ddl)
        except FreshlakeError as error:
            if self._unguarded.get(name) != error.message:
                self._unguarded[name] = error.message
                _log.warning("DDL on tables of source %s is not refused: %s", name, error.message)

    def reshaped(self, names: Iterable[TableName], words: Collection[str] | None) -> list[StreamTable]:
        """The mirrors whose tables have other columns by now; they are marked to be copied with those.

        New columns are captured at once if they are among the words of a query (None: whichever they are), because it
        will read them; who finds out later copies the table once more.
        """
        found = []
        for mirror in filter(None, map(self.engine.catalog.find, sorted(names))):
            database = self.database(mirror.full_name.database or "")
            now = self.describe(database, mirror.full_name)
            with self.engine.catalog.transaction():
                before = database.captured(mirror)
                if before is None or not before.columns or lake_schema(now) == lake_schema(before):
                    continue
                new = {*now.whole_names} - {*before.whole_names}
                taken = {name for name in new if words is None or name.lower() in words}
                kept = {*now.whole_names} & {*before.names, *taken}
                chosen = capture_some(now.table, kept, now.as_text)
                database.put(mirror, replace(chosen, mark=before.mark, held=before.shown), database.state())
                self.engine.catalog.mark_resync(mirror.id, f"{Reason.SCHEMA_CHANGED}: its columns changed")
            found.append(mirror)
        return found

    def _takes_all(self, mirror: StreamTable) -> bool:
        """Whether somebody reads a mirror with all its columns, whichever they are."""
        for reader in self.engine.catalog.dependents(mirror.source_key):
            if reader.definition_kind is DefinitionKind.SQL and not has_star(reader.defining_query):
                continue
            edges = (e for e in self.engine.catalog.dependencies(reader.id) if e.source_key == mirror.source_key)
            for _, captured, names in self._read(edges):
                if names is None or {*captured.whole_names} <= {*names}:
                    return True
        return False

    # Removal ---------------------------------------------------------------------------------------------------------

    def unread(self, names: Collection[str]) -> None:
        """Stop capturing those of these mirrors that nobody reads any more."""
        found = [table for table in map(self.engine.catalog.find, names) if table is not None and table.is_mirror]
        self.drop([mirror for mirror in found if not self.engine.catalog.dependents(mirror.source_key)])

    def drop(self, mirrors: Iterable[StreamTable]) -> None:
        """Remove mirrors, and their capture now or as soon as the database answers."""
        for mirror in mirrors:
            self.removals.remove(self._forgotten(mirror))
            self.dropped(mirror)

    def _forgotten(self, mirror: StreamTable) -> Removal | None:
        catalog = self.engine.catalog
        with catalog.transaction():
            record = next((c for c in catalog.captured_tables() if c.stream_table_id == mirror.id), None)
            database = catalog.find_database(mirror.full_name.database or "")
            self.mirrors.delete(mirror)
            removal = None
            if record is not None and record.captured["columns"] and database is not None:
                # with the last table everything goes: a slot that nobody reads would keep the server's log for ever
                is_last = not self.database(database.name).mirrored()
                removal = self.removals.add(database, None if is_last else Captured.from_json(record.captured).oid)
                if is_last:
                    state = CaptureState(self.database(database.name).state().mode)
                    catalog.put_capture(database.name, state.to_json(), state.word)
        self.mirrors.remove(mirror)
        return removal


def _first_mode(wanted: CdcMode) -> Mode:
    return Mode.WAL if wanted is CdcMode.WAL else Mode.TRIGGER
