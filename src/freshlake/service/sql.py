"""fl.sql: Freshlake's own statements, protected stream tables, and everything else as Spark runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from freshlake.catalog.names import DEFAULT_SCHEMA, TableName
from freshlake.catalog.records import RegisteredTable, StreamTable
from freshlake.errors import (
    AlreadyExists,
    FreshlakeError,
    InvalidQuery,
    SourceDdlBlocked,
    StreamTableNotPopulated,
    StreamTableProtected,
)
from freshlake.refresh.edges import tracked
from freshlake.refresh.engine import Engine
from freshlake.refresh.layout import STREAMS
from freshlake.refresh.spark_errors import translated
from freshlake.service.held import left_out
from freshlake.service.immediate import Immediate
from freshlake.service.names import Names
from freshlake.statements.relations import renamed
from freshlake.statements.target import (
    DDL,
    defines_view,
    dropped_schema,
    first_word,
    mentioned,
    of_function,
    written,
    written_paths,
)

Read = Callable[[StreamTable], DataFrame]

_OF_COLUMNS = {
    *("AddColumns", "AlterColumns", "DropColumns", "RenameColumn", "ReplaceColumns"),
    *("DropTable", "RenameTable", "ReplaceTable", "ReplaceTableAsSelect"),
}
"""Kinds of statements, as Spark's parser calls them, after which a table has other columns, or is gone."""
_UNRESOLVED = re.compile(r"\[UNRESOLVED_COLUMN\S*\].*? with name (?:`(?:[^`]|``)+`\.)*`((?:[^`]|``)+)`", re.DOTALL)
"""What Spark says of a column that it does not find; its name without those before it."""
_STORE_PLAN = "spark.sql.legacy.storeAnalyzedPlanForView"


