"""fl.sql: Freshlake's own statements, protected stream tables, and everything else as Spark runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from freshlake.catalog.names import TableName
from freshlake.catalog.records import StreamTable
from freshlake.errors import AlreadyExists, FreshlakeError, StreamTableProtected
from freshlake.refresh.engine import Engine
from freshlake.refresh.spark_errors import translated
from freshlake.service.names import Names
from freshlake.statements.target import DDL, first_word, mentioned, name_at, words, written

Read = Callable[[StreamTable], DataFrame]


@dataclass
class Sql:
    engine: Engine
    names: Names
    read: Read

    def run(self, text: str) -> DataFrame:
        """A stream table's name means its published state at the moment of the call."""
        self.protect(text)
        self.names.ensure(text)
        with translated(), self._stream_tables(text) as rewritten:
            frame = self.engine.spark.sql(rewritten)
        if first_word(text) in DDL:
            self.engine.ddl += 1
            self.names.record()
        return frame

    def protect(self, text: str) -> None:
        """Stream tables are written by refreshes only."""
        verb = first_word(text)
        for parts in written(text):
            if any("_freshlake/streams" in part for part in parts):
                raise _protected("the storage of a stream table", verb)
            table = self._stream_table(parts)
            if table is None:
                continue
            if verb in ("CREATE", "REPLACE"):
                raise AlreadyExists(f"stream table {table.full_name.short} already exists", hint="choose another name")
            raise _protected(f"stream table {table.full_name.short}", verb)

    def _stream_table(self, parts: tuple[str, ...]) -> StreamTable | None:
        try:
            name = TableName.of(parts, self.engine.spark.catalog.currentDatabase())
        except FreshlakeError:
            return None
        return self.engine.catalog.find(name)

    @contextmanager
    def _stream_tables(self, text: str) -> Iterator[str]:
        """Show the mentioned stream tables as temporary views while Spark analyzes the text."""
        mentions = mentioned(text)
        tables = [t for t in self.engine.catalog.stream_tables() if t.name in mentions and t.is_populated]
        made = []
        spark = self.engine.spark
        try:
            for table in tables:
                frame = self.read(table)
                for view in (table.name, _alias(table)):
                    frame.createOrReplaceTempView(view)
                    made.append(view)
            yield _without_schema(text, tables)
        finally:
            for view in made:
                spark.catalog.dropTempView(view)


def _alias(table: StreamTable) -> str:
    return f"__fl_{table.schema}__{table.name}"


def _without_schema(text: str, tables: list[StreamTable]) -> str:
    """Temporary views have no schema: `schema.table` becomes the view's own name, wherever it is written."""
    by_name = {(t.schema, t.name): t for t in tables}
    tokens, out, at = words(text), [], 0
    i = 0
    while i < len(tokens):
        parts = name_at(tokens, i)
        qualified = tuple(p.lower() for p in parts)
        start = 1 if qualified[:1] == ("spark_catalog",) else 0
        table = by_name.get(qualified[start : start + 2]) if len(qualified) - start >= 2 else None  # type: ignore[arg-type]
        preceded = i > 0 and tokens[i - 1].text == "."
        if table is not None and not preceded:
            last = tokens[i + 2 * (start + 1)]
            out += [text[at : tokens[i].start], f"`{_alias(table)}`"]
            at = last.end
            i += 2 * (start + 1) + 1
            continue
        i += 1
    return "".join([*out, text[at:]])


def _protected(what: str, verb: str) -> StreamTableProtected:
    hints = {
        "DROP": "use DROP STREAM TABLE",
        "ALTER": "use ALTER STREAM TABLE",
        "TRUNCATE": "change its sources, or drop and recreate it",
    }
    return StreamTableProtected(
        f"{what} is written by its refreshes only",
        hint=hints.get(verb, "change its sources and refresh, or put a view or a second stream table over it"),
    )
