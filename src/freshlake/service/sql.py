"""fl.sql: Freshlake's own statements, protected stream tables, and everything else as Spark runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame

from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.errors import (
    AlreadyExists,
    FreshlakeError,
    InvalidQuery,
    SourceDdlBlocked,
    StreamTableProtected,
)
from freshlake.refresh.edges import tracked
from freshlake.refresh.engine import Engine
from freshlake.refresh.layout import STREAMS
from freshlake.refresh.spark_errors import translated
from freshlake.service.held import left_out
from freshlake.service.immediate import Immediate
from freshlake.service.names import Names
from freshlake.service.shown import Shown
from freshlake.statements.dynamic import written_out
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

_OF_COLUMNS = {
    *("AddColumns", "AlterColumns", "DropColumns", "RenameColumn", "ReplaceColumns"),
    *("DropTable", "RenameTable", "ReplaceTable", "ReplaceTableAsSelect"),
}
"""Kinds of statements, as Spark's parser calls them, after which a table has other columns, or is gone."""
_WRITES = {
    *("InsertIntoStatement", "MergeIntoTable", "DeleteFromTable", "UpdateTable"),
    *("CreateTableAsSelect", "ReplaceTableAsSelect"),
}
"""Kinds of statements that look nothing up any more once they are analyzed, and then may take long."""
_UNRESOLVED = re.compile(r"\[UNRESOLVED_COLUMN\S*\].*? with name (?:`(?:[^`]|``)+`\.)*`((?:[^`]|``)+)`", re.DOTALL)
"""What Spark says of a column that it does not find; its name without those before it."""
_STORE_PLAN = "spark.sql.legacy.storeAnalyzedPlanForView"


@dataclass
class Sql:
    engine: Engine
    names: Names
    shown: Shown
    immediate: Immediate

    def run(self, text: str) -> DataFrame:
        """A stream table's name means its published state at the moment of the call."""
        text = written_out(text)
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
        if read and self.shown.parsed(text).getClass().getSimpleName() in _OF_COLUMNS:
            readers = sorted({r.full_name.short for e in read for r in self.engine.catalog.dependents(e.source_key)})
            raise SourceDdlBlocked(f"table {read[0].source_name} is read by {', '.join(readers)}")

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
                # it keeps the names, so it is analyzed while nobody has views of these names in the session
                with self.shown.analyzing(text, {}) as rewritten:
                    frame = self.engine.spark.sql(rewritten)
            else:
                frame = self._result(text, keeps=view == "TEMPORARY")
        if first_word(text) in DDL:
            self.engine.ddl += 1
            self.names.record()
            if function:
                self.names.record_function(function, schema)
        return frame

    def _result(self, text: str, *, keeps: bool) -> DataFrame:
        spark, states = self.engine.spark, self.shown.states(text)
        if not states and not keeps and first_word(text) != "SHOW":
            return spark.sql(self.names.in_spark(text))
        with self.shown.analyzing(text, states) as rewritten, self._kept(keeps or first_word(text) == "CACHE"):
            if not written(text) or self.shown.parsed(rewritten).getClass().getSimpleName() not in _WRITES:
                return spark.sql(rewritten)
            write = self.shown.analyzed(rewritten)
        # others need not wait until it has written
        return self.shown.carried_out(write)

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
        if found is None:
            return None
        for table in self.engine.catalog.stream_tables_among(mentioned(text)):
            for column in left_out(self.engine.catalog, table):
                if column.lower() == found[1].replace("``", "`").lower():
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
        if schema := dropped_schema(text):
            self._protect_schema(schema)

    def _protect_schema(self, schema: str) -> None:
        inside = [name.short for name in self.engine.catalog.stream_table_names() if name.schema == schema]
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
    def _kept(self, wanted: bool) -> Iterator[None]:
        """A temporary view keeps the rows its stream tables have now; by text it would look for names that are gone.

        What is cached under a name is one, too.
        """
        spark = self.engine.spark
        if wanted:
            spark.conf.set(_STORE_PLAN, "true")
        try:
            yield
        finally:
            if wanted:
                spark.conf.unset(_STORE_PLAN)


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
