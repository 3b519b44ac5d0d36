"""Stream tables in the texts of users: temporary views of their published states while Spark analyzes a text.

All threads of a user share one session, and so its temporary views. One of them analyzes at a time: another one would
take the views away under it, and its text would find the states of the last folds, without a word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from freshlake.catalog.names import DEFAULT_SCHEMA, TableName
from freshlake.catalog.records import RegisteredTable, StreamTable
from freshlake.errors import StreamTableNotPopulated
from freshlake.refresh.engine import Engine
from freshlake.refresh.spark_errors import translated
from freshlake.service.names import Names
from freshlake.statements.relations import Parts, renamed
from freshlake.statements.target import mentioned

Read = Callable[[StreamTable], DataFrame]
States = Mapping[TableName, DataFrame]


@dataclass
class Shown:
    engine: Engine
    names: Names
    read: Read
    _alone: threading.RLock = field(default_factory=threading.RLock)

    def states(self, text: str) -> States:
        """What a text mentions that is to be shown: stream tables, and views that read some.

        To read a stream table may refresh it first; nobody else has to wait for that.
        """
        return self._states(text, frozenset())

    @contextmanager
    def analyzing(self, text: str, states: States) -> Iterator[str]:
        """What Spark has to analyze inside the block for the text to mean these states; no other thread analyzes."""
        spark = self.engine.spark
        with self._alone, _as_views(spark, spark.catalog.currentDatabase(), states) as views:
            yield self.names.in_spark(renamed(text, views))

    def _states(self, text: str, inside: frozenset[TableName]) -> States:
        """`inside` are the views whose text this is: a word there that equals their name is a column."""
        catalog = self.engine.catalog
        states: dict[TableName, DataFrame] = {}
        for table in catalog.stream_tables_among(mentioned(text)):
            if table.is_populated:
                states[table.full_name] = self.read(table)
            else:
                self._check_unread(text, table)
        for view in self.names.views_over(catalog.stream_table_names(), text):
            if view.name not in inside:
                states[view.name] = self._of_view(view, inside | {view.name})
        return states

    def _of_view(self, view: RegisteredTable, inside: frozenset[TableName]) -> DataFrame:
        schema, text, own = view.location or DEFAULT_SCHEMA, view.view_text or "", self.names.own
        states = self._states(text, inside)
        with own.in_schema(schema) as session:
            moved = {name: own.moved(frame, session) for name, frame in states.items()}
            with _as_views(session, schema, moved) as views:
                frame = session.sql(self.names.in_spark(renamed(text, views)))
            return own.moved(frame, self.engine.spark)

    def _check_unread(self, text: str, table: StreamTable) -> None:
        """A word equal to the name of a table without data may be something else: Spark's parser knows."""
        if re.search(rf"UnresolvedRelation \[([\w, ]*, )?{table.name}\]", self.parsed(text).toString(), re.I):
            raise StreamTableNotPopulated(
                f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
            )

    def parsed(self, text: str) -> Any:
        with translated():
            return self._state.sqlParser().parsePlan(text)

    def analyzed(self, text: str) -> Any:
        """The plan of a statement that is not carried out yet."""
        every_command = getattr(self._state, "executePlan$default$2")()
        return self._state.executePlan(self.parsed(text), every_command).analyzed()

    def carried_out(self, analyzed: Any) -> DataFrame:
        return self.names.own.frame(analyzed, self.engine.spark)

    @property
    def _state(self) -> Any:
        return self.engine.spark._jsparkSession.sessionState()


@contextmanager
def _as_views(spark: SparkSession, schema: str, states: States) -> Iterator[Mapping[Parts, Parts]]:
    """Temporary views of these states, and how names in a text lead to them; a view of the user's own comes back.

    Temporary views have no schema: those of other schemas get names of their own, which the text then uses.
    """
    catalog = spark._jsparkSession.sessionState().catalog()
    view_of = {name: name.name if name.spark_schema == schema else _alias(name) for name in states}
    before = {view: catalog.getRawTempView(view) for view in view_of.values()}
    try:
        for name, frame in states.items():
            # not as a user would: Spark would also forget rows that he cached
            catalog.dropTempView(view_of[name])
            frame.createTempView(view_of[name])
        # a captured table may be written with its three parts, or as Spark knows it
        views: dict[Parts, Parts] = {tuple(str(name).split(".")): (view,) for name, view in view_of.items()}
        yield views | {(name.spark_schema, name.name): (view,) for name, view in view_of.items()}
    finally:
        for view, own in before.items():
            catalog.dropTempView(view)
            if own.isDefined():
                catalog.createTempView(view, own.get(), True)


def _alias(name: TableName) -> str:
    return f"__fl_{name.spark_schema}__{name.name}"