@dataclass
class Sql:
    engine: Engine
    names: Names
    read: Read
    immediate: Immediate

    def run(self, text: str) -> DataFrame:
        """A stream table's name means its published state at the moment of the call."""
        self.protect(text)
        self.names.show_all()
        self.names.ensure(text)
        is_ddl = first_word(text) in DDL
        if is_ddl and self.engine.settings.block_source_ddl:
            self._check_ddl(text)
        with self.immediate.maintained([] if is_ddl else self._targets(text)):
            return self._run(text)

    def write(self, frame: DataFrame, name: str, mode: str) -> None:
        """Write a DataFrame into a plain table."""
        target = TableName.parse(name, self.engine.spark.catalog.currentDatabase())
        if self.engine.catalog.find(target) is not None:
            raise _protected(f"stream table {target.short}", "INSERT")
        self.names.ensure(target.name)
        with self.immediate.maintained([str(target)]), translated():
            frame.write.format("delta").mode(mode).saveAsTable(str(target))
        self.engine.ddl += 1
        self.names.record()

    def _check_ddl(self, text: str) -> None:
        """Refuse what would change the columns of a table that is read, or remove it."""
        read = tracked(self.engine.catalog, self._targets(text))
        if read and self._parsed(text).getClass().getSimpleName() in _OF_COLUMNS:
            readers = sorted({r.full_name.short for e in read for r in self.engine.catalog.dependents(e.source_key)})
            raise SourceDdlBlocked(f"table {read[0].source_name} is read by {', '.join(readers)}")

    def _parsed(self, text: str) -> Any:
        with translated():
            return self.engine.spark._jsparkSession.sessionState().sqlParser().parsePlan(text)

    def _targets(self, text: str) -> list[str]:
        """The plain tables that the statement changes, by name or path."""
        found = []
        for parts in written(text):
            if parts[0].lower() == "delta" and len(parts) == 2:
                found.append(parts[1])
            elif len(parts) <= 3:
                with suppress(FreshlakeError):
                    found.append(str(TableName.of(parts, self.engine.spark.catalog.currentDatabase())))
        return found

    def _run(self, text: str) -> DataFrame:
        view, function = defines_view(text), of_function(text)
        schema = self.engine.spark.catalog.currentDatabase()
        with self._explained(text), translated():
            if view == "PERMANENT" or function:
                frame = self.engine.spark.sql(self.names.in_spark(text))
            else:
                with self._shown(text, schema) as rewritten, self._kept(view == "TEMPORARY"):
                    frame = self.engine.spark.sql(rewritten)
        if first_word(text) in DDL:
            self.engine.ddl += 1
            self.names.record()
            if function:
                self.names.record_function(function, schema)
        return frame

    @contextmanager
    def _explained(self, text: str) -> Iterator[None]:
        """A column that Spark cannot find may be one that is not captured."""
        try:
            yield
        except InvalidQuery as error:
            error.hint = self._left_out(text, error.message) or error.hint
            raise

    def _left_out(self, text: str, message: str) -> str | None:
        found = _UNRESOLVED.search(message)
        tables = [t for t in self.engine.catalog.stream_tables() if t.name in mentioned(text)] if found else []
        for table in tables:
            for column in left_out(self.engine.catalog, table):
                if found and column.lower() == found[1].replace("``", "`").lower():
                    return f"{table.full_name}.{column} is not captured: create a stream table that reads it"
        return None

    def protect(self, text: str) -> None:
        """Stream tables are written by refreshes only."""
        verb = first_word(text)
        if any(STREAMS in path for path in written_paths(text)):
            raise _protected("the storage of a stream table", verb)
        for parts in written(text):
            if any(STREAMS in part for part in parts):
                raise _protected("the storage of a stream table", verb)
            table = self._stream_table(parts)
            if table is None:
                continue
            if verb in ("CREATE", "REPLACE"):
                raise AlreadyExists(f"stream table {table.full_name.short} already exists", hint="choose another name")
            raise _protected(f"stream table {table.full_name.short}", verb)
        self._protect_schema(dropped_schema(text))

    def _protect_schema(self, schema: str | None) -> None:
        inside = [t.full_name.short for t in self.engine.catalog.stream_tables() if t.schema == schema]
        if inside:
            raise StreamTableProtected(
                f"schema {schema} holds stream tables: {', '.join(inside)}", hint="use DROP STREAM TABLE for them first"
            )

    def _stream_table(self, parts: tuple[str, ...]) -> StreamTable | None:
        try:
            name = TableName.of(parts, self.engine.spark.catalog.currentDatabase())
        except FreshlakeError:
            return None
        return self.engine.catalog.find(name)

    @contextmanager
    def _shown(self, text: str, schema: str, inside: frozenset[TableName] = frozenset()) -> Iterator[str]:
        """Show stream tables, and views that read them, as temporary views while Spark analyzes the text.

        Temporary views have no schema: those of other schemas get names of their own, which the text then uses.
        `inside` are the views whose text this is: a word there that equals their name is a column.
        """
        shown = self._states(text, inside)
        view_of = {name: name.name if name.spark_schema == schema else _alias(name) for name in shown}
        views = {view_of[name]: frame for name, frame in shown.items()}
        # a captured table may be written with its three parts, or as Spark knows it
        names = {tuple(str(name).split(".")): (view,) for name, view in view_of.items()}
        names |= {(name.spark_schema, name.name): (view,) for name, view in view_of.items()}
        try:
            for view, frame in views.items():
                frame.createOrReplaceTempView(view)
            yield self.names.in_spark(renamed(text, names))
        finally:
            for view in views:
                self.engine.spark.catalog.dropTempView(view)

    def _states(self, text: str, inside: frozenset[TableName]) -> dict[TableName, DataFrame]:
        mentions = mentioned(text)
        streams = self.engine.catalog.stream_tables()
        states = {}
        for table in (t for t in streams if t.name in mentions):
            if table.is_populated:
                states[table.full_name] = self.read(table)
            else:
                self._check_unread(text, table)
        for view in self.names.views_over({t.full_name for t in streams}, text):
            if view.name not in inside:
                states[view.name] = self._analyzed(view, inside | {view.name})
        return states

    def _analyzed(self, view: RegisteredTable, inside: frozenset[TableName]) -> DataFrame:
        schema = view.location or DEFAULT_SCHEMA
        with self.names.in_schema(schema), self._shown(view.view_text or "", schema, inside) as rewritten:
            return self.engine.spark.sql(rewritten)

    def _check_unread(self, text: str, table: StreamTable) -> None:
        """A word equal to the name of a table without data may be something else: Spark's parser knows."""
        plan = self._parsed(text).toString()
        if re.search(rf"UnresolvedRelation \[([\w, ]*, )?{table.name}\]", plan, re.I):
            raise StreamTableNotPopulated(
                f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
            )

    @contextmanager
    def _kept(self, wanted: bool) -> Iterator[None]:
        """A temporary view keeps the rows its stream tables have now; by text it would look for names that are gone."""
        spark = self.engine.spark
        if wanted:
            spark.conf.set(_STORE_PLAN, "true")
        try:
            yield
        finally:
            if wanted:
                spark.conf.unset(_STORE_PLAN)


def _alias(name: TableName) -> str:
    return f"__fl_{name.spark_schema}__{name.name}"


def _protected(what: str, verb: str) -> StreamTableProtected:
    hints = {
        "DROP": "use DROP STREAM TABLE",
        "ALTER": "use ALTER STREAM TABLE",
        "TRUNCATE": "change its sources, or drop and recreate it",
        "OPTIMIZE": "use FOLD STREAM TABLE",
        "VACUUM": "use VACUUM STREAM TABLE or fl.vacuum(name), which keep what readers need",
    }
    return StreamTableProtected(
        f"{what} is written by its refreshes only",
        hint=hints.get(verb, "change its sources and refresh, or put a view or a second stream table over it"),
    )
