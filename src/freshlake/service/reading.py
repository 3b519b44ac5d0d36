"""Reading stream tables: the published state, and the changes between versions."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from freshlake.catalog.records import StreamTable
from freshlake.errors import InvalidArgument, StreamTableNotPopulated
from freshlake.refresh.engine import Engine
from freshlake.storage.layout import FoldPoint


@dataclass
class Reading:
    engine: Engine

    def state(self, table: StreamTable) -> DataFrame:
        """The published rows, pinned: a later refresh does not change what this DataFrame shows."""
        self._check(table)
        generation, version = table.published_generation, table.published_version
        fold = self.engine.catalog.newest_fold(table.id, generation=generation, upto=version)
        assert fold is not None, "a published generation always has a fold"
        storage = self.engine.layout.root(table, generation)
        point = FoldPoint(fold.base_version, fold.folded_version)
        return storage.read(self.engine.spark, version, point, columns=self._visible(table))

    def changes(self, table: StreamTable, since: int) -> DataFrame:
        """Weighted rows of the versions after `since`, consolidated."""
        self._check(table)
        if not 0 <= since <= table.published_version:
            raise InvalidArgument(
                f"stream table {table.full_name.short} has no version {since}",
                hint=f"its published version is {table.published_version}",
            )
        storage = self.engine.layout.root(table, table.published_generation)
        relation = storage.changes(self.engine.spark, since, table.published_version, columns=self._visible(table))
        return relation.dataframe(self.engine.spark)

    def _visible(self, table: StreamTable) -> list[str]:
        assert table.output_schema is not None
        return [f["name"] for f in table.output_schema["fields"]]

    def _check(self, table: StreamTable) -> None:
        if not table.is_populated:
            raise StreamTableNotPopulated(
                f"stream table {table.full_name.short} has not been loaded yet", hint="refresh it first"
            )
