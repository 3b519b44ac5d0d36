"""Names: tables and stream tables of the lake are made known to Spark when a text mentions them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from freshlake.catalog.enums import TableKind
from freshlake.catalog.names import DEFAULT_SCHEMA, TableName
from freshlake.catalog.records import RegisteredTable, StreamTable
from freshlake.catalog.store import Catalog
from freshlake.compiler.plan import quote
from freshlake.errors import FreshlakeError
from freshlake.refresh.layout import Layout
from freshlake.refresh.spark_errors import translated
from freshlake.statements.target import mentioned


@dataclass
class Names:
    """Spark's own catalog is empty at every start; the lake's catalog remembers what was made through `fl.sql`.

    With `embedded` False the caller's Spark keeps its own catalog and only stream tables are added to it.
    """

    spark: SparkSession
    catalog: Catalog
    layout: Layout
    embedded: bool
    _known: dict[TableName, str] = field(default_factory=dict)

    def ensure(self, text: str | None) -> None:
        """Make what a text mentions (None: everything) resolvable; views bring what they read with them."""
        words = None if text is None else mentioned(text)
        if self.embedded:
            self._schemas()
            for entry in self._wanted(words):
                self._register(entry)
        for table in self.catalog.stream_tables():
            if (words is None or table.name in words) and table.output_schema is not None:
                self.show(table)

    def _wanted(self, words: frozenset[str] | None) -> list[RegisteredTable]:
        entries = list(self.catalog.tables())
        if words is None:
            return entries
        wanted: dict[TableName, RegisteredTable] = {}
        frontier = set(words)
        while frontier:
            found = [e for e in entries if e.name.name in frontier and e.name not in wanted]
            wanted |= {e.name: e for e in found}
            frontier = {w for e in found for w in mentioned(e.view_text or "")}
        return [e for e in entries if e.name in wanted]

    def _schemas(self) -> None:
        for schema in self.catalog.schemas():
            if self._known.get(TableName(schema.name, "")) is None:
                self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema.name)}")
                self._known[TableName(schema.name, "")] = "schema"

    def _register(self, entry: RegisteredTable) -> None:
        stamp = f"{entry.kind}:{entry.location}:{entry.view_text}"
        if self._known.get(entry.name) == stamp:
            return
        if entry.kind is TableKind.TABLE and not self._exists(entry.name):
            if entry.location and entry.location.startswith("/") and not Path(entry.location, "_delta_log").is_dir():
                self.catalog.remove_table(entry.name)  # dropped by another process, or by hand
                return
            place = (entry.location or "").replace("'", "\\'")
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {_sql(entry.name)} USING delta LOCATION '{place}'")
        elif entry.kind is TableKind.VIEW:
            self.spark.sql(f"CREATE OR REPLACE VIEW {_sql(entry.name)} AS {entry.view_text}")
        self._known[entry.name] = stamp

    def show(self, table: StreamTable) -> None:
        """A view over the base: what plain Spark sees is the state of the last fold, without hidden columns."""
        generation = table.generation or 1
        stamp = f"stream:{generation}:{table.fingerprint}"
        if self._known.get(table.full_name) == stamp:
            return
        base = f"{self.layout.root(table, generation).path}/base"
        if not Path(base, "_delta_log").exists():
            return
        storage = self.layout.root(table, generation)
        visible = {f["name"] for f in (table.output_schema or {})["fields"]}
        pairs = [(s.name, c.name) for s, c in zip(storage.stored, storage.schema, strict=True) if c.name in visible]
        columns = ", ".join(f"{quote(s)} AS {quote(c)}" for s, c in pairs)
        with translated():
            self.spark.sql(
                f"CREATE OR REPLACE VIEW {_sql(table.full_name)} AS SELECT {columns} FROM delta.{quote(base)}"
            )
        self._known[table.full_name] = stamp

    def hide(self, table: StreamTable) -> None:
        self._known.pop(table.full_name, None)
        self.spark.sql(f"DROP VIEW IF EXISTS {_sql(table.full_name)}")

    def record(self) -> None:
        """After DDL: bring the lake's catalog in step with Spark's."""
        if not self.embedded:
            return
        state = self.spark._jsparkSession.sessionState().catalog()
        streams = {t.full_name for t in self.catalog.stream_tables()}
        found: dict[TableName, Any] = {}
        known_schemas = {s.name for s in self.catalog.schemas()}
        for schema in _list(state.listDatabases()):
            if schema.lower() not in {*known_schemas, DEFAULT_SCHEMA}:
                self.catalog.register_schema(schema.lower())
            for identifier in _list(state.listTables(schema)):
                if identifier.database().isDefined():
                    _note(found, state, identifier, streams)
        for schema in known_schemas - {s.lower() for s in _list(state.listDatabases())}:
            if TableName(schema, "") in self._known:
                self.catalog.remove_schema(schema)
        self._merge(found)

    def _merge(self, found: dict[TableName, Any]) -> None:
        for entry in self.catalog.tables():
            if entry.name not in found and entry.name in self._known:
                self.catalog.remove_table(entry.name)
                self._known.pop(entry.name)
                self._remove_files(entry)
        for name, table in found.items():
            is_view = table.tableType().name() == "VIEW"
            text = table.viewText().get() if is_view and table.viewText().isDefined() else None
            location = None if is_view else _path(table.location().toString())
            entry = self.catalog.register_table(
                name,
                kind=TableKind.VIEW if is_view else TableKind.TABLE,
                provider=table.provider().get() if table.provider().isDefined() else None,
                location=location,
                view_text=text,
            )
            self._known[name] = f"{entry.kind}:{entry.location}:{entry.view_text}"

    def _remove_files(self, entry: RegisteredTable) -> None:
        """Tables in the lake's own folder are managed: dropping one removes its files, also after a restart."""
        place = Path(entry.location or "")
        if entry.kind is TableKind.TABLE and self.layout.tables in place.parents and place.is_dir():
            shutil.rmtree(place)

    def _exists(self, name: TableName) -> bool:
        return bool(self.spark.catalog.tableExists(_sql(name)))


def _note(found: dict[TableName, Any], state: Any, identifier: Any, streams: set[TableName]) -> None:
    try:
        name = TableName.of([identifier.database().get(), identifier.table()])
    except FreshlakeError:
        return
    if name not in streams:
        found[name] = state.getTableMetadata(identifier)


def _list(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def _sql(name: TableName) -> str:
    return f"{quote(name.schema)}.{quote(name.name)}"


def _path(uri: str) -> str:
    from urllib.parse import unquote, urlparse

    return unquote(urlparse(uri).path).rstrip("/") if uri.startswith("file:") else uri
