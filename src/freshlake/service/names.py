"""Names: tables and stream tables of the lake are made known to Spark when a text mentions them."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshlake.catalog.enums import TableKind
from freshlake.catalog.names import DEFAULT_SCHEMA, SEPARATOR, TableName
from freshlake.catalog.records import RegisteredTable, StreamTable
from freshlake.catalog.store import Catalog
from freshlake.compiler.bind_guard import guarded
from freshlake.compiler.plan import quote
from freshlake.errors import FreshlakeError, StorageError
from freshlake.refresh.layout import Layout
from freshlake.refresh.spark_errors import translated
from freshlake.service.held import held_columns
from freshlake.service.own_session import OwnSession
from freshlake.service.view_text import with_column_names
from freshlake.statements.relations import relations, renamed
from freshlake.statements.target import FunctionStatement, mentioned

_SCHEMA = "schema"
_METRICS = "METRIC_VIEW"


@dataclass
class Names:
    """Spark's own catalog is empty at every start; the lake's catalog remembers what was made through `fl.sql`.

    With `embedded` False the caller's Spark keeps its own catalog and only stream tables are added to it.
    """

    spark: SparkSession
    catalog: Catalog
    layout: Layout
    embedded: bool
    own: OwnSession = field(init=False)
    _known: dict[TableName, str] = field(default_factory=dict)
    _captured: set[str] = field(default_factory=set)
    """Schemas that were made in Spark for the tables of source databases."""
    _is_shown: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """Refreshes and users make names known at the same time, each by what it has just read in the lake's catalog."""

    def __post_init__(self) -> None:
        self.own = OwnSession(self.spark)

    def begin(self) -> None:
        """A session of the user's own is used past Freshlake, so it knows all names from the start."""
        if not self.embedded:
            self.show_all()

    def show_all(self) -> None:
        """Make everything resolvable, once: for users, who may list names or use the session itself.

        Each name costs Spark a look at its table, so a process that only refreshes asks for those that it compiles.
        """
        if not self._is_shown:
            self.ensure(None)
            self._is_shown = True

    def ensure(self, text: str | None, *, committed: bool = False) -> None:
        """Make what a text mentions (None: everything) resolvable; views bring what they read with them.

        Stream tables have the columns that are published; for refreshes, which read more, those that are `committed`.
        """
        with self._lock:
            self._ensure(text, committed)

    def _ensure(self, text: str | None, committed: bool) -> None:
        entries = {e.name: e for e in self.catalog.tables()} if self.embedded else {}
        self._forget({*entries, *self.catalog.stream_table_names()})
        if self.embedded:
            self._schemas()
        words = None if text is None else _closure(mentioned(text), entries)
        for table in self.catalog.stream_tables() if words is None else self.catalog.stream_tables_among(words):
            is_behind = table.generation != table.published_generation and table.full_name in self._known
            if is_behind and not committed:
                continue  # a refresh may look at it now
            if table.output_schema is not None:
                self._show(table, committed)
        wanted = [e for e in entries.values() if words is None or e.word in words]
        for entry in (e for e in wanted if not e.has_text):
            self._register(entry)
        self._register_texts([e for e in wanted if e.has_text])

    def in_spark(self, text: str) -> str:
        """A text with the names under which Spark knows captured tables."""
        databases = {database.name for database in self.catalog.databases()}
        names = {parts: _spark_name(parts) for parts in captured_relations(text, databases)}
        return renamed(text, names) if names else text

    def _forget(self, known: set[TableName]) -> None:
        """What another connection dropped is dropped here too."""
        for name in [n for n, stamp in self._known.items() if n not in known and stamp != _SCHEMA]:
            kind = self._known.pop(name).partition(":")[0].replace("stream", "VIEW")
            with contextlib.suppress(PySparkException):
                self.spark.sql(f"DROP {kind} IF EXISTS {_sql(name)}")

    def _register_texts(self, texts: list[RegisteredTable]) -> None:
        """Views and functions after those they use; one that no longer fits its tables is left out, and tried later."""
        while texts:
            failed = []
            for entry in texts:
                try:
                    self._register(entry)
                except PySparkException:
                    failed.append(entry)
            if len(failed) == len(texts):
                return
            texts = failed

    def views_over(self, streams: Collection[TableName], text: str) -> list[RegisteredTable]:
        """Views that a text mentions and that read any of these stream tables, directly or through other views."""
        if not self.embedded:
            return []
        entries = {e.name: e for e in self.catalog.tables()}
        words, read = mentioned(text), {t.name for t in streams}
        views = [e for e in entries.values() if e.kind is TableKind.VIEW and e.view_text and e.word in words]
        return [e for e in views if _closure(mentioned(e.view_text or ""), entries) & read]

    def _schemas(self) -> None:
        for schema in self.catalog.schemas():
            if self._known.get(TableName(schema.name, "")) is None:
                self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema.name)}")
                self._known[TableName(schema.name, "")] = _SCHEMA

    def _register(self, entry: RegisteredTable) -> None:
        stamp = _stamp(entry)
        if self._known.get(entry.name) == stamp:
            return
        if entry.has_text:
            with self.own.in_schema(entry.location or DEFAULT_SCHEMA) as session:
                session.sql(_made_again(entry))
            if entry.kind is TableKind.FUNCTION:
                self.own.tell_of_function(entry.name.spark_schema, entry.word)
        elif not self._exists(entry.name):
            provider = entry.provider or "delta"
            if _is_gone(entry.location, provider):
                self.catalog.remove_table(entry.name)  # dropped by another process, or by hand
                return
            place = (entry.location or "").replace("'", "\\'")
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {_sql(entry.name)} USING {provider} LOCATION '{place}'")
        self._known[entry.name] = stamp

    def show(self, table: StreamTable, *, committed: bool = False) -> None:
        """A view over the base: what plain Spark sees is the state of the last fold, without hidden columns."""
        with self._lock:
            self._show(table, committed)

    def _show(self, table: StreamTable, committed: bool) -> None:
        generation = (0 if committed else table.published_generation) or table.generation or 1
        held = held_columns(self.catalog, table)
        stamp = f"stream:{generation}:{table.fingerprint}:{'' if held is None else sorted(held)}"
        if self._known.get(table.full_name) == stamp:
            return
        base = f"{self.layout.root(table, generation).path}/base"
        if not Path(base, "_delta_log").exists():
            return
        self._make_schema(table.full_name)
        storage = self.layout.root(table, generation)
        try:
            stored, schema, shown = storage.stored, storage.schema, storage.visible.names
        except StorageError:
            return  # damaged: its next refresh rebuilds it
        is_older = generation < table.generation
        visible = set(shown) if is_older else {f["name"] for f in (table.output_schema or {})["fields"]}
        pairs = [(s.name, c.name) for s, c in zip(stored, schema, strict=True) if c.name in visible]
        columns = ", ".join(
            f"{quote(s) if held is None or c in held else guarded(quote(s), c)} AS {quote(c)}" for s, c in pairs
        )
        with translated():
            self.spark.sql(
                f"CREATE OR REPLACE VIEW {_sql(table.full_name)} AS SELECT {columns} FROM delta.{quote(base)}"
            )
        self._known[table.full_name] = stamp

    def _make_schema(self, name: TableName) -> None:
        if name.database is not None and name.spark_schema not in self._captured:
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(name.spark_schema)}")
            self._captured.add(name.spark_schema)

    def hide(self, table: StreamTable) -> None:
        # its schema may be gone already
        with self._lock, contextlib.suppress(PySparkException):
            self._known.pop(table.full_name, None)
            self.spark.sql(f"DROP VIEW IF EXISTS {_sql(table.full_name)}")

    def record(self) -> None:
        """After DDL: bring the lake's catalog in step with Spark's."""
        if self.embedded:
            with self._lock:
                self._record()

    def _record(self) -> None:
        state = self.spark._jsparkSession.sessionState().catalog()
        streams = {TableName(name.spark_schema, name.name) for name in self.catalog.stream_table_names()}
        found: dict[TableName, Any] = {}
        known_schemas = {s.name for s in self.catalog.schemas()}
        for schema in _list(state.listDatabases()):
            if schema.lower() not in {*known_schemas, *self._captured, DEFAULT_SCHEMA}:
                self.catalog.register_schema(schema.lower())
            for identifier in _list(state.listTables(schema)):
                if identifier.database().isDefined():
                    _note(found, state, identifier, streams)
        for schema in known_schemas - {s.lower() for s in _list(state.listDatabases())}:
            if TableName(schema, "") in self._known:
                self.catalog.remove_schema(schema)
        self._merge(found)

    def record_function(self, statement: FunctionStatement, schema: str) -> None:
        """After a statement that made or dropped a function; Spark keeps no text of it that could be run again."""
        if self.embedded and not statement.temporary:
            with self._lock:
                self._record_function(statement, schema)

    def _record_function(self, statement: FunctionStatement, schema: str) -> None:
        name = TableName.of(statement.name, schema)
        name = TableName(name.schema, f"{name.name}()")
        if statement.verb == "DROP":
            self.catalog.remove_table(name)
            self._known.pop(name, None)
            return
        if statement.if_missing and self.catalog.find_table(name) is not None:
            return
        entry = self.catalog.register_table(
            name, kind=TableKind.FUNCTION, location=schema.lower(), view_text=statement.body
        )
        self._known[name] = _stamp(entry)

    def _merge(self, found: dict[TableName, Any]) -> None:
        for entry in self.catalog.tables():
            if entry.kind is not TableKind.FUNCTION and entry.name not in found and entry.name in self._known:
                self.catalog.remove_table(entry.name)
                self._known.pop(entry.name)
                self._remove_files(entry)
        for name, table in found.items():
            kind = table.tableType().name()
            is_view = kind in ("VIEW", _METRICS)
            text = table.viewText().get() if is_view and table.viewText().isDefined() else None
            whole = with_column_names(text, table) if text and kind != _METRICS else text
            provider = table.provider().get() if table.provider().isDefined() else None
            entry = self.catalog.register_table(
                name,
                kind=TableKind.VIEW if is_view else TableKind.TABLE,
                provider=_METRICS if kind == _METRICS else provider,
                location=_namespace(table) if is_view else _path(table.location().toString()),
                view_text=whole,
            )
            if whole != text:
                self._known.pop(name, None)
                self._register(entry)  # as after a restart, so that what reads it compiles to the same
            self._known[name] = _stamp(entry)

    def _remove_files(self, entry: RegisteredTable) -> None:
        """Tables in the lake's own folder are managed: dropping one removes its files, also after a restart."""
        place = Path(entry.location or "")
        if entry.kind is TableKind.TABLE and self.layout.tables in place.parents and place.is_dir():
            shutil.rmtree(place)

    def _exists(self, name: TableName) -> bool:
        return bool(self.spark.catalog.tableExists(_sql(name)))


