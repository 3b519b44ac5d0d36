"""The queries of stream tables, compiled once per thread until a definition may have changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshlake.catalog.enums import DefinitionKind
from freshlake.catalog.idle import Standing
from freshlake.catalog.records import StreamTable
from freshlake.catalog.store import Catalog
from freshlake.clock import Clock
from freshlake.compiler.compile import CompiledQuery, compile_query
from freshlake.config import Settings
from freshlake.errors import FreshlakeError, InvalidQuery, TableNotFound
from freshlake.refresh.definition import Definition, code_of, definition_of
from freshlake.refresh.layout import Layout
from freshlake.refresh.meaning import means_the_same
from freshlake.refresh.spark_errors import translated
from freshlake.refresh.temporary import only_in_session
from freshlake.refresh.uses import texts_used
from freshlake.refresh.worker import Worker


@dataclass
class Queries:
    """What it takes to compile a definition; one per connection, shared by its threads."""

    catalog: Catalog
    layout: Layout
    spark: SparkSession
    settings: Settings
    clock: Clock
    _local: threading.local = field(default_factory=threading.local)
    _queries: dict[tuple[int, int], tuple[str, CompiledQuery]] = field(default_factory=dict)
    observer: Callable[[str], None] | None = None
    """Told of every step that a refresh or a fold reaches, in order."""
    ddl: int = 0
    """Counts statements that may change what a name means, so that plans compiled before are compiled again."""
    resolve: Callable[[str | None], None] = lambda _: None
    """Makes the names in a query text known to Spark; None stands for a function, which may read any table."""
    in_spark: Callable[[str], str] = lambda text: text
    """A query text with the names under which Spark knows its tables: it has no names of three parts."""

    def reached(self, step: str) -> None:
        if self.observer is not None:
            self.observer(step)

    @property
    def worker(self) -> Worker:
        if not hasattr(self._local, "worker"):
            self._local.worker = Worker.start(self.spark)
        worker: Worker = self._local.worker
        return worker

    def compile(self, definition: Definition, settings: Mapping[str, Any]) -> CompiledQuery:
        """Analyze and differentiate a definition under its pinned settings; nothing is run."""
        worker = self.worker
        if definition.kind is not DefinitionKind.CAPTURE:
            self.resolve(definition.text if definition.reference is None else None)
        worker.pin(settings)
        worker.forget_names()
        try:
            with definition.own_places(), translated():
                compiled = compile_query(self.frame(definition), worker.bridge, self.layout.source_key)
        except (InvalidQuery, TableNotFound) as error:
            if (why := only_in_session(error, self.spark)) is not None:
                raise why from error
            raise
        if definition.kind is DefinitionKind.CAPTURE:
            return compiled
        uses = {**compiled.uses, **texts_used(definition.text, self.catalog.tables())}
        if definition.written is None:
            return replace(compiled, uses=uses)
        return replace(compiled, uses=uses, reasons=tuple(replace(r, position=None) for r in compiled.reasons))

    def frame(self, definition: Definition) -> DataFrame:
        """The query as a user's session would analyze it, under the settings that are pinned now."""
        if definition.kind is DefinitionKind.SQL:
            definition = replace(definition, text=self.in_spark(definition.text))
        return definition.frame(self.worker.binding)

    def compiled(self, table: StreamTable) -> CompiledQuery:
        """The table's query, compiled once per thread until a definition may have changed."""
        key = (threading.get_ident(), table.id)
        stamp = self._stamp(table)
        if key not in self._queries or self._queries[key][0] != stamp:
            self._queries[key] = (stamp, self.compile(definition_of(table), table.session_settings))
        return self._queries[key][1]

    def keep(self, table: StreamTable, compiled: CompiledQuery) -> None:
        """What a new table's query has just been compiled to."""
        self._queries[threading.get_ident(), table.id] = (self._stamp(table), compiled)

    def _stamp(self, table: StreamTable) -> str:
        known = f"{self.ddl}:{self.catalog.names_stamp()}:{code_of(table)}"
        return f"{known}:{table.defining_query}:{table.definition_reference}:{table.fingerprint}"

    def means_the_same(self, table: StreamTable) -> bool:
        """Whether the query is what it was when the table was last loaded: a view may have been replaced, say."""
        known = self._queries.get((threading.get_ident(), table.id))
        if known is not None and known[0] == self._stamp(table):
            return True
        if self._reads_tables_only(table):
            return True
        try:
            return means_the_same(table, self.compiled(table))
        except FreshlakeError:
            return False

    def _reads_tables_only(self, table: StreamTable) -> bool:
        """Whether no name in the query can mean something else by now; in Spark's own catalog it may."""
        return self.unchanged_names()(table)

    def unchanged_names(self) -> Callable[[StreamTable | Standing], bool]:
        """As a test of many tables: whether a query is SQL text that names, and named, plain tables only."""
        names = self.catalog.tables()
        texts = {entry.word for entry in names if entry.has_text}

        def unchanged(table: StreamTable | Standing) -> bool:
            if table.definition_kind is DefinitionKind.CAPTURE:
                return True
            if not names or table.uses or table.definition_kind is not DefinitionKind.SQL:
                return False
            return texts.isdisjoint(_words(table.defining_query))

        return unchanged

    def forget(self, table: StreamTable) -> None:
        for key in [k for k in tuple(self._queries) if k[1] == table.id]:
            self._queries.pop(key, None)


@lru_cache(maxsize=10_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