def _stamp(entry: RegisteredTable) -> str:
    return f"{entry.kind}:{entry.location}:{entry.view_text}"


def _made_again(entry: RegisteredTable) -> str:
    """The statement that makes a view or function as it was."""
    if entry.kind is TableKind.FUNCTION:
        return f"CREATE OR REPLACE FUNCTION {entry.view_text}"
    if entry.provider == _METRICS:
        return f"CREATE OR REPLACE VIEW {_sql(entry.name)} WITH METRICS LANGUAGE YAML AS $$\n{entry.view_text}\n$$"
    return f"CREATE OR REPLACE VIEW {_sql(entry.name)} AS {entry.view_text}"


def _closure(words: frozenset[str], entries: Mapping[TableName, RegisteredTable]) -> frozenset[str]:
    """The words, and those of the views and functions among them."""
    frontier = words
    while frontier:
        texts = [e.view_text or "" for e in entries.values() if e.word in frontier]
        frontier = frozenset(w for text in texts for w in mentioned(text)) - words
        words |= frontier
    return words


def _note(found: dict[TableName, Any], state: Any, identifier: Any, streams: set[TableName]) -> None:
    try:
        name = TableName.of([identifier.database().get(), identifier.table()])
    except FreshlakeError:
        return
    if name not in streams:
        found[name] = state.getTableMetadata(identifier)


def _is_gone(location: str | None, provider: str) -> bool:
    if not location or not location.startswith("/"):
        return False
    return not (Path(location, "_delta_log") if provider.lower() == "delta" else Path(location)).is_dir()


def _namespace(view: Any) -> str | None:
    parts = _list(view.viewCatalogAndNamespace())
    return str(parts[1]) if len(parts) > 1 else None


def _list(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def _sql(name: TableName) -> str:
    return f"{quote(name.spark_schema)}.{quote(name.name.removesuffix('()'))}"


def captured_relations(text: str, databases: Collection[str]) -> set[tuple[str, ...]]:
    """The relations of a text that are tables of these source databases."""
    return {parts for parts in relations(text) if len(parts) == 3 and parts[0] in databases} if databases else set()


def _spark_name(parts: tuple[str, ...]) -> tuple[str, ...]:
    return SEPARATOR.join(parts[:-1]), parts[-1]


def _path(uri: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(uri).path).rstrip("/") if uri.startswith("file:") else uri
